#pragma once

#include "dsl/ast.h"
#include "dsl/diagnostics.h"

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

/// The tables of words.def as values.
namespace weft::dsl {

/// What an argument must be.
enum class ArgType {
  integer,         ///< known before the kernel runs: constants and parameters
  boolean,         ///< likewise
  per_axis,        ///< an integer, or a list with one for each axis of the grid
  flag_per_axis,   ///< a boolean, or a list of them
  phase,           ///< an integer over `h`, `H` and the branch's own numbers
  branches_phase,  ///< … and the number `i` of the branch
  set,
  condition,  ///< a boolean over pairs
  queries,    ///< the word `all`
  scorer,     ///< `pooled` or `input(t)`
  document_input,
  lengths_input,
  table_input,
  integers,  ///< a list of integers
  policy,    ///< a head policy
};

/// Segments, windows and the like: far beyond any tensor, and sums of two never overflow.
inline constexpr std::int64_t kLargestNumber = std::int64_t{1} << 40;

/// A parameter of a set or of `branches dilated`.
struct Parameter {
  std::string_view name;
  ArgType type = ArgType::integer;
  bool required = true;
  std::int64_t minimum = -kLargestNumber;
  std::int64_t maximum = kLargestNumber;
  Code below = Code::value_range;  ///< what a value under the minimum is called

  constexpr Parameter optional() const {
    Parameter p = *this;
    p.required = false;
    return p;
  }
  constexpr Parameter of_any_size() const {
    Parameter p = *this;
    p.minimum = std::numeric_limits<std::int64_t>::min();
    p.maximum = std::numeric_limits<std::int64_t>::max();
    return p;
  }
  constexpr Parameter at_least(std::int64_t value, Code code = Code::value_range) const {
    Parameter p = *this;
    p.minimum = value;
    p.below = code;
    return p;
  }
};

struct SetWord {
  std::string_view name;
  std::vector<Parameter> parameters;
};

/// How a function's type follows from its arguments'.
enum class FunctionRule {
  join,        ///< numbers; real when one of them is
  real,        ///< numbers; always real
  slope,       ///< integer to real
  rounding,    ///< a number to an integer; where pairs are chosen, one that is known before the kernel runs
  choice,      ///< boolean and two alike
  length,      ///< list to integer
  quantifier,  ///< list of booleans, or a comprehension of them
  total,       ///< list of numbers, or a comprehension of them
};

struct FunctionWord {
  std::string_view name;
  FunctionRule rule;
  std::size_t least, most;
};

/// Where an expression stands; says which variables have a value there.
enum class Place {
  constant,  ///< none: constants and parameters only
  phase,     ///< over heads
  own,       ///< … and the numbers of one `dilated(…)`
  branches,  ///< … and which branch of a `branches` statement it is
  pair,      ///< a pair of query and key: `where`, indices, `scale`
  score,
};

struct VariableWord {
  std::string_view name;
  Place place;
};

enum class WordKind {
  item,
  operation,
  literal,
  param_type,
  dtype,
  element,
  axis,
  combine,
  weighting,
  layout,
  policy,
  scorer
};

struct StatementWord {
  StatementKind kind;
  std::string_view name;
  bool once;
};

struct KeyWord {
  std::string_view name;
  std::int64_t minimum;
};

const std::vector<StatementWord>& statement_words();
const std::vector<VariableWord>& variable_words();
const std::vector<KeyWord>& schedule_keys();
const std::vector<std::string>& words_of(WordKind kind);
/// Parameters of `dilated` in a `branches` statement, which takes lists.
const std::vector<Parameter>& branches_parameters();

/// Null when there is no such word.
const SetWord* find_set(std::string_view name);
const FunctionWord* find_function(std::string_view name);
const VariableWord* find_variable(std::string_view name);

std::string_view spelling(StatementKind kind);
bool is_one_of(WordKind kind, std::string_view word);

/// Words a user cannot define. Argument names, schedule keys and words that mean something only
/// inside `dilated(…)` (`rate`, `i`) stay free.
bool is_reserved(std::string_view word);

/// The word that means what FlexAttention or Python calls `name`; empty for any other.
std::string_view word_elsewhere(std::string_view name);
/// The same among the words of one kind: `float16` is the dtype `f16`.
std::string_view word_elsewhere(std::string_view name, WordKind kind);

std::vector<std::string> set_names();
std::vector<std::string> function_names();

}  // namespace weft::dsl
