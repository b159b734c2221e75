#include "compiler/planner/analysis.h"

#include "compiler/ir/few_rows.h"
#include "compiler/planner/conditional_work.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace weft::planner {
namespace {

using ir::Bound;
using ir::Extent;
using ir::HeadTable;
using ir::PassTable;
using ir::Term;
using ir::TileRows;
using ir::Zone;

/// y in [lo, hi) with (y % segment) % rate == phase.
std::int64_t count_stream(const ir::ResolvedCongruence& c, std::int64_t lo, std::int64_t hi) {
  if (lo >= hi) return 0;
  if (c.rate == 1) return hi - lo;
  const auto below = [&](std::int64_t y) {  // hits in [0, y), extended to negative y
    const auto in_run = [&](std::int64_t length) { return ir::floor_div(length - c.phase + c.rate - 1, c.rate); };
    if (c.segment == 0) return in_run(y);
    const std::int64_t whole = ir::floor_div(y, c.segment);
    const auto clipped = [&](std::int64_t length) { return std::max<std::int64_t>(0, in_run(length)); };
    return whole * clipped(c.segment) + clipped(y - whole * c.segment);
  };
  return below(hi) - below(lo);
}

/// y of a zone's stretch that some term hits: closed forms where streams nest, else a walk.
std::int64_t count_hits(const PassTable& pass, const Zone& zone, const Extent& extent, std::int64_t lo,
                        std::int64_t hi) {
  if (lo >= hi) return 0;
  const Term* finest = nullptr;
  for (int t : zone.terms) {
    const Term& term = pass.terms[static_cast<std::size_t>(t)];
    if (finest == nullptr || term.stream.rate < finest->stream.rate) finest = &term;
  }
  // Inside the zone a stream that stays in one segment is one progression; `origin` is a member of it.
  const auto origin = [&](const Term& term) {
    const std::int64_t w = term.stream.segment;
    return (w > 0 ? ir::floor_div(zone.lo, w) * w : 0) + term.stream.phase;
  };
  const auto one_segment = [&](const Term& term) {
    const std::int64_t w = term.stream.segment;
    return w == 0 || ir::floor_div(zone.lo, w) == ir::floor_div(zone.hi - 1, w);
  };
  const auto nests = [&](int t) {
    const Term& term = pass.terms[static_cast<std::size_t>(t)];
    if (!term.filters.empty()) return false;
    if (&term == finest || finest->stream.rate == 1) return true;
    return one_segment(term) && one_segment(*finest) && term.stream.rate % finest->stream.rate == 0 &&
           (origin(term) - origin(*finest)) % finest->stream.rate == 0;
  };
  if (finest->filters.empty() && std::all_of(zone.terms.begin(), zone.terms.end(), nests)) {
    return count_stream(finest->stream, lo, hi);
  }
  Zone part = zone;
  part.lo = lo;
  part.hi = hi;
  std::int64_t count = 0;
  ir::for_each_hit(pass, part, {}, extent, [&](const ir::Hit&) { ++count; });
  return count;
}

class TileCounter {
 public:
  TileCounter(const ir::Plan& plan, const Extent& extent) : plan_(plan), extent_(extent) {}

  Work count(const HeadTable& head, const TileRows& rows) {
    Work work;
    if (rows.x.empty()) return work;
    work.row_tiles = 1;
    for (std::size_t p = 0; p < head.passes.size(); ++p) {
      // A pass that only measures an LSE is no useful work, but it is executed.
      count_pass(head.passes[p], rows, work);
    }
    return work;
  }

  /// Kept pairs of the passes that reach O.
  double useful(const ir::Phase& phase, const HeadTable& head, const TileRows& rows) const {
    double pairs = 0;
    for (std::size_t p = 0; p < head.passes.size(); ++p) {
      if (!phase.passes[p].out) continue;
      for (std::size_t r = 0; r < rows.x.size(); ++r) pairs += kept_by_row(head.passes[p], rows.x[r], rows.bits[r]);
    }
    return pairs;
  }

