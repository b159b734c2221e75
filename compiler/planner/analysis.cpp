#include "compiler/planner/analysis.h"

#include "compiler/ir/few_rows.h"
#include "compiler/planner/bounded_work.h"
#include "compiler/planner/conditional_work.h"

#include <algorithm>

namespace weft::planner {
namespace {

using ir::Bound;
using ir::Extent;
using ir::Term;

constexpr std::size_t kMostCountedHeads = 8;

/// Does what the term keeps depend on the head beyond what its table says?
bool reads_head(const ir::Plan& plan, const Term& term) {
  const auto reads = [](const ir::ExprPtr& e) { return e && ir::reads(*e, ir::Variable::h); };
  const auto bounded = [&](const Bound& b) {
    return b.kind == Bound::Kind::form && reads(plan.forms[static_cast<std::size_t>(b.a)]);
  };
  return std::any_of(term.lo.begin(), term.lo.end(), bounded) || std::any_of(term.hi.begin(), term.hi.end(), bounded) ||
         std::any_of(term.predicates.begin(), term.predicates.end(), [&](const ir::PredicateUse& use) {
           const auto& p = plan.predicates[static_cast<std::size_t>(use.number)];
           return reads(p.holds) || reads(p.key) || reads(p.lo) || reads(p.hi);
         });
}

/// Those heads of one table that are counted, spread evenly over all: one, unless they differ.
struct CountedHeads {
  std::vector<std::int64_t> counted;
  double all = 0;
  bool sampled = false;
};
CountedHeads heads_to_count(const ir::Plan& plan, const ir::PhaseTable& phase, std::size_t table) {
  CountedHeads out;
  for (std::size_t h = 0; h < phase.head_of.size(); ++h) {
    if (phase.head_of[h] == static_cast<int>(table)) out.counted.push_back(static_cast<std::int64_t>(h));
  }
  out.all = static_cast<double>(out.counted.size());
  bool differ = false;
  for (const auto& pass : phase.head[table].passes) {
    for (const auto& term : pass.terms) differ = differ || reads_head(plan, term);
  }
  out.sampled = differ && out.counted.size() > kMostCountedHeads;
  const std::size_t most = differ ? kMostCountedHeads : 1;
  std::vector<std::int64_t> few;
  for (std::size_t i = 0; i < std::min(most, out.counted.size()); ++i)
    few.push_back(out.counted[i * out.counted.size() / std::min(most, out.counted.size())]);
  out.counted = std::move(few);
  return out;
}

/// Pairs that conditions are asked about for one answer, and for each head of it at least. Where pairs are scanned each
/// costs an evaluation, a tenth of a microsecond.
constexpr std::int64_t kScannedPairs = std::int64_t{1} << 23, kBoundedPairs = std::int64_t{1} << 29,
                       kPairsOfHead = std::int64_t{1} << 17;
/// Entries of a batch that are counted of those whose conditions differ.
constexpr std::int64_t kMostConditionalEntries = 8;

bool plan_reads_batch(const ir::Plan& plan) {
  const auto reads = [](const ir::ExprPtr& e) { return e && ir::reads(*e, ir::Variable::b); };
  // Keys are chosen for each entry by its own scores; those that are drawn are the same for all.
  const auto chosen = [](const ir::List& list) { return list.kind == ir::List::Kind::top; };
  return std::any_of(plan.lists.begin(), plan.lists.end(), chosen) ||
         std::any_of(plan.forms.begin(), plan.forms.end(), reads) ||
         std::any_of(plan.predicates.begin(), plan.predicates.end(), [&](const ir::Predicate& p) {
           return reads(p.holds) || reads(p.key) || reads(p.lo) || reads(p.hi);
         });
}

}  // namespace

bool differs_by_entry(const ir::Plan& plan, const ir::Shape& shape) {
  const auto reads = [](const Bound& b) { return b.kind == Bound::Kind::input; };
  bool differs = shape.offset.size() > 1 || plan_reads_batch(plan);
  for (const auto& phase : plan.phases) {
    for (const auto& pass : phase.passes) {
      for (const auto& range : pass.ranges) {
        differs = differs || std::any_of(range.lo.begin(), range.lo.end(), reads) ||
                  std::any_of(range.hi.begin(), range.hi.end(), reads) ||
                  std::any_of(range.rows.begin(), range.rows.end(), [&](const auto& r) { return reads(r.bound); });
      }
    }
  }
  return differs;
}

Work& Work::operator+=(const Work& other) {
  pairs += other.pairs;
  executed += other.executed;
  full_tiles += other.full_tiles;
  partial_tiles += other.partial_tiles;
  empty_tiles += other.empty_tiles;
  row_tiles += other.row_tiles;
  masked += other.masked;
  listed_in_runs += other.listed_in_runs;
  listed_singly += other.listed_singly;
  sampled = sampled || other.sampled;
  return *this;
}

Work Work::scaled(double times) const {
  Work out = *this;
  for (double* number : {&out.pairs, &out.executed, &out.full_tiles, &out.partial_tiles, &out.empty_tiles,
                         &out.row_tiles, &out.masked, &out.listed_in_runs, &out.listed_singly}) {
    *number *= times;
  }
  return out;
}

Work count_work(const ir::Plan& plan, const ir::Tables& tables, const ir::Shape& shape,
                const std::vector<ir::Tensor>& inputs) {
  const auto together = ir::heads_per_tile(plan, ir::heads_are_alike(plan, tables), shape);
  const ir::PairValues pairs(plan, shape, inputs);
  const bool conditional = !plan.predicates.empty();
  const std::int64_t entries = differs_by_entry(plan, shape) ? shape.batch : std::min<std::int64_t>(1, shape.batch);
  const std::int64_t counted = conditional ? std::min(entries, kMostConditionalEntries) : entries;

  struct Share {  ///< heads of one table of one phase
    const ir::Phase* phase;
    const ir::HeadTable* head;
    CountedHeads heads;
  };
  std::vector<Share> shares;
  std::int64_t answers = 0;
  for (std::size_t p = 0; p < plan.phases.size(); ++p) {
    const auto& table = tables.phases[p];
    for (std::size_t t = 0; t < table.head.size(); ++t) {
      shares.push_back({&plan.phases[p], &table.head[t], heads_to_count(plan, table, t)});
      answers += counted * static_cast<std::int64_t>(shares.back().heads.counted.size());
    }
  }
  const bool scanned =
      std::any_of(plan.phases.begin(), plan.phases.end(), [&](const ir::Phase& phase) { return scans(plan, phase); });
  const auto asked =
      std::max(kPairsOfHead, (scanned ? kScannedPairs : kBoundedPairs) / std::max<std::int64_t>(1, answers));

  Work total;
  for (std::int64_t i = 0; i < counted; ++i) {
    for (const auto& [phase, head, heads] : shares) {
      Extent extent = ir::extent_of(shape, i * entries / counted, phase->stationary, &inputs, &tables);
      extent.pairs = &pairs;
      total.sampled = total.sampled || heads.sampled;
      for (std::int64_t h : heads.counted) {
        extent.h = h;
        const Work work = conditional ? count_conditional(plan, *phase, *head, extent, together, asked)
                                      : count_bounded(plan, *phase, *head, extent, together);
        total += work.scaled(heads.all / static_cast<double>(heads.counted.size()));
      }
    }
  }
  total.sampled = total.sampled || counted < entries;
  if (counted > 0) total = total.scaled(static_cast<double>(shape.batch) / static_cast<double>(counted));
  const auto blocks = [](std::int64_t n, int step) { return static_cast<double>((n + step - 1) / step); };
  const double grid = total.row_tiles * blocks(shape.n_k, plan.choices.tile_k);
  total.empty_tiles = std::max(0.0, grid - total.full_tiles - total.partial_tiles);
  return total;
}

bool scans(const ir::Plan& plan, const ir::Phase& phase) {
  for (const auto& pass : phase.passes) {
    for (const auto& range : pass.ranges) {
      for (const auto& use : range.predicates) {
        const auto& p = plan.predicates[static_cast<std::size_t>(use.number)];
        if ((p.modulus == 0 || use.negated) && ir::reads_key(p, phase.stationary)) return true;
      }
    }
  }
  return false;
}

bool keeps_nothing(const ir::Plan& plan, const ir::Shape& shape, const std::vector<ir::Tensor>& inputs) {
  if (!plan.predicates.empty() || !plan.forms.empty()) return false;  // nothing short of a run would tell
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (const auto& phase : plan.phases) {
      const Extent extent = ir::extent_of(shape, b, phase.stationary, &inputs);
      for (const auto& pass : phase.passes) {
        for (const auto& range : pass.ranges) {
          std::int64_t first = extent.x_begin, end = extent.x_end;
          for (const auto& row : range.rows) {
            const std::int64_t at = ir::value_of(row.bound, 0, extent);
            row.below ? end = std::min(end, at) : first = std::max(first, at);
          }
          if (first >= end) continue;
          std::int64_t lo = extent.y_begin, hi = extent.y_end;
          for (const auto& bound : range.lo) lo = std::max(lo, ir::value_of(bound, first, extent));
          for (const auto& bound : range.hi) hi = std::min(hi, ir::value_of(bound, end - 1, extent));
          if (lo < hi) return false;
        }
      }
    }
  }
  return true;
}

double tensor_bytes(const ir::Plan& plan, const ir::Shape& shape) {
  const double element = ir::size_of(plan.bind.dtype);
  const auto count = [](std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
    return static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c) * static_cast<double>(d);
  };
  // Of a backward pass each beside its gradient.
  return (plan.bind.gradient ? 2 : 1) * element *
             (count(shape.batch, shape.n_q, shape.heads, shape.d + shape.d_v) +
              count(shape.batch, shape.n_k, shape.kv_heads, shape.d + shape.d_v)) +
         4 * count(shape.batch, shape.n_q, shape.heads, 1);
}

}  // namespace weft::planner
