#include "compiler/planner/row_periods.h"

#include "compiler/ir/predicates.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

namespace weft::planner {
namespace {

/// Rows are asked about, one of each unit that no condition tells apart, which is most of the time that this takes: so
/// many for each condition, of which half are the longest period.
constexpr std::int64_t kAsked = 256;
constexpr std::int64_t kMostPeriod = 4096;            ///< rows
constexpr std::int64_t kFar = std::int64_t{1} << 24;  ///< tokens, so that no end is near

bool reads_inputs(const ir::ExprPtr& e) {
  return e && ir::any_node(*e, [](const auto& node) { return node.op == ir::Op::input || node.op == ir::Op::listed; });
}

bool asks_rows_alone(const ir::Predicate& p, ir::Stationary stationary) {
  return ir::reads_row(p, stationary) && !ir::reads_key(p, stationary) && !reads_inputs(p.holds) &&
         !reads_inputs(p.key) && !reads_inputs(p.lo) && !reads_inputs(p.hi);
}

/// Runs of so many rows, from multiples of it, that none of the conditions can tell apart.
std::int64_t unit_of(const ir::Plan& plan, const std::vector<ir::PredicateUse>& uses, ir::Stationary stationary) {
  const auto other = stationary == ir::Stationary::query ? ir::Stationary::key : ir::Stationary::query;
  std::int64_t unit = 0;
  for (const auto& use : uses) {
    // Its rows are keys to the other side.
    unit = std::gcd(unit, ir::key_unit(plan.predicates[static_cast<std::size_t>(use.number)], other));
  }
  return unit;
}

/// A letter a unit.
std::string kept_rows(const ir::Plan& plan, const std::vector<ir::PredicateUse>& uses, ir::Stationary stationary,
                      std::int64_t unit, std::int64_t heads) {
  ir::Shape shape;
  shape.n_q = shape.n_k = kFar;
  shape.heads = heads;
  const std::vector<ir::Tensor> no_inputs;
  const ir::PairValues values(plan, shape, no_inputs);
  std::string out;
  for (std::int64_t x = 0; x < kAsked * unit; x += unit) {
    const auto q = stationary == ir::Stationary::query ? x : 0, k = x - q;
    const bool kept = std::all_of(uses.begin(), uses.end(), [&](const auto& use) {
      return values.holds(plan.predicates[static_cast<std::size_t>(use.number)], 0, 0, q, k) != use.negated;
    });
    out.push_back(kept ? '1' : '0');
  }
  return out;
}

/// The least number of letters by which the text can be moved onto itself: its length less that of its longest border.
std::int64_t period_of(const std::string& text) {
  std::vector<std::size_t> border(text.size(), 0);
  for (std::size_t i = 1, at = 0; i < text.size(); ++i) {
    while (at > 0 && text[i] != text[at]) at = border[at - 1];
    if (text[i] == text[at]) ++at;
    border[i] = at;
  }
  return static_cast<std::int64_t>(text.size() - border.back());
}

}  // namespace

std::optional<RowPeriod> row_period(const ir::Plan& plan, const ir::KeyRange& range, ir::Stationary stationary,
                                    std::int64_t heads) {
  std::vector<ir::PredicateUse> uses;
  std::copy_if(range.predicates.begin(), range.predicates.end(), std::back_inserter(uses), [&](const auto& use) {
    return asks_rows_alone(plan.predicates[static_cast<std::size_t>(use.number)], stationary);
  });
  if (uses.empty()) return std::nullopt;
  const std::int64_t unit = unit_of(plan, uses, stationary);
  if (unit < 1 || unit > kMostPeriod) return std::nullopt;
  const std::string kept = kept_rows(plan, uses, stationary, unit, heads);
  const std::int64_t period = period_of(kept);
  if (period < 2 || 2 * period > kAsked || period * unit > kMostPeriod) return std::nullopt;
  std::int64_t run = period;
  for (std::int64_t x = 1; x < period; ++x) {
    const auto at = static_cast<std::size_t>(x);
    if (kept[at] != kept[at - 1]) run = std::gcd(run, x);
  }
  return run < period ? std::optional(RowPeriod{period * unit, run * unit}) : std::nullopt;
}

}  // namespace weft::planner
