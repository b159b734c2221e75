#include "codegen/cuda/intervals.h"

#include <algorithm>

namespace weft::codegen::cuda {
namespace {

__extension__ using Wide = __int128;

constexpr std::int64_t kMostHeads = 65535;  // of the launch checks, for batch entries too

Interval between(Wide a, Wide b) {
  const Wide lo = std::min(a, b), hi = std::max(a, b);
  if (lo < INT64_MIN || hi > INT64_MAX) return {.may_wrap = true};
  return {static_cast<std::int64_t>(lo), static_cast<std::int64_t>(hi)};
}

Interval product(const Interval& a, const Interval& b) {
  const Wide corners[] = {Wide{a.lo} * b.lo, Wide{a.lo} * b.hi, Wide{a.hi} * b.lo, Wide{a.hi} * b.hi};
  const auto [lo, hi] = std::minmax_element(std::begin(corners), std::end(corners));
  return between(*lo, *hi);
}

Interval negated(const Interval& a) { return between(-Wide{a.hi}, -Wide{a.lo}); }

Interval absolute(const Interval& a) {
  const Wide lo = a.lo > 0 ? Wide{a.lo} : a.hi < 0 ? -Wide{a.hi} : Wide{0};
  return between(lo, std::max(-Wide{a.lo}, Wide{a.hi}));
}

/// A divisor of 0 gives 0; any other makes nothing larger.
Interval quotient(const Interval& a, const Interval& b) {
  if (b.lo > 0 && b.lo == b.hi) return {ir::floor_div(a.lo, b.lo), ir::floor_div(a.hi, b.lo)};
  if (a.is_natural() && b.is_natural()) return {0, a.hi};
  const Wide most = std::max(-Wide{a.lo}, Wide{a.hi});
  return between(-most, most);
}

Interval rest(const Interval& a, const Interval& b) {
  const Wide divisor = std::max(-Wide{b.lo}, Wide{b.hi});
  const Wide most = std::max<Wide>(divisor - 1, 0);
  return between(0, a.is_natural() ? std::min<Wide>(most, a.hi) : most);
}

}  // namespace

Interval interval_of(ir::Variable v) {
  using ir::Variable;
  switch (v) {
    case Variable::b:
    case Variable::h:
      return {0, kMostHeads - 1};
    case Variable::q:
      return {-kFarthestPosition, kFarthestPosition};
    case Variable::k:
      return {0, kFarthestPosition};
    case Variable::n_q:
    case Variable::n_k:
      return {1, kFarthestPosition};
    case Variable::heads:
      return {1, kMostHeads};
    case Variable::s:
      break;
  }
  return {};
}

Interval interval_of(ir::InputType t) {
  if (t == ir::InputType::u8) return {0, UINT8_MAX};
  if (t == ir::InputType::i32) return {INT32_MIN, INT32_MAX};
  return {};
}

Interval interval_of(ir::Op op, const std::vector<Interval>& args) {
  using ir::Op;
  const Interval& a = args.front();
  const Interval& b = args.back();
  if (op == Op::add) return between(Wide{a.lo} + b.lo, Wide{a.hi} + b.hi);
  if (op == Op::subtract) return between(Wide{a.lo} - b.hi, Wide{a.hi} - b.lo);
  if (op == Op::multiply) return product(a, b);
  if (op == Op::divide) return quotient(a, b);
  if (op == Op::modulo) return rest(a, b);
  if (op == Op::negate) return negated(a);
  if (op == Op::absolute) return absolute(a);
  if (op == Op::minimum) return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
  if (op == Op::maximum) return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
  return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)};  // select
}

}  // namespace weft::codegen::cuda
