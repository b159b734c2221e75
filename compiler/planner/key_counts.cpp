#include "compiler/planner/key_counts.h"

#include "compiler/ir/expr.h"

#include <algorithm>
#include <numeric>

namespace weft::planner {

namespace {

constexpr std::int64_t kLongestPeriod = std::int64_t{1} << 18;
constexpr std::int64_t kWalked = 4096;  ///< keys of a stretch without a period, which a longer one is estimated from
constexpr std::int64_t kPieces = 16;

bool hits(const ir::Term& term, std::int64_t y) {
  return term.stream.holds(y) &&
         std::all_of(term.filters.begin(), term.filters.end(), [&](const auto& filter) { return filter.holds(y); });
}

bool any_hits(const ir::PassTable& pass, const std::vector<int>& terms, std::int64_t y) {
  return std::any_of(terms.begin(), terms.end(),
                     [&](int term) { return hits(pass.terms[static_cast<std::size_t>(term)], y); });
}

std::int64_t walk(const ir::PassTable& pass, const std::vector<int>& terms, std::int64_t lo, std::int64_t hi) {
  std::int64_t count = 0;
  for (auto y = lo; y < hi; ++y) count += any_hits(pass, terms, y) ? 1 : 0;
  return count;
}

/// 0 where it is too long.
std::int64_t common_period(const ir::PassTable& pass, const std::vector<int>& terms) {
  std::int64_t period = 1;
  const auto join = [&](const ir::ResolvedCongruence& c) {
    const auto own = c.segment > 0 ? c.segment : c.rate;
    if (period > 0) period = own > kLongestPeriod ? 0 : std::lcm(period, own);
    if (period > kLongestPeriod) period = 0;
  };
  for (const auto number : terms) {
    const auto& term = pass.terms[static_cast<std::size_t>(number)];
    join(term.stream);
    for (const auto& filter : term.filters) join(filter);
  }
  return period;
}

}  // namespace

const KeyCounts::Period& KeyCounts::period_of(const ir::PassTable& pass, const std::vector<int>& terms) {
  const auto [at, is_new] = known_.try_emplace({&pass, terms});
  if (!is_new) return at->second;
  auto& period = at->second;
  period.length = common_period(pass, terms);
  if (period.length == 0) return period;
  period.before.reserve(static_cast<std::size_t>(period.length) + 1);
  std::int32_t count = 0;
  for (std::int64_t y = 0; y < period.length; ++y) {
    period.before.push_back(count);
    count += any_hits(pass, terms, y) ? 1 : 0;
  }
  period.before.push_back(count);
  return period;
}

double KeyCounts::count(const ir::PassTable& pass, const std::vector<int>& terms, std::int64_t lo, std::int64_t hi) {
  if (lo >= hi) return 0;
  if (hi - lo <= kPieces) return static_cast<double>(walk(pass, terms, lo, hi));
  const auto& period = period_of(pass, terms);
  if (period.length > 0) {
    const auto below = [&](std::int64_t y) {
      return ir::floor_div(y, period.length) * period.before.back() +
             period.before[static_cast<std::size_t>(ir::floor_mod(y, period.length))];
    };
    return static_cast<double>(below(hi) - below(lo));
  }
  if (hi - lo <= kWalked) return static_cast<double>(walk(pass, terms, lo, hi));
  estimated_ = true;
  constexpr auto kEach = kWalked / kPieces;
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < kPieces; ++i) {
    const auto from = lo + (hi - lo - kEach) * i / (kPieces - 1);
    count += walk(pass, terms, from, from + kEach);
  }
  return static_cast<double>(count) * static_cast<double>(hi - lo) / static_cast<double>(kWalked);
}

}  // namespace weft::planner
