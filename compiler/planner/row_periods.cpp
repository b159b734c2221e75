#include "compiler/planner/row_periods.h"

#include "compiler/ir/predicates.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

namespace weft::planner {
namespace {

constexpr std::int64_t kMostPeriod = 1024;
constexpr std::int64_t kFar = std::int64_t{1} << 20;  ///< tokens, so that no end is near

bool reads_inputs(const ir::ExprPtr& e) {
  return e && (e->op == ir::Op::input || e->op == ir::Op::listed ||
               std::any_of(e->args.begin(), e->args.end(), [](const auto& arg) { return reads_inputs(arg); }));
}

bool asks_rows_alone(const ir::Predicate& p, ir::Stationary stationary) {
  return ir::reads_row(p, stationary) && !ir::reads_key(p, stationary) && !reads_inputs(p.holds) &&
         !reads_inputs(p.key) && !reads_inputs(p.lo) && !reads_inputs(p.hi);
}

/// A letter a row.
std::string kept_rows(const ir::Plan& plan, const std::vector<ir::PredicateUse>& uses, ir::Stationary stationary,
                      std::int64_t heads) {
  ir::Shape shape;
  shape.n_q = shape.n_k = kFar;
  shape.heads = heads;
  const std::vector<ir::Tensor> no_inputs;
  const ir::PairValues values(plan, shape, no_inputs);
  std::string out;
  for (std::int64_t x = 0; x < 2 * kMostPeriod; ++x) {
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
  const std::string kept = kept_rows(plan, uses, stationary, heads);
  RowPeriod out{.period = period_of(kept), .run = 0};
  if (out.period < 2 || out.period > kMostPeriod) return std::nullopt;
  out.run = out.period;
  for (std::int64_t x = 1; x < out.period; ++x) {
    const auto at = static_cast<std::size_t>(x);
    if (kept[at] != kept[at - 1]) out.run = std::gcd(out.run, x);
  }
  return out.run < out.period ? std::optional(out) : std::nullopt;
}

}  // namespace weft::planner
