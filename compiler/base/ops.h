#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

/// The operations of scalar expressions, from the rows of ops.def: what front end, expressions and both backends know
/// of them.
namespace weft {

__extension__ using Wide = __int128;

enum class Op {
#define WEFT_OP(name, ...) name,
#include "compiler/base/ops.def"
};

enum class Form {
  leaf,
  prefix,
  infix,
  call,
  chain,     ///< a call of two arguments or more: `min(a, b, c)` is `min(min(a, b), c)`
  implicit,  ///< not written: the language inserts it
};

/// Types of operands → type of the value.
enum class Signature {
  none,        ///< of its own
  numbers,     ///< integers or reals → the same; an integer beside a real becomes real
  reals,       ///< reals → real; integers become real
  order,       ///< numbers → boolean
  equality,    ///< numbers or booleans → boolean
  logic,       ///< booleans → boolean
  choice,      ///< a boolean and two alike → these
  of_integer,  ///< integer → real
  of_real,     ///< real → integer
};

enum class Cost { simple, division, root, function, memory };

struct OpFacts {
  Op op;
  const char *word, *sign;
  Form form;
  std::size_t arity;
  Signature signature;
  Cost cost;
};

std::span<const OpFacts> all_ops();
const OpFacts& facts(Op op);
/// By what is written in the language, and how many operands it has.
std::optional<Op> find_op(std::string_view sign, std::size_t arity);

bool is_comparison(Op op);
inline bool divides(Op op) { return op == Op::divide || op == Op::modulo; }

/// The value, where it exists and fits.
std::optional<std::int64_t> fold_integer(Op op, std::int64_t a, std::int64_t b);
/// The same, total: overflow wraps, division by zero gives 0.
std::int64_t apply_integer(Op op, std::int64_t a, std::int64_t b);

/// The value of an operation on reals; NaN of others. `T`: double, or a number that has its operators and functions.
template <typename T>
T apply_real(Op op, const T& a, const T& b) {
  using std::exp, std::fabs, std::floor, std::fmax, std::fmin, std::log, std::sqrt, std::tanh;
#define WEFT_REALS(name, value, ...) \
  if (op == Op::name) return value;
#include "compiler/base/ops.def"
  return std::nan("");
}

template <typename T>
bool holds(Op op, const T& a, const T& b) {
#define WEFT_ORDER(name, holds, ...) \
  if (op == Op::name) return holds;
#include "compiler/base/ops.def"
  return false;
}

std::int64_t floor_div(std::int64_t a, std::int64_t b);
/// Never negative, also for a negative divisor, so that `%` is what the language page says.
std::int64_t floor_mod(std::int64_t a, std::int64_t b);

/// A real as an integer: the next one below, -2^30 or 2^30 beyond these, 0 of NaN.
inline constexpr std::int64_t kLargestWhole = std::int64_t{1} << 30;
std::int64_t whole_below(double x);

/// Ends are included.
struct WideInterval {
  Wide lo = 0, hi = 0;
};

/// Which values an operation on integers has, before it wraps, where its operands lie in `a` and `b`; of 64 bits each.
/// Empty for operations that have none on integers.
std::optional<WideInterval> interval_of(Op op, const WideInterval& a, const WideInterval& b);

}  // namespace weft
