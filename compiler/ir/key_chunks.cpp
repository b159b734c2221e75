#include "compiler/ir/key_chunks.h"

#include "compiler/ir/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace weft::ir {
namespace {

/// The most chunks that so many rows with so many keys have.
std::int64_t count_of(const Plan& plan, std::int64_t n_q, std::int64_t keys) {
  const auto cut = std::find_if(plan.cuts.begin(), plan.cuts.end(), [&](const Cut& c) { return n_q <= c.rows; });
  return cut == plan.cuts.end() ? 1 : std::clamp<std::int64_t>(keys / cut->keys, 1, cut->most);
}

/// Bounds that are known without the caller's tensors.
bool is_closed(const Bound& bound) { return bound.kind != Bound::Kind::input && bound.kind != Bound::Kind::form; }

/// Keys that some row of the entry may keep lie from the first number up to the second.
std::pair<std::int64_t, std::int64_t> span_of(const Plan& plan, const Extent& extent) {
  std::int64_t first = extent.y_end, end = extent.y_begin;
  const auto add = [&](const KeyRange& range) {
    std::int64_t lo = extent.y_begin, hi = extent.y_end;
    for (const auto& bound : range.lo) {
      if (is_closed(bound)) lo = std::max(lo, value_of(bound, extent.x_begin, extent));
    }
    for (const auto& bound : range.hi) {
      if (is_closed(bound)) hi = std::min(hi, value_of(bound, extent.x_end - 1, extent));
    }
    if (lo >= hi) return;
    first = std::min(first, lo);
    end = std::max(end, hi);
  };
  for (const auto& pass : plan.phases.front().passes) std::for_each(pass.ranges.begin(), pass.ranges.end(), add);
  return {first, end};
}

}  // namespace

Status check_key_cuts(const Plan& plan) {
  if (plan.choices.kernel_class == KernelClass::vector || plan.may_cut_keys()) return done;
  return user_error(
      fmt::format("{}: GPU kernels do not cut the keys of a row where one softmax takes several launches, or where "
                  "there are more than {}; here are {} launches and {}",
                  plan.name, kMostShares / 2, plan.phases.size(), plan.phases.front().passes.size()));
}

KeyChunks key_chunks(const Plan& plan, const Shape& shape, std::int64_t b) {
  const KeyChunks whole{.count = 1, .first = 0, .keys = shape.n_k};
  if (shape.n_q == 0 || count_of(plan, shape.n_q, shape.n_k) == 1) return whole;
  const auto [first, end] = span_of(plan, extent_of(shape, b, Stationary::query, nullptr));
  const auto count = first < end ? count_of(plan, shape.n_q, end - first) : 1;
  if (count == 1) return whole;
  const std::int64_t step = plan.choices.tile_k;
  const auto keys = ((end - first + count - 1) / count + step - 1) / step * step;
  return {.count = (end - first + keys - 1) / keys, .first = first, .keys = keys};
}

std::int64_t most_key_chunks(const Plan& plan, std::int64_t n_q, std::int64_t n_k) { return count_of(plan, n_q, n_k); }

std::int64_t shares_of_tile(const Plan& plan, std::int64_t chunks) {
  return chunks > 1 ? chunks * std::ssize(plan.phases.front().passes) : 1;
}

}  // namespace weft::ir
