#pragma once

#include "dsl/findings.h"

#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace weft::dsl {

inline constexpr std::size_t kMostBranches = 4096;
inline constexpr std::size_t kMostInputs = 256;
inline constexpr std::size_t kMostStatements = std::size_t{1} << 20;
inline constexpr int kDeepestUse = 64;

/// What a pattern consists of when the patterns that it uses are counted in.
struct Summary {
  std::map<StatementKind, const Statement*> once;  ///< statements that may stand once
  std::map<std::string, const Statement*> inputs;  ///< at most kMostInputs
  std::size_t branches = 0;                        ///< at least so many
  std::size_t statements = 0;                      ///< written out; stops at kMostStatements
};

/// Follows `use`. Linear in the file: each pattern is summed up once.
class Uses {
 public:
  Uses(const File& file, Findings& findings);

  /// Reports cycles, chains deeper than the nesting limit, and statements that stand twice.
  const Summary& summary(const PatternDef& pattern);

  /// The pattern named in a `use`, or null.
  const PatternDef* target(const Statement& use) const;
  bool is_used(const PatternDef& pattern) const { return used_.contains(&pattern); }
  /// Names of patterns, for "did you mean"; not all of a very large file's.
  std::vector<std::string> names() const;

 private:
  struct Entry {
    enum class State { fresh, visiting, done } state = State::fresh;
    int height = 0;
    Summary summary;
  };
  void visit(const PatternDef& pattern, Entry& entry);
  void add_use(const Statement& use, Entry& entry);
  void add_once(StatementKind kind, const Statement& statement, const Statement* use, Summary& summary);
  void add_input(const Statement& input, const Statement* use, Summary& summary);

  Findings& findings_;
  std::unordered_map<std::string, const PatternDef*> patterns_;
  std::unordered_map<const PatternDef*, Entry> entries_;
  std::unordered_set<const PatternDef*> used_;
  int depth_ = 0;
};

}  // namespace weft::dsl
