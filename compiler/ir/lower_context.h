#pragma once

#include "compiler/ir/lower.h"
#include "dsl/diagnostics.h"

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

/// What the parts of the lowering share. One file each lowers parameters, expressions, sets, and
/// branches; lower.cpp puts a pattern together.
///
/// Functions that return a pointer or an optional return nothing after they reported an error; their
/// callers go on, so that one run finds several.
namespace weft::ir {

using dsl::Code;

/// What values of parameters reveal.
inline Diagnostic revealed(Code code, SourceRange range, std::string message, std::string label = {}) {
  return dsl::finding(code, range, std::move(message), std::move(label), dsl::Shown::by_values);
}

inline constexpr std::size_t kMostListItems = 1024;
inline constexpr std::size_t kMostBranches = 4096;
/// Segments, windows and the like: far beyond any tensor, and sums of two never overflow.
inline constexpr std::int64_t kLargestNumber = std::int64_t{1} << 40;

/// The text uses an input inside `blocks` of so many tokens; 0 where no block is around it yet.
struct BlockUse {
  int input = -1;
  std::int64_t block = 0;
  auto operator<=>(const BlockUse&) const = default;
};
using BlockUses = std::set<BlockUse>;

/// What a name stands for, or an expression gives.
struct Value {
  enum class Kind { none, expr, list, set } kind = Kind::none;
  ExprPtr expr = nullptr;
  std::vector<ExprPtr> list = {};
  SetPtr set = nullptr;
  /// The uses of inputs in the text of a definition, also where simplifying took them away.
  std::shared_ptr<const BlockUses> uses = nullptr;
};

inline Value value_of(ExprPtr e) { return e ? Value{.kind = Value::Kind::expr, .expr = std::move(e)} : Value{}; }
inline Value value_of(SetPtr s) { return s ? Value{.kind = Value::Kind::set, .set = std::move(s)} : Value{}; }
inline Value value_of(std::vector<ExprPtr> items) {
  return {.kind = Value::Kind::list, .expr = nullptr, .list = std::move(items)};
}

/// Names in force, innermost first.
struct Names {
  const Names* outer = nullptr;
  std::map<std::string, Value> values = {};
  std::int64_t depth = outer ? outer->depth + 1 : 0;

  const Value* find(const std::string& name) const {
    for (const Names* names = this; names; names = names->outer) {
      if (auto found = names->values.find(name); found != names->values.end()) return &found->second;
    }
    return nullptr;
  }
};

struct Lowering {
  const dsl::File& file;
  Pattern pattern = {};
  std::vector<Diagnostic> findings = {};
  std::vector<SetPtr> default_tops = {};  ///< `top` that left `causal` to the rest of the branch
  std::int64_t steps = 0;                 ///< nodes of the tree visited, deep ones more: comprehensions multiply
  std::int64_t block = 0;                 ///< tokens of the `blocks` around the text at hand; 0 outside
  BlockUses uses = {};                    ///< of inputs with `blocks` axes, as the text says them
  int unreachable = 0;                    ///< inside so much text that these parameters never evaluate

  bool exhausted = false;  ///< took all its steps, which is reported once
  bool lost = false;       ///< met what the front end's checks should have refused

  /// Nothing is said about what is never evaluated.
  void report(Diagnostic d);
  /// The text at hand uses the input, perhaps inside further blocks of its own.
  void use(int input, std::int64_t inner_block = 0);
  /// Takes so many steps for the text at `range`; false once there are too many.
  bool step(std::int64_t count, SourceRange range);
  /// For branches that a checked file never takes.
  std::nullptr_t lose() {
    lost = true;
    return nullptr;
  }
  bool failed() const;
  std::optional<int> find_input(const std::string& name) const;
};

/// What a name stands for where it is written; what it uses is used here.
const Value* recall(Lowering& l, const Names& names, const dsl::Expr& e);

// lower_expr.cpp
Value lower_value(Lowering& l, const Names& names, const dsl::Expr& e);
ExprPtr lower_expr(Lowering& l, const Names& names, const dsl::Expr& e);
std::optional<std::int64_t> lower_integer(Lowering& l, const Names& names, const dsl::Expr& e);
std::optional<double> lower_real(Lowering& l, const Names& names, const dsl::Expr& e);
std::optional<std::vector<ExprPtr>> lower_list(Lowering& l, const Names& names, const dsl::Expr& e);
std::optional<std::vector<std::int64_t>> lower_integers(Lowering& l, const Names& names, const dsl::Expr& e);
bool is_set(const Names& names, const dsl::Expr& e);
/// Reported even of text that is never evaluated: it was walked.
void report_too_large(Lowering& l, SourceRange range);
/// Reports a set or expression that is too large to walk, and drops it.
ExprPtr limited(Lowering& l, ExprPtr e, SourceRange range);
SetPtr limited(Lowering& l, SetPtr set, SourceRange range);

// lower_set.cpp
SetPtr lower_set(Lowering& l, const Names& names, const dsl::Expr& e);
/// Values of a call's arguments in the order of the word's parameters; null where one is left out.
std::vector<const dsl::Expr*> arguments(const dsl::Expr& call, const std::vector<std::string_view>& parameters);
/// The phase of a dilated branch; null (reported) when it is negative for some head.
ExprPtr lower_phase(Lowering& l, const Names& names, const dsl::Expr& e);

// lower_branches.cpp
std::vector<Branch> lower_branches(Lowering& l, const Names& names, const dsl::Statement& statement);
std::optional<HeadSet> lower_head_range(Lowering& l, const Names& names, const dsl::Expr& e);

// lower_params.cpp
/// Binds parameters to given values, else to their defaults.
void bind_params(Lowering& l, const dsl::PatternDef& def, const Params& given, Names& names);
/// The same for `use NAME(args);`, whose arguments are evaluated under the user's names.
void bind_arguments(Lowering& l, const dsl::PatternDef& def, const dsl::Expr& call, const Names& outer, Names& names);

// lower_finish.cpp
/// What needs the whole pattern: `top` beside `causal`, block sizes of inputs, branches that add
/// nothing.
void finish(Lowering& l);

}  // namespace weft::ir
