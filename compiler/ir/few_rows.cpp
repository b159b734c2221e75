#include "compiler/ir/few_rows.h"

#include "compiler/ir/key_chunks.h"
#include "compiler/ir/predicates.h"

#include <algorithm>
#include <utility>

namespace weft::ir {

const char* to_string(Regime regime) {
  constexpr const char* kNames[] = {"many queries", "few queries", "decoding", "transposed", "inputs"};
  return kNames[static_cast<std::size_t>(regime)];
}

std::vector<Regime> regimes_of(const Plan& plan) {
  if (plan.of_inputs) return {Regime::many_queries, Regime::transposed, Regime::inputs};
  if (plan.transposed) return {Regime::many_queries, Regime::transposed};
  std::vector<Regime> out = {Regime::many_queries};
  if (has_few_queries(plan)) out.push_back(Regime::few_queries);
  if (plan.decoding) out.push_back(Regime::decoding);
  return out;
}

bool has_few_queries(const Plan& plan) {
  if (plan.choices.kernel_class == KernelClass::vector) return plan.choices.few_q > 0;
  if (plan.bind.gradient) return false;
  return plan.may_cut_keys() || plan.may_read_sizes() || heads_may_share(plan);
}

Regime regime_of(const Plan& plan, std::int64_t n_q) {
  return n_q <= plan.choices.few_q ? Regime::few_queries : Regime::many_queries;
}

bool heads_may_share(const Plan& plan) {
  const auto tells_heads = [](const ExprPtr& e) { return e && reads(*e, Variable::h); };
  if (plan.bind.gradient && plan.choices.kernel_class != KernelClass::vector) return false;
  return plan.phases.size() == 1 && plan.lists.empty() && plan.dropout == 0 && !plan.phases[0].rows.classes &&
         !tells_heads(plan.score) && std::none_of(plan.forms.begin(), plan.forms.end(), tells_heads) &&
         std::none_of(plan.predicates.begin(), plan.predicates.end(), [](const Predicate& p) { return reads_head(p); });
}

bool heads_are_alike(const Plan& plan, const Tables& tables) {
  return heads_may_share(plan) && tables.phases[0].head.size() == 1 && tables.phases[0].head[0].cell == 0;
}

std::int64_t heads_per_tile(const Plan& plan, bool alike, const Shape& shape) {
  const auto group = shape.heads / shape.kv_heads;
  return alike && shape.n_q * group <= plan.choices.tile_q ? group : 1;
}

bool may_decode(const Plan& plan) {
  return plan.choices.kernel_class == KernelClass::mma && !plan.bind.gradient && plan.dropout == 0 &&
         plan.phases.size() == 1;
}

Plan decoding_plan(const Plan& plan, const Choices& choices) {
  Plan out = plan;
  out.decoding = nullptr;
  out.choices = choices;
  // One query is a class of its own, and a tile for each class would be a block of threads without a row.
  for (auto& phase : out.phases) {
    RowMap contiguous;
    contiguous.tile = choices.tile_q;
    contiguous.longest_first = phase.rows.longest_first;
    phase.rows = std::move(contiguous);
  }
  return out;
}

std::int64_t queries_of_decoding(const Plan& plan, const Shape& shape) {
  return plan.decoding ? kRowsOfDecoding / shape.group() : 0;
}

bool has_own_tables(const Plan& plan, Regime regime) {
  if (regime == Regime::decoding) return plan.phases.front().rows.classes;
  return regime == Regime::transposed || regime == Regime::inputs;
}

bool only_attends(const Plan& plan, Regime text) {
  return is_of_few(text) || (text == Regime::many_queries && plan.lists.empty() && !plan.bind.gradient);
}

bool finds_sizes(const Plan& plan, Regime text) {
  if (plan.bind.gradient) return plan.may_read_sizes() && text == Regime::many_queries && plan.transposed != nullptr;
  const bool has_decoding = plan.decoding || text == Regime::decoding;  // where the plan is decoding's
  return plan.may_read_sizes() && text == (has_decoding ? Regime::decoding : Regime::few_queries);
}

bool may_attend(const Plan& plan, Regime text, const Shape& shape) {
  const auto border = queries_of_decoding(plan, shape);
  return text == Regime::decoding ? border > 0 : text == Regime::few_queries && shape.n_q > border;
}

Regime regime_of(const Plan& plan, bool alike, const Shape& shape) {
  if (plan.choices.kernel_class == KernelClass::vector) return regime_of(plan, shape.n_q);
  if (shape.n_q <= queries_of_decoding(plan, shape)) return Regime::decoding;
  const bool few = most_key_chunks(plan, shape.n_q, shape.n_k) > 1 || heads_per_tile(plan, alike, shape) > 1;
  return few ? Regime::few_queries : Regime::many_queries;
}

void repeat_rows(TileRows& rows, std::int64_t heads) {
  if (heads == 1) return;
  const auto repeat = [heads](auto& of_rows) {
    auto once = std::move(of_rows);
    of_rows.clear();
    for (const auto& value : once) of_rows.insert(of_rows.end(), static_cast<std::size_t>(heads), value);
  };
  repeat(rows.x);
  repeat(rows.bits);
  for (auto& condition : rows.predicates) {
    for (auto* of_rows : {&condition.row_meets, &condition.row_lo, &condition.row_hi}) repeat(*of_rows);
  }
}

FullBlock full_block(const Plan& plan, std::size_t rows, std::int64_t queries) {
  const Choices& c = plan.choices;
  const auto up = [rows](int step) {
    const auto steps = (rows + static_cast<std::size_t>(step) - 1) / static_cast<std::size_t>(step);
    return static_cast<double>(steps) * step;
  };
  if (regime_of(plan, queries) == Regime::few_queries) {
    return {.rows = (up(kFewRowsOfScores) + up(kFewRowsOfOutputs)) / 2, .keys = c.sub_k};
  }
  const bool narrow = 2 * rows <= static_cast<std::size_t>(c.micro_q * c.sub_q);
  return {.rows = up(narrow ? c.sub_q : c.micro_q * c.sub_q), .keys = narrow ? c.sub_k : c.micro_k};
}

}  // namespace weft::ir
