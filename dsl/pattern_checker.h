#pragma once

#include "dsl/expression_checker.h"
#include "dsl/findings.h"
#include "dsl/scope.h"
#include "dsl/uses.h"

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace weft::dsl {

/// Reports a name that is a word of the language; false then.
bool check_name(Findings& findings, const std::string& name, SourceRange place);

/// What a value for a parameter of type `type` must be; true when `typed` is.
bool fits(const Typed& typed, ParamType type);

/// What each pattern defines with `let`, for those that use it.
using Definitions = std::unordered_map<const PatternDef*, std::vector<std::pair<std::string, Symbol>>>;

/// One pattern, after those that it uses: its sizes, its definitions in order, then all else.
class PatternChecker {
 public:
  PatternChecker(const PatternDef& pattern, Scope& constants, Uses& uses, Definitions& definitions, Findings& findings);
  void run();

 private:
  void params();
  void declare_inputs();
  void take(const PatternDef& used);
  void announce_lets();
  void define(const std::string& name, Symbol symbol);
  void fixed_sizes(const Summary& summary);
  void report_unused();

  void statement(const Statement& s);
  void heads(const Statement& s);
  void dim(const Statement& s);
  void positive(const Expr& e, const Context& context);
  void tokens(const Statement& s);
  void grid(const Statement& s);
  void input(const Statement& s);
  void axis(const Axis& axis);
  void let(const Statement& s);
  void branch(const Statement& s);
  void branches(const Statement& s);
  void combine(const Statement& s);
  void weights(const Statement& s);
  void dropout(const Statement& s);
  void ring(const Statement& s);
  void schedule(const Statement& s);
  void use(const Statement& s);
  void use_arguments(const Expr& call, const PatternDef& target);
  void one_of(WordKind kind, const std::string& word, SourceRange place, std::string_view what);

  const PatternDef& pattern_;
  Findings& findings_;
  Uses& uses_;
  Scope scope_;
  Definitions& definitions_;
  ExpressionChecker expressions_;
};

}  // namespace weft::dsl
