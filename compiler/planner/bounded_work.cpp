#include "compiler/planner/bounded_work.h"

#include "compiler/ir/few_rows.h"
#include "compiler/planner/conditional_work.h"
#include "compiler/planner/key_counts.h"

#include <algorithm>
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

/// y of a zone's stretch that some term hits: closed forms where streams nest, else by their period.
std::int64_t count_hits(const PassTable& pass, const Zone& zone, KeyCounts& counts, std::int64_t lo, std::int64_t hi) {
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
  return static_cast<std::int64_t>(counts.count(pass, zone.terms, lo, hi));
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

  bool estimated() const { return counts_.estimated(); }

  /// Kept pairs of the passes that reach O.
  double useful(const ir::Phase& phase, const HeadTable& head, const TileRows& rows) const {
    double pairs = 0;
    for (std::size_t p = 0; p < head.passes.size(); ++p) {
      if (!phase.passes[p].out) continue;
      for (std::size_t r = 0; r < rows.x.size(); ++r) pairs += kept_by_row(head.passes[p], rows.x[r], rows.bits[r]);
    }
    return pairs;
  }

  /// Each branch's terms are a union; branches add up.
  double kept_by_row(const PassTable& pass, std::int64_t x, std::uint64_t bits) const {
    double pairs = 0;
    for (std::size_t i = 0; i < pass.terms.size();) {
      std::size_t end = i + 1;
      while (end < pass.terms.size() && pass.terms[end].branch == pass.terms[i].branch) ++end;
      pairs += end == i + 1 ? kept_by_term(pass, i, x, bits) : kept_by_union(pass, i, end, x, bits);
      i = end;
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
      const auto keys = static_cast<double>(count_hits(pass, zone, counts_, zone.lo, zone.hi));
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
          const std::int64_t from = before + count_hits(pass, zone, counts_, zone.lo, lo);
          const std::int64_t keys = count_hits(pass, zone, counts_, lo, hi);
          if (keys > 0) {
            const std::int64_t first_group = std::max(done + 1, from / c.sub_k);
            const std::int64_t last_group = (from + keys - 1) / c.sub_k;
            groups += std::max<std::int64_t>(0, last_group - first_group + 1);
            done = std::max(done, last_group);
          }
        }
        before += count_hits(pass, zone, counts_, zone.lo, zone.hi);
      }
      pairs += static_cast<double>(groups) * c.sub_k * c.sub_q;
    }
    return pairs;
  }

  double kept_by_term(const PassTable& pass, std::size_t number, std::int64_t x, std::uint64_t bits) const {
    const Term& term = pass.terms[number];
    const auto kept = ir::interval_of_row(term, x, bits, extent_);
    if (term.filters.empty()) return static_cast<double>(count_stream(term.stream, kept.lo, kept.hi));
    return counts_.count(pass, {static_cast<int>(number)}, kept.lo, kept.hi);
  }

  /// Terms of one branch: intervals cut at each other's ends; between two cuts the same terms are alive.
  double kept_by_union(const PassTable& pass, std::size_t from, std::size_t to, std::int64_t x,
                       std::uint64_t bits) const {
    std::vector<std::int64_t> cuts;
    std::vector<walk::Interval> kept;
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
        pairs += static_cast<double>(count_hits(pass, zone, counts_, zone.lo, zone.hi));
    }
    return pairs;
  }

  const ir::Plan& plan_;
  const Extent& extent_;
  std::vector<Zone> zones_;
  mutable KeyCounts counts_;
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

/// Do rows from `first` on begin, and rows to `last` end, inside the streamed side's extent and the stationary one's,
/// so that nothing is clipped? Both change once along x, as bounds never fall.
bool begins_inside(const HeadTable& head, std::int64_t first, const Extent& extent) {
  if (first < extent.x_begin) return false;
  for (const auto& pass : head.passes) {
    for (const auto& term : pass.terms) {
      const auto clipped = [&](const Bound& b) { return ir::value_of(b, first, extent) < extent.y_begin; };
      if (std::all_of(term.lo.begin(), term.lo.end(), clipped)) return false;
    }
  }
  return true;
}
bool ends_inside(const HeadTable& head, std::int64_t last, const Extent& extent) {
  if (last >= extent.x_end) return false;
  for (const auto& pass : head.passes) {
    for (const auto& term : pass.terms) {
      const auto clipped = [&](const Bound& b) { return ir::value_of(b, last, extent) > extent.y_end; };
      if (std::all_of(term.hi.begin(), term.hi.end(), clipped)) return false;
    }
  }
  return true;
}

/// Tiles of one head that are counted one by one; of more, some are, spread evenly.
constexpr std::int64_t kCountedTiles = 1 << 15, kSampledTiles = 1 << 12;