 private:
  void count_pass(const PassTable& pass, const TileRows& rows, Work& work) {
    ir::zones_of_tile(pass, rows, extent_, zones_);
    const auto& c = plan_.choices;
    double full = 0;
    double masked = 0;
    for (const auto& zone : zones_) {
      const auto keys = static_cast<double>(count_hits(pass, zone, extent_, zone.lo, zone.hi));
      (zone.full ? full : masked) += keys;
      if (!zone.full) (lists_in_runs(plan_, pass, zone, rows) ? work.listed_in_runs : work.listed_singly) += keys;
    }
    const auto blocks = [&](double keys) {
      return static_cast<double>((static_cast<std::int64_t>(keys) + c.tile_k - 1) / c.tile_k);
    };
    const auto up = [](double keys, int step) {
      return static_cast<double>((static_cast<std::int64_t>(keys) + step - 1) / step * step);
    };
    work.full_tiles += blocks(full);
    work.partial_tiles += blocks(masked);
    if (c.kernel_class == ir::KernelClass::vector) {
      const auto block = ir::full_block(plan_, rows.x.size(), extent_.x_end - extent_.x_begin);
      work.executed += up(full, block.keys) * block.rows;
      const double pairs = masked > 0 ? masked_pairs(pass, rows, 0) : 0;
      work.masked += pairs;
      work.executed += pairs;
      return;
    }
    // On GPUs keys of full zones that fill no block go in front of the partial ones; sub-tiles without rows wait.
    const std::int64_t rest = static_cast<std::int64_t>(full) % c.tile_k;
    work.executed += (full - static_cast<double>(rest)) * up(static_cast<double>(rows.x.size()), c.sub_q);
    if (masked > 0 || rest > 0) work.executed += masked_pairs(pass, rows, rest);
  }

  /// Pairs of the sub-tiles of partial blocks that hold a kept pair, behind `whole` keys that every row keeps.
  double masked_pairs(const PassTable& pass, const TileRows& rows, std::int64_t whole) const {
    const auto& c = plan_.choices;
    double pairs = 0;
    for (std::size_t first = 0; first < rows.x.size(); first += static_cast<std::size_t>(c.sub_q)) {
      const std::size_t last = std::min(rows.x.size(), first + static_cast<std::size_t>(c.sub_q));
      std::int64_t before = whole;  // keys in front of the zone at hand
      std::int64_t groups = (whole + c.sub_k - 1) / c.sub_k;
      std::int64_t done = groups - 1;  // last group counted
      for (const auto& zone : zones_) {
        if (zone.full) continue;
        std::int64_t lo = zone.hi, hi = zone.lo;
        for (int t : zone.terms) {
          const Term& term = pass.terms[static_cast<std::size_t>(t)];
          for (std::size_t r = first; r < last; ++r) {
            const auto kept = ir::interval_of_row(term, rows.x[r], rows.bits[r], extent_);
            if (kept.lo >= kept.hi) continue;
            lo = std::min(lo, std::max(kept.lo, zone.lo));
            hi = std::max(hi, std::min(kept.hi, zone.hi));
          }
        }
        if (lo < hi) {
          const std::int64_t from = before + count_hits(pass, zone, extent_, zone.lo, lo);
          const std::int64_t keys = count_hits(pass, zone, extent_, lo, hi);
          if (keys > 0) {
            const std::int64_t first_group = std::max(done + 1, from / c.sub_k);
            const std::int64_t last_group = (from + keys - 1) / c.sub_k;
            groups += std::max<std::int64_t>(0, last_group - first_group + 1);
            done = std::max(done, last_group);
          }
        }
        before += count_hits(pass, zone, extent_, zone.lo, zone.hi);
      }
      pairs += static_cast<double>(groups) * c.sub_k * c.sub_q;
    }
    return pairs;
  }

  /// Each branch's terms are a union; branches add up.
  double kept_by_row(const PassTable& pass, std::int64_t x, std::uint64_t bits) const {
    double pairs = 0;
    for (std::size_t i = 0; i < pass.terms.size();) {
      std::size_t end = i + 1;
      while (end < pass.terms.size() && pass.terms[end].branch == pass.terms[i].branch) ++end;
      pairs += end == i + 1 ? kept_by_term(pass.terms[i], x, bits) : kept_by_union(pass, i, end, x, bits);
      i = end;
    }
    return pairs;
  }

