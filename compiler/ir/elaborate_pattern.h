#pragma once

#include "compiler/ir/elaborate.h"
#include "compiler/ir/lower.h"
#include "dsl/uses.h"

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace weft::ir {

/// Reports a name that is a word of the language; false then.
bool check_name(dsl::Findings& findings, const std::string& name, SourceRange place);

/// What a pattern defines, for those that use it.
struct Definitions {
  std::vector<std::pair<std::string, Symbol>> lets = {};
  std::vector<Input> inputs = {};  ///< with those that it takes itself; lowering has them already
};

/// The constants of a file.
void define_constants(Elaboration& run, Names& constants);

class PatternElaborator;

/// What the patterns of one run share.
struct Together {
  Elaboration& run;
  Names& constants;
  dsl::Uses& uses;
  /// By pattern, where each is checked once, …
  std::unordered_map<const dsl::PatternDef*, Definitions> definitions = {};
  /// … and where patterns are lowered, those in use.
  std::deque<std::unique_ptr<PatternElaborator>> used = {};
  /// What waits until all names are known: statements with the pattern whose names are in force.
  std::vector<std::pair<PatternElaborator*, const dsl::Statement*>> rest = {};
  std::vector<SetPtr> keeps = {};
  SourceRange combine_range = {}, sink_range = {}, weights_range = {};
};

/// One pattern: its sizes, its definitions in order, then all else. A set may use a name that is defined below it.
class PatternElaborator {
 public:
  PatternElaborator(Together& all, const dsl::PatternDef& pattern);

  /// Parameters have these values, by their number; else their defaults, and where there are holes, none.
  void bind(const std::vector<Value>& given);
  /// Sizes and definitions, also those of patterns in use.
  void open();
  void statement(const dsl::Statement& s);

  void report_unused();
  Definitions definitions() const;

 private:
  void bind(const dsl::Param& param, const Value& given);
  void declare_inputs();
  void take(const dsl::PatternDef& used, const Definitions& definitions);
  void announce_lets();
  void define(const std::string& name, Symbol symbol);
  std::optional<std::int64_t> positive(const dsl::ExprPtr& e, const Context& context);

  void header(const dsl::Statement& s);
  void heads(const dsl::Statement& s);
  void dim(const dsl::Statement& s);
  void tokens(const dsl::Statement& s);
  void grid(const dsl::Statement& s);
  void input(const dsl::Statement& s);
  std::optional<std::int64_t> extent(const dsl::Axis& axis);
  void let(const dsl::Statement& s);
  void use(const dsl::Statement& s);
  std::vector<Value> use_arguments(const dsl::Expr& call, const dsl::PatternDef& target);

  void branch(const dsl::Statement& s);
  void branches(const dsl::Statement& s);
  void make_branches(const dsl::Statement& s, const std::vector<const dsl::Expr*>& args,
                     const std::vector<Value>& values);
  std::optional<std::vector<HeadSet>> policy(const dsl::Expr* e, std::size_t count);
  void add(Branch branch);
  void combine(const dsl::Statement& s);
  void scale(const dsl::Statement& s);
  void factor(const dsl::Statement& s, Place place, std::string where, ExprPtr& out);
  void weights(const dsl::Statement& s);
  void dropout(const dsl::Statement& s);
  void ring(const dsl::Statement& s);
  void schedule(const dsl::Statement& s);
  void one_of(dsl::WordKind kind, const std::string& word, SourceRange place, std::string_view what);

  Together& all_;
  Elaboration& run_;
  dsl::Findings& findings_;
  const dsl::PatternDef& pattern_;
  Names names_;
  Elaborator expressions_;
};

/// What needs the whole pattern: `top` beside `causal`, block sizes of inputs, branches that add nothing.
void finish(Elaboration& run);

/// The value as a parameter's type wants it; unknown when it cannot be.
Value fitted(Value value, dsl::ParamType type);
/// The values that are given from outside, by parameter; reports those that do not fit.
std::vector<Value> values_of(Elaboration& run, const dsl::PatternDef& def, const Params& given);

}  // namespace weft::ir
