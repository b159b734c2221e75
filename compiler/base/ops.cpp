#include "compiler/base/ops.h"

#include <algorithm>
#include <cmath>

namespace weft {
namespace {

constexpr OpFacts kOps[] = {
#define WEFT_OP(name, word, sign, form, arity, signature, cost) \
  {Op::name, word, sign, Form::form, arity, Signature::signature, Cost::cost},
#include "compiler/base/ops.def"
};

constexpr bool is_complete(const OpFacts& facts) {
  bool integers = facts.signature != Signature::numbers;
  bool reals = integers && facts.signature != Signature::reals;
  bool order = facts.signature != Signature::order && facts.signature != Signature::equality;
#define WEFT_INTEGERS(name, ...) integers = integers || facts.op == Op::name;
#define WEFT_REALS(name, ...) reals = reals || facts.op == Op::name;
#define WEFT_ORDER(name, ...) order = order || facts.op == Op::name;
#include "compiler/base/ops.def"
  return integers && reals && order;
}
static_assert(std::all_of(std::begin(kOps), std::end(kOps), is_complete), "an operation lacks a line of ops.def");

/// Of numbers of 64 bits; only by -1 the quotient may need one more.
Wide floored(Wide a, Wide b) {
  return b == -1 ? -a : floor_div(static_cast<std::int64_t>(a), static_cast<std::int64_t>(b));
}

std::optional<Wide> quotient(Wide a, Wide b) { return b == 0 ? std::nullopt : std::optional(floored(a, b)); }

std::optional<Wide> rest(Wide a, Wide b) {
  if (b == 0) return std::nullopt;
  return b == -1 ? 0 : floor_mod(static_cast<std::int64_t>(a), static_cast<std::int64_t>(b));
}

std::optional<Wide> value_of(Op op, Wide a, Wide b) {
#define WEFT_INTEGERS(name, value, ...) \
  if (op == Op::name) return value;
#include "compiler/base/ops.def"
  return std::nullopt;
}

WideInterval between(Wide lo, Wide hi) { return {lo, hi}; }

WideInterval product(const WideInterval& a, const WideInterval& b) {
  const auto [lo, hi] = std::minmax({a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi});
  return {lo, hi};
}

/// By zero 0: quotients are monotone in the dividend and on either side of zero.
WideInterval quotient(const WideInterval& a, const WideInterval& b) {
  WideInterval out{0, 0};
  bool any = b.lo <= 0 && b.hi >= 0;
  const auto with = [&](Wide lo, Wide hi) {
    if (lo > hi) return;
    const auto [least, most] =
        std::minmax({floored(a.lo, lo), floored(a.lo, hi), floored(a.hi, lo), floored(a.hi, hi)});
    out = any ? between(std::min(out.lo, least), std::max(out.hi, most)) : between(least, most);
    any = true;
  };
  with(std::max<Wide>(b.lo, 1), b.hi);
  with(b.lo, std::min<Wide>(b.hi, -1));
  return out;
}

WideInterval rest(const WideInterval& a, const WideInterval& b) {
  if (b.lo == b.hi && b.lo > 0 && floored(a.lo, b.lo) == floored(a.hi, b.lo)) {
    const Wide base = floored(a.lo, b.lo) * b.lo;
    return {a.lo - base, a.hi - base};
  }
  const Wide most = std::max<Wide>(std::max(-b.lo, b.hi) - 1, 0);
  return {0, a.lo >= 0 ? std::min(most, a.hi) : most};
}

WideInterval magnitude(const WideInterval& a) {
  return {a.lo > 0 ? a.lo : a.hi < 0 ? -a.hi : 0, std::max(-a.lo, a.hi)};
}

}  // namespace

std::span<const OpFacts> all_ops() { return kOps; }

const OpFacts& facts(Op op) { return kOps[static_cast<std::size_t>(op)]; }

std::optional<Op> find_op(std::string_view sign, std::size_t arity) {
  for (const OpFacts& row : kOps) {
    if (row.sign == sign && !sign.empty() && row.arity == arity) return row.op;
  }
  return std::nullopt;
}

bool is_comparison(Op op) {
  return facts(op).signature == Signature::order || facts(op).signature == Signature::equality;
}

std::optional<std::int64_t> fold_integer(Op op, std::int64_t a, std::int64_t b) {
  const auto value = value_of(op, a, b);
  if (!value || *value < INT64_MIN || *value > INT64_MAX) return std::nullopt;
  return static_cast<std::int64_t>(*value);
}

std::int64_t apply_integer(Op op, std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(value_of(op, a, b).value_or(0)));
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }

std::int64_t floor_mod(std::int64_t a, std::int64_t b) {
  const std::int64_t rest = a % b;
  return rest >= 0 ? rest : b < 0 ? rest - b : rest + b;
}

std::int64_t whole_below(double x) {
  if (std::isnan(x)) return 0;
  constexpr auto kMost = static_cast<double>(kLargestWhole);
  return static_cast<std::int64_t>(std::floor(std::clamp(x, -kMost, kMost)));
}

std::optional<WideInterval> interval_of(Op op, const WideInterval& a, const WideInterval& b) {
  if (op == Op::floor) return WideInterval{-kLargestWhole, kLargestWhole};
#define WEFT_INTEGERS(name, value, range, ...) \
  if (op == Op::name) return range;
#include "compiler/base/ops.def"
  return std::nullopt;
}

}  // namespace weft
