#include "codegen/cuda/intervals.h"

#include <algorithm>

namespace weft::codegen::cuda {
namespace {

constexpr std::int64_t kMostHeads = 65535;  // of the launch checks, for batch entries too

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
  const Interval& a = args.front();
  const Interval& b = args.back();
  if (op == ir::Op::select) return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)};
  const auto value = weft::interval_of(op, {a.lo, a.hi}, {b.lo, b.hi});
  if (!value || value->lo < INT64_MIN || value->hi > INT64_MAX) return {.may_wrap = true};
  return {static_cast<std::int64_t>(value->lo), static_cast<std::int64_t>(value->hi)};
}

}  // namespace weft::codegen::cuda
