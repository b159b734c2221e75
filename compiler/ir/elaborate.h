#pragma once

#include "compiler/ir/names.h"
#include "compiler/ir/pattern.h"
#include "dsl/findings.h"
#include "dsl/uses.h"

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// What a syntax tree means, said once: `check` runs it with holes for what a text leaves open, `lower` with values for
/// everything, and then it gives the pattern.
///
/// What is wrong is reported, and its value is `Kind::unknown`, about which nothing more is said: one mistake gives one
/// message, and one run finds several.
namespace weft::ir {

using dsl::Code, dsl::ExprKind, dsl::Operator, dsl::Parameter, dsl::Place;

/// Where an expression stands.
struct Context {
  Variables variables = 0;  ///< that have a value
  std::string where;        ///< for messages: `an argument of 'window'`
  bool inputs = false;      ///< may be read
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
Context set_context();

/// What one run knows and makes.
struct Elaboration {
  Elaboration(const dsl::File& tree, bool with_holes)
      : file(tree), findings(tree.text, with_holes ? dsl::Shown::by_text : dsl::Shown::by_values), holes(with_holes) {}

  const dsl::File& file;
  dsl::Findings findings;
  bool holes;                              ///< parameters have no values
  Pattern pattern = {};                    ///< as far as it is made
  std::optional<std::size_t> grid = {};    ///< number of its axes
  std::optional<std::int64_t> heads = {};  ///< where the pattern fixes them
  std::vector<SetPtr> default_tops = {};   ///< `top` that left `causal` to the rest of the branch
  BlockUses uses = {};                     ///< of inputs with `blocks` axes, as the text says them
  std::int64_t block = 0;                  ///< tokens of the `blocks` around the text at hand; 0 outside
  std::int64_t steps = 0;                  ///< nodes of the tree visited, deep ones more: comprehensions multiply
  int unreachable = 0;                     ///< inside so much text that is never evaluated
  bool exhausted = false;                  ///< took all its steps, which is reported once

  /// Another pattern, of which this is known with all that it uses.
  void begin(const dsl::Summary& summary);
  std::optional<int> find_input(const std::string& name) const;
};

inline constexpr std::string_view kTooLarge = "this is too large once names and lists are written out";
/// Is it too large to walk?
bool is_too_large(const Set& set);

/// A call of a set with its arguments in the order of the word's parameters; unknown where one is left out.
struct SetCall {
  const dsl::Expr& e;
  const std::vector<Parameter>& parameters;
  const std::vector<Value>& args;
};

/// Expressions under the names of one pattern.
class Elaborator {
 public:
  Elaborator(Elaboration& run, Names& names) : run_(run), findings_(run.findings), names_(names) {}

  Value value(const dsl::Expr& e, const Context& context);

  // The same, with what is wanted there. Where no variable has a value, a constant is.
  Value integer(const dsl::Expr& e, const Context& context);
  Value number(const dsl::Expr& e, const Context& context);
  Value boolean(const dsl::Expr& e, const Context& context);
  /// Null where the set is not known, or wrong.
  SetPtr set(const dsl::Expr& e, const Context& context);
  /// A list of integers, each as `parameter` wants it.
  Value integers(const dsl::Expr& e, const Parameter& parameter);
  /// `lo..hi` over heads, where both ends are known.
  std::optional<HeadSet> head_range(const dsl::Expr& e);
  /// Ranges that share out the heads; empty where they are not known, or wrong.
  std::optional<std::vector<HeadSet>> head_ranges(const dsl::Expr& list, bool gaps);
  /// The phase of branch number `index`.
  Value phase(const dsl::Expr& e, const Parameter& parameter, Value segment, Value rate, Value index);

  /// Arguments by parameter (null where left out) after reporting those that do not fit.
  std::vector<const dsl::Expr*> match(const dsl::Expr& call, const std::vector<Parameter>& parameters);
  /// `call` is the range of the call around it.
  Value argument(const dsl::Expr& e, const Parameter& parameter, std::string_view callee, const Context& context,
                 SourceRange call);
  /// Reports a word that is no policy of heads.
  bool is_policy(const dsl::Expr& e);

  /// Reports a known integer that is outside; true for all others.
  bool within(const Value& value, const dsl::Expr& e, std::string_view what, std::int64_t least,
              std::int64_t most = INT64_MAX, Code below = Code::value_range);
  void wrong_type(const dsl::Expr& e, const Value& found, std::string_view wanted);

  /// What the expressions since the last call do besides having a value.
  Effects take_effects() { return std::exchange(effects_, {}); }

 private:
  using Args = std::vector<ExprPtr>;
  struct Bound {
    std::string name;
    Value value;
  };

  // elaborate.cpp: names, numbers, lists
  Value list(const dsl::Expr& e, const Context& context);
  Value range(const dsl::Expr& e, const Context& context);
  Value name(const dsl::Expr& e, const Context& context);
  Value symbol(const dsl::Expr& e, Symbol& symbol, const Context& context);
  Value variable(const dsl::Expr& e, const dsl::VariableWord& word, const Context& context);
  Value set_name(const dsl::Expr& e, const dsl::SetWord& word);
  Value unknown_name(const dsl::Expr& e);
  bool is_number_at(const Value& value, const dsl::Expr& e, const Context& context);
  /// Takes so many steps; false once there are too many.
  bool step(std::size_t count, SourceRange range);
  void too_large(SourceRange range);
  /// Reports what is too large to walk, and drops it.
  Value limited(Value value, SourceRange range);
  SetPtr limited(SetPtr set, SourceRange range);

