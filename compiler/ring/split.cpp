#include "compiler/ring/split.h"

#include <fmt/format.h>

#include <limits>
#include <numeric>

namespace weft::ring {

Split Split::of_owners(OwnerMap owners, std::int64_t kv_heads) {
  auto groups = owners;
  return {.home = std::move(owners), .groups = std::move(groups), .lanes = {{0, kv_heads}}};
}

Split Split::of_groups(OwnerMap groups, std::vector<Heads> lanes) {
  if (lanes.size() == 1) return of_owners(std::move(groups), lanes[0].count);
  OwnerMap home{.name = fmt::format("{}, heads in {}", groups.name, lanes.size()), .tokens = groups.tokens, .runs = {}};
  for (const auto& rows : groups.runs) {
    auto parts = cut(rows, std::ssize(lanes));
    parts.resize(lanes.size());  // fewer rows than lanes
    home.runs.insert(home.runs.end(), parts.begin(), parts.end());
  }
  return {.home = std::move(home), .groups = std::move(groups), .lanes = std::move(lanes)};
}

namespace {

/// To look at all borders takes the square of the heads; so many are dealt out evenly.
constexpr std::size_t kMostWeighed = 512;

}  // namespace

std::vector<Heads> lanes_of(const std::vector<double>& work, std::int64_t lanes) {
  const auto heads = work.size(), count = static_cast<std::size_t>(lanes);
  if (heads > kMostWeighed) {
    std::vector<Heads> even;
    for (std::size_t lane = 0; lane < count; ++lane) {
      const auto first = lane * heads / count, end = (lane + 1) * heads / count;
      even.push_back({.first = static_cast<std::int64_t>(first), .count = static_cast<std::int64_t>(end - first)});
    }
    return even;
  }
  std::vector<double> before(heads + 1, 0);
  std::partial_sum(work.begin(), work.end(), before.begin() + 1);
  // The least that the largest of so many lanes has, of the first so many heads; and where its last lane begins.
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> least(count + 1, std::vector<double>(heads + 1, kNever));
  std::vector<std::vector<std::size_t>> begin(count + 1, std::vector<std::size_t>(heads + 1, 0));
  least[0][0] = 0;
  for (std::size_t lane = 1; lane <= count; ++lane) {
    for (std::size_t end = lane; end <= heads; ++end) {
      for (std::size_t at = lane - 1; at < end; ++at) {
        const double most = std::max(least[lane - 1][at], before[end] - before[at]);
        // Of equal ones the most even.
        if (most > least[lane][end]) continue;
        least[lane][end] = most;
        begin[lane][end] = at;
      }
    }
  }
  std::vector<Heads> out(count);
  auto end = heads;
  for (auto lane = count; lane > 0; --lane) {
    const auto at = begin[lane][end];
    out[lane - 1] = {.first = static_cast<std::int64_t>(at), .count = static_cast<std::int64_t>(end - at)};
    end = at;
  }
  return out;
}

}  // namespace weft::ring
