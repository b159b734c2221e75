#pragma once

#include "dsl/findings.h"
#include "dsl/scope.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::dsl {

/// Where an expression stands.
struct Context {
  Variables variables = 0;  ///< that have a value
  std::string where;        ///< for messages: `an argument of 'window'`
  bool strict = false;      ///< integers and reals do not mix
  bool rounds = false;      ///< reals that a kernel computes may become integers
  bool in_blocks = false;   ///< `q` and `k` are block numbers
  bool sizes = false;       ///< no `let` is known yet
  bool deferred = false;    ///< of a `let`: whether blocks are around shows where its name is used
};

/// Why no pair is chosen by what a kernel rounds.
inline constexpr std::string_view kExact =
    "which pairs are kept is exact; a score, and an index in one, may round what a kernel computes";

/// The context of something that must be known before a kernel runs.
Context constant_context(std::string where);
/// … and even before the definitions of the pattern.
Context size_context(std::string where);

/// Types of expressions, and what else is known of them without parameters. Reports what is wrong
/// and returns `Kind::unknown` then, so that one mistake gives one message.
class ExpressionChecker {
 public:
  ExpressionChecker(Findings& findings, Scope& scope) : findings_(findings), scope_(scope) {}

  Typed check(const Expr& e, const Context& context);

  // The same, with what is wanted there.
  Typed integer(const Expr& e, const Context& context);
  Typed number(const Expr& e, const Context& context);
  Typed boolean(const Expr& e, const Context& context);
  void set(const Expr& e, const Context& context);
  /// A list of integers, each at least what `parameter` wants.
  Typed integers(const Expr& e, const Parameter& parameter);
  /// `lo..hi` over heads; both ends when they are known.
  std::optional<std::pair<std::int64_t, std::int64_t>> head_range(const Expr& e);

  /// Arguments by parameter (null where left out) after reporting those that do not fit.
  std::vector<const Expr*> match(const Expr& call, const std::vector<Parameter>& parameters);
  /// `call` is the range of the call around it.
  void argument(const Expr& e, const Parameter& parameter, std::string_view callee, const Context& context,
                SourceRange call);

  /// The value, if it is a known integer, is at least `minimum`.
  void at_least(const Typed& typed, const Expr& e, std::string_view what, std::int64_t minimum,
                Code code = Code::value_range);
  void wrong_type(const Expr& e, const Typed& found, std::string_view wanted);

  /// What the expressions checked since the last call do besides having a value.
  Effects take_effects() { return std::exchange(effects_, {}); }

  void set_grid(std::optional<std::size_t> extents) { grid_ = extents; }
  /// Heads, where the pattern fixes them.
  void set_heads(std::optional<std::int64_t> heads) { heads_ = heads; }

 private:
  struct Bound {
    std::string name;
    Typed typed;
  };

  // expression_checker.cpp: names, numbers, operators
  Typed list(const Expr& e, const Context& context);
  Typed name(const Expr& e, const Context& context);
  Typed symbol(const Expr& e, Symbol& symbol, const Context& context);
  Typed variable(const Expr& e, std::string_view word, const Context& context);
  Typed unknown_name(const Expr& e);
  Typed range(const Expr& e, const Context& context);

  // operator_checker.cpp
  Typed unary(const Expr& e, const Context& context);
  Typed binary(const Expr& e, const Context& context);
  Typed sets(const Expr& e, const Typed& left, const Typed& right);
  Typed arithmetic(const Expr& e, const Typed& left, const Typed& right, const Context& context);
  Typed logical(const Expr& e, const Typed& left, const Typed& right);
  bool boolean_as_number(const Expr& e, const Typed& left, const Typed& right);
  bool arithmetic_on_sets(const Expr& e, const Typed& left, const Typed& right);
  Typed compare(const Expr& e, const Context& context);
  void compare_pair(const Expr& e, std::size_t i, const Typed& left, const Typed& right, const Context& context);
  void wrong_connective(const Expr& e, std::string_view written, std::string_view meant, std::string_view kind);
  Kind join(const Expr& e, const Expr& a, const Typed& left, const Expr& b, const Typed& right, const Context& context);
  void mixed(const Expr& e, std::string message, const Context& context, const Expr* real = nullptr);
  Typed folded(const Expr& e, Kind kind, const Folded& folded);

  // call_checker.cpp: calls, comprehensions, indices
  Typed call(const Expr& e, const Context& context);
  Typed unknown_call(const Expr& e);
  Typed function(const Expr& e, const FunctionWord& word, const Context& context);
  Typed rounding(const Expr& e, const FunctionWord& word, const Context& context);
  Typed function_type(const Expr& e, const FunctionWord& word, const std::vector<Typed>& args, const Context& context);
  Typed over_list(const Expr& e, const FunctionWord& word, const Typed& list);
  Typed comprehension(const Expr& e, const Context& context);
  Typed index(const Expr& e, const Context& context);
  Typed list_index(const Expr& e, const Typed& base, const Context& context);
  Typed input_index(const Expr& e, const Statement& input, const Context& context);
  void index_bound(const Expr& e, const Typed& index, std::int64_t extent, std::string_view what);

  // set_checker.cpp
  Typed set_call(const Expr& e, const SetWord& word, const Context& context);
  void per_axis(const Expr& e, const Parameter& parameter, Kind wanted);
  bool sets_in_condition(const Expr& e, SourceRange whole);
  bool is_set(const Expr& e);
  void queries(const Expr& e);
  void scorer(const Expr& e, const Context& context);
  void policy(const Expr& e);
  const Statement* input_named(const Expr& e, std::string_view callee, const Context& context);
  void fit_input(const Expr& e, const Parameter& parameter, std::string_view callee, const Context& context);

  Findings& findings_;
  Scope& scope_;
  std::vector<Bound> bound_;  ///< variables of the comprehensions around
  Effects effects_;
  std::optional<std::size_t> grid_;
  std::optional<std::int64_t> heads_;
};

/// `an integer`, `a list of reals`, …
std::string describe(const Typed& typed);

inline bool is_number(Kind kind) { return kind == Kind::integer || kind == Kind::real; }

}  // namespace weft::dsl
