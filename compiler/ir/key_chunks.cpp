#include "compiler/ir/key_chunks.h"

#include "compiler/ir/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace weft::ir {
namespace {

/// With 8 heads that is two blocks of threads for each of 128 SMs.
constexpr std::int64_t kMostChunks = 32;
/// Chunks times softmaxes: a block of threads takes one of each, and each has a state to be kept.
constexpr std::int64_t kMostShares = 128;
/// More row tiles than that are work for a GPU as they are, with a few heads.
constexpr std::int64_t kMostTiles = 2;
/// A chunk's state is written and read once for each row; more rows want more keys to be worth it.
constexpr std::int64_t kFewRows = 16, kKeysForMoreRows = 4;

std::int64_t least_keys(const Plan& plan, std::int64_t n_q) {
  return plan.choices.chunk_k * (n_q > kFewRows ? kKeysForMoreRows : 1);
}

std::int64_t count_of(const Plan& plan, std::int64_t n_q, std::int64_t keys) {
  if (!plan.may_cut_keys() || n_q > kMostTiles * plan.choices.tile_q) return 1;
  const std::int64_t most = std::min(kMostChunks, kMostShares / std::ssize(plan.phases.front().passes));
  return std::clamp<std::int64_t>(keys / least_keys(plan, n_q), 1, most);
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

bool Plan::may_cut_keys() const {
  return choices.chunk_k > 0 && phases.size() == 1 && 2 * std::ssize(phases[0].passes) <= kMostShares;
}

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

std::array<std::int64_t, 2> rows_with_most_chunks(const Plan& plan) {
  return {kFewRows, kMostTiles * plan.choices.tile_q};
}

}  // namespace weft::ir