  double kept_by_term(const Term& term, std::int64_t x, std::uint64_t bits) const {
    const auto kept = ir::interval_of_row(term, x, bits, extent_);
    if (term.filters.empty()) return static_cast<double>(count_stream(term.stream, kept.lo, kept.hi));
    double count = 0;
    for (std::int64_t y = kept.lo; y < kept.hi; ++y) count += hits(term, y) ? 1 : 0;
    return count;
  }

  static bool hits(const Term& term, std::int64_t y) {
    return term.stream.holds(y) &&
           std::all_of(term.filters.begin(), term.filters.end(), [&](const auto& f) { return f.holds(y); });
  }

  /// Terms of one branch: intervals cut at each other's ends; between two cuts the same terms are alive.
  double kept_by_union(const PassTable& pass, std::size_t from, std::size_t to, std::int64_t x,
                       std::uint64_t bits) const {
    std::vector<std::int64_t> cuts;
    std::vector<ir::RowInterval> kept;
    for (std::size_t i = from; i < to; ++i) {
      kept.push_back(ir::interval_of_row(pass.terms[i], x, bits, extent_));
      if (kept.back().lo < kept.back().hi) cuts.insert(cuts.end(), {kept.back().lo, kept.back().hi});
    }
    std::sort(cuts.begin(), cuts.end());
    double pairs = 0;
    for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
      Zone zone{.lo = cuts[c], .hi = cuts[c + 1], .full = true, .terms = {}};
      for (std::size_t i = from; i < to; ++i) {
        const auto& k = kept[i - from];
        if (zone.lo >= k.lo && zone.hi <= k.hi) zone.terms.push_back(static_cast<int>(i));
      }
      if (!zone.terms.empty() && zone.lo < zone.hi)
        pairs += static_cast<double>(count_hits(pass, zone, extent_, zone.lo, zone.hi));
    }
    return pairs;
  }

  const ir::Plan& plan_;
  const Extent& extent_;
  std::vector<Zone> zones_;
};

/// Shift of x under which the head's ranges only shift along; 0: there is none.
std::int64_t repeat_of(const HeadTable& head, int tile) {
  std::int64_t repeat = head.cell > 0 ? head.cell : tile;
  const auto join = [&](std::int64_t with) {
    if (with > 0 && repeat > 0) repeat = std::lcm(repeat, with);
    if (repeat > (std::int64_t{1} << 40)) repeat = 0;
  };
  for (const auto& c : head.row_bits) join(c.segment > 0 ? c.segment : c.rate);
  for (const auto& pass : head.passes) {
    for (const auto& term : pass.terms) {
      if (!term.rows.empty() || term.lo.empty() || term.hi.empty()) return 0;
      for (const auto* list : {&term.lo, &term.hi}) {
        for (const auto& b : *list) {
          if (b.kind != Bound::Kind::row && b.kind != Bound::Kind::segment) return 0;
          if (b.kind == Bound::Kind::segment) join(b.a);
        }
      }
      join(term.stream.segment > 0 ? term.stream.segment : term.stream.rate);
      for (const auto& f : term.filters) join(f.segment > 0 ? f.segment : f.rate);
    }
  }
  return repeat;
}

/// Do rows [first, last] keep nothing outside the streamed side's extent, so that nothing is clipped?
bool inside(const HeadTable& head, std::int64_t first, std::int64_t last, const Extent& extent) {
  if (first < extent.x_begin || last >= extent.x_end) return false;
  for (const auto& pass : head.passes) {
    for (const auto& term : pass.terms) {
      std::int64_t lo = ir::value_of(term.lo.front(), first, extent);
      std::int64_t hi = ir::value_of(term.hi.front(), last, extent);
      for (const auto& b : term.lo) lo = std::max(lo, ir::value_of(b, first, extent));
      for (const auto& b : term.hi) hi = std::min(hi, ir::value_of(b, last, extent));
      if (lo < extent.y_begin || hi > extent.y_end) return false;
    }
  }
  return true;
}