/// Counts one head, of tiles that hold the shares of so many query heads together.
class HeadCounter {
 public:
  HeadCounter(const ir::Plan& plan, const ir::Phase& phase, const HeadTable& head, const Extent& extent,
              std::int64_t together)
      : phase_(phase),
        head_(head),
        extent_(extent),
        together_(together),
        counter_(plan, extent),
        // Tiles of one cell (or one tile of consecutive rows) count as a group.
        group_(head.cell > 0 ? head.tiles_per_cell : 1),
        length_(head.cell > 0 ? head.cell : phase.rows.tile),
        base_(head.cell > 0 ? ir::floor_div(extent.x_begin, head.cell) * head.cell : extent.x_begin),
        groups_(ir::tile_count(phase, head, extent) / group_) {}

  Work count() {
    Work total = count_groups();
    total.sampled = total.sampled || counter_.estimated();
    return total.scaled(1 / static_cast<double>(together_));
  }

 private:
  std::int64_t start_of(std::int64_t number) const { return base_ + number * length_; }

  /// The groups that nothing clips are alike once a period: those of one period are counted.
  Work count_groups() {
    const auto repeat = repeat_of(head_, phase_.rows.tile);
    if (repeat == 0) return stretch(0, groups_);
    const auto first = first_that([&](std::int64_t g) { return begins_inside(head_, start_of(g), extent_); });
    const auto end = std::max(
        first, first_that([&](std::int64_t g) { return !ends_inside(head_, start_of(g) + length_ - 1, extent_); }));
    const auto period = repeat / length_, whole = (end - first) / period;
    Work total = stretch(0, first);
    if (whole > 0) total += stretch(first, first + period).scaled(static_cast<double>(whole));
    total += stretch(first, first + (end - first) % period);
    total += stretch(end, groups_);
    return total;
  }

  /// Number of the first group for which a condition that changes once holds.
  template <typename Holds>
  std::int64_t first_that(const Holds& holds) const {
    std::int64_t low = 0, high = groups_;
    while (low < high) {
      const auto middle = low + (high - low) / 2;
      if (holds(middle))
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }

  Work stretch(std::int64_t begin, std::int64_t end) {
    Work total;
    const auto n = end - begin;
    if (n <= 0) return total;
    if (n <= kCountedTiles / group_ || n == 1) {
      for (auto g = begin; g < end; ++g) total += group(g);
      return total;
    }
    // One of each part, not always at the same place of it: neither ends nor a period are preferred.
    const auto parts = std::max<std::int64_t>(1, std::min(n, kSampledTiles / group_));
    std::uint64_t state = 1;
    for (std::int64_t i = 0; i < parts; ++i) {
      const auto from = begin + n / parts * i + n % parts * i / parts;
      const auto to = begin + n / parts * (i + 1) + n % parts * (i + 1) / parts;
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      const auto place = static_cast<std::int64_t>((state >> 33) % static_cast<std::uint64_t>(to - from));
      total += group(from + place).scaled(static_cast<double>(to - from));
    }
    total.sampled = true;
    return total;
  }

  Work group(std::int64_t number) {
    Work work;
    const auto in_order = phase_.rows.longest_first ? groups_ - 1 - number : number;
    for (std::int64_t i = 0; i < group_; ++i) {
      ir::rows_of_tile(phase_, head_, extent_, in_order * group_ + i, rows_);
      ir::repeat_rows(rows_, together_);
      Work one = counter_.count(head_, rows_);
      one.pairs = counter_.useful(phase_, head_, rows_);
      work += one;
    }
    return work;
  }

  const ir::Phase& phase_;
  const HeadTable& head_;
  const Extent& extent_;
  std::int64_t together_;
  TileCounter counter_;
  std::int64_t group_, length_, base_, groups_;
  TileRows rows_ = {};
};

}  // namespace

Work count_bounded(const ir::Plan& plan, const ir::Phase& phase, const HeadTable& head, const Extent& extent,
                   std::int64_t together) {
  return HeadCounter(plan, phase, head, extent, together).count();
}

double pairs_of_rows(const ir::Plan& plan, const HeadTable& head, std::size_t pass, const Extent& extent,
                     std::int64_t first, std::int64_t count, std::int64_t stride) {
  const TileCounter counter(plan, extent);
  double pairs = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t x = first + i * stride;
    std::uint64_t bits = 0;
    for (std::size_t bit = 0; bit < head.row_bits.size(); ++bit) {
      if (head.row_bits[bit].holds(x)) bits |= std::uint64_t{1} << bit;
    }
    pairs += counter.kept_by_row(head.passes[pass], x, bits);
  }
  return pairs;
}

}  // namespace weft::planner