  // elaborate_operators.cpp
  Value unary(const dsl::Expr& e, const Context& context);
  Value binary(const dsl::Expr& e, const Context& context);
  Value sets(const dsl::Expr& e, std::vector<SetPtr> parts);
  Value of_sets(const dsl::Expr& e, const Value& left, const Value& right);
  Value arithmetic(const dsl::Expr& e, const Value& left, const Value& right, const Context& context);
  Value logical(const dsl::Expr& e, const Value& left, const Value& right);
  bool boolean_as_number(const dsl::Expr& e, const Value& left, const Value& right);
  bool arithmetic_on_sets(const dsl::Expr& e, const Value& left, const Value& right);
  Value compare(const dsl::Expr& e, const Context& context);
  Value compare_pair(const dsl::Expr& e, std::size_t i, const Value& left, const Value& right, const Context& context);
  Value membership(const dsl::Expr& e, std::size_t i, const Value& left, const Value& right, const Context& context);
  void wrong_connective(const dsl::Expr& e, std::string_view written, std::string_view meant, std::string_view kind);
  Kind join(const dsl::Expr& e, const dsl::Expr& a, Kind left, const dsl::Expr& b, Kind right, const Context& context);
  void mixed(const dsl::Expr& e, std::string message, const Context& context, const dsl::Expr* real = nullptr);
  /// The operation on these operands: folded where they are known, a hole where one is.
  Value made(const dsl::Expr& e, Kind kind, Op op, Args args);
  /// The same for what is written with an operator.
  Value made(const dsl::Expr& e, Kind kind, Operator op, Args args);
  /// Folds items from the left.
  Value chain(const dsl::Expr& e, Kind kind, Op op, const Args& items);
  /// Reports what values show; of text that is never evaluated nothing is said, and a 0 stands for its value.
  Value troubled(Code code, const dsl::Expr& e, Kind kind, std::string message, std::string label = {});
  /// The value of text that is written and, where `skipped`, never evaluated.
  Value evaluated(const dsl::Expr& e, const Context& context, bool skipped);

  // elaborate_calls.cpp: calls, comprehensions
  Value call(const dsl::Expr& e, const Context& context);
  Value unknown_call(const dsl::Expr& e);
  Value function(const dsl::Expr& e, const dsl::FunctionWord& word, const Context& context);
  Value rounding(const dsl::Expr& e, const dsl::FunctionWord& word, const Context& context);
  Value rounded(const dsl::Expr& e, const dsl::FunctionWord& word, const Value& arg);
  Value choice(const dsl::Expr& e, const Context& context);
  Value slope(const dsl::Expr& e, const dsl::FunctionWord& word, const Value& head, const Context& context);
  Value of_numbers(const dsl::Expr& e, const dsl::FunctionWord& word, std::vector<Value> args, const Context& context);
  Value over_list(const dsl::Expr& e, const dsl::FunctionWord& word, const Value& list);
  Value comprehension(const dsl::Expr& e, const Context& context);
  Value body(const dsl::Expr& e, Value item, const Context& context);
  Value quantified(const dsl::Expr& e, Kind kind, const Args& items);
  /// The items of a known list or range, null otherwise.
  std::shared_ptr<const std::vector<Value>> items_of(const Value& value, const dsl::Expr& e);

  // elaborate_indices.cpp
  Value index(const dsl::Expr& e, const Context& context);
  Value list_index(const dsl::Expr& e, const Value& base, const Context& context);
  Value choose(const dsl::Expr& e, const Value& base, const ExprPtr& at);
  Value input_index(const dsl::Expr& e, const dsl::Statement& input, const Context& context);
  bool index_bound(const dsl::Expr& e, const Value& index, std::int64_t extent, std::string_view what);
  void check_index(const dsl::Expr& e, const Input& input, std::size_t axis, const Value& index);
  void use(int input, std::int64_t inner_block = 0);

  // elaborate_sets.cpp
  Value set_call(const dsl::Expr& e, const dsl::SetWord& word, const Context& context);
  Value phase(const dsl::Expr& e, const Parameter& parameter);
  Value per_axis(const dsl::Expr& e, const Parameter& parameter, Kind wanted);
  bool sets_in_condition(const dsl::Expr& e, SourceRange whole);
  bool is_set(const dsl::Expr& e);
  void queries(const dsl::Expr& e);
  Value scorer(const dsl::Expr& e, const Context& context);
  const dsl::Statement* input_named(const dsl::Expr& e, std::string_view callee, const Context& context);
  Value fit_input(const dsl::Expr& e, const Parameter& parameter, std::string_view callee, const Context& context);

  // make_sets.cpp: one for each word of sets.def
  SetPtr made_set(const SetCall& call);
  SetPtr numbers(const SetCall& call, SetKind kind);
  SetPtr random(const SetCall& call, SetKind kind);
  SetPtr dilated(const SetCall& call, SetKind kind);
  SetPtr neighborhood(const SetCall& call, SetKind kind);
  SetPtr blocks(const SetCall& call, SetKind kind);
  SetPtr from_input(const SetCall& call, SetKind kind);
  SetPtr top(const SetCall& call, SetKind kind);
  SetPtr where(const SetCall& call, SetKind kind);
  bool fits_grid(const SetCall& call, const std::int64_t* row, std::size_t axis);
  int number_of_input(const Value& input);

  Elaboration& run_;
  dsl::Findings& findings_;
  Names& names_;
  std::vector<Bound> bound_;                             ///< variables of the comprehensions around
  std::vector<std::pair<std::string_view, Value>> own_;  ///< numbers of the branch whose phase this is
  Effects effects_;
};

}  // namespace weft::ir