/// The shares of one of the query heads that stand together in tiles, so many of them.
Work count_head(const ir::Plan& plan, const ir::Phase& phase, const ir::PhaseTable& table, const HeadTable& head,
                const Extent& extent, std::int64_t together) {
  Work total;
  TileRows rows;
  TileCounter counter(plan, extent);
  const std::int64_t tiles = ir::tile_count(phase, head, extent);
  const std::int64_t repeat = repeat_of(head, phase.rows.tile);
  // Tiles of one cell (or one tile of consecutive rows) count as a group.
  const std::int64_t group = head.cell > 0 ? head.tiles_per_cell : 1;
  const std::int64_t length = head.cell > 0 ? head.cell : phase.rows.tile;
  const std::int64_t base = head.cell > 0 ? ir::floor_div(extent.x_begin, head.cell) * head.cell : extent.x_begin;
  const std::int64_t groups = tiles / group;
  std::map<std::int64_t, Work> known;
  if (!plan.predicates.empty()) return count_conditional(plan, phase, table, head, extent, together);
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::int64_t number = phase.rows.longest_first ? groups - 1 - g : g;
    const std::int64_t start = base + number * length;
    const bool repeats = repeat > 0 && inside(head, start, start + length - 1, extent);
    const std::int64_t key = repeats ? ir::floor_mod(start, repeat) : 0;
    if (repeats) {
      if (const auto at = known.find(key); at != known.end()) {
        total += at->second;
        continue;
      }
    }
    Work work;
    for (std::int64_t i = 0; i < group; ++i) {
      ir::rows_of_tile(phase, table, head, extent, g * group + i, rows);
      ir::repeat_rows(rows, together);
      Work one = counter.count(head, rows);
      one.pairs = counter.useful(phase, head, rows);
      work += one;
    }
    total += work;
    if (repeats) known.emplace(key, work);
  }
  return total.scaled(1 / static_cast<double>(together));
}

}  // namespace

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
  Work total;
  const auto together = ir::heads_per_tile(plan, ir::heads_are_alike(plan, tables), shape);
  const ir::PairValues pairs(plan, shape, inputs);
  bool per_batch = shape.offset.size() > 1;
  for (const auto& phase : plan.phases) {
    for (const auto& pass : phase.passes) {
      for (const auto& range : pass.ranges) {
        const auto reads = [](const Bound& b) { return b.kind == Bound::Kind::input; };
        per_batch = per_batch || std::any_of(range.lo.begin(), range.lo.end(), reads) ||
                    std::any_of(range.hi.begin(), range.hi.end(), reads) ||
                    std::any_of(range.rows.begin(), range.rows.end(), [&](const auto& r) { return reads(r.bound); });
      }
    }
  }
  const auto reads_batch = [](const ir::ExprPtr& e) { return e && ir::reads(*e, ir::Variable::b); };
  for (const auto& form : plan.forms) per_batch = per_batch || reads_batch(form);
  for (const auto& p : plan.predicates) {
    per_batch = per_batch || reads_batch(p.holds) || reads_batch(p.key) || reads_batch(p.lo) || reads_batch(p.hi);
  }
  const std::int64_t counted = per_batch ? shape.batch : std::min<std::int64_t>(1, shape.batch);
  for (std::int64_t b = 0; b < counted; ++b) {
    for (std::size_t p = 0; p < plan.phases.size(); ++p) {
      const ir::Phase& phase = plan.phases[p];
      Extent extent = ir::extent_of(shape, b, phase.stationary, &inputs);
      extent.pairs = &pairs;
      std::vector<double> heads(tables.phases[p].head.size(), 0);
      for (int h : tables.phases[p].head_of) heads[static_cast<std::size_t>(h)] += 1;
      for (std::size_t h = 0; h < heads.size(); ++h) {
        // Conditions that read h are counted for the first head of each table.
        const auto& numbers = tables.phases[p].head_of;
        extent.h = std::find(numbers.begin(), numbers.end(), static_cast<int>(h)) - numbers.begin();
        total += count_head(plan, phase, tables.phases[p], tables.phases[p].head[h], extent, together).scaled(heads[h]);
      }
    }
  }
  if (!per_batch) total = total.scaled(static_cast<double>(shape.batch));
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
  return element * (count(shape.batch, shape.n_q, shape.heads, shape.d + shape.d_v) +
                    count(shape.batch, shape.n_k, shape.kv_heads, shape.d + shape.d_v)) +
         4 * count(shape.batch, shape.n_q, shape.heads, 1);
}

}  // namespace weft::planner
