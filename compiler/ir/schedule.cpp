#include "compiler/ir/schedule.h"

#include <algorithm>
#include <limits>

namespace weft::ir {
namespace {

constexpr std::int64_t kFar = std::int64_t{1} << 60;

/// What one term keeps of y, for any and for every row of a tile. Empty intervals have lo >= hi.
struct Span {
  std::int64_t may_lo = 0, may_hi = 0, must_lo = 0, must_hi = 0;
};

enum class Truth { no, maybe, yes };

Truth rows_meet(const Term& term, const TileRows& rows, std::uint64_t every, std::uint64_t any, const Extent& extent) {
  if ((term.row_need & ~any) != 0 || (term.row_miss & every) != 0) return Truth::no;
  Truth truth = (term.row_need & ~every) != 0 || (term.row_miss & any) != 0 ? Truth::maybe : Truth::yes;
  for (const auto& row : term.rows) {
    const std::int64_t at = value_of(row.bound, 0, extent);
    const std::int64_t below = std::lower_bound(rows.x.begin(), rows.x.end(), at) - rows.x.begin();
    const auto count = static_cast<std::int64_t>(rows.x.size());
    const std::int64_t meet = row.below ? below : count - below;
    if (meet == 0) return Truth::no;
    if (meet < count) truth = Truth::maybe;
  }
  for (const auto& use : term.predicates) {
    const TilePredicate& p = rows.predicates[static_cast<std::size_t>(use.number)];
    if (p.on_row_only && !(use.negated ? p.some_fail : p.some_meet)) return Truth::no;
    // Rows that disagree leave each pair to the mask.
    if (p.on_row_only ? p.some_meet && p.some_fail : p.runs.size() != 1) truth = Truth::maybe;
  }
  return truth;
}

Span span_of(const Term& term, const TileRows& rows, Truth met, const Extent& extent) {
  Span s{extent.y_begin, extent.y_end, extent.y_begin, extent.y_end};
  const std::int64_t first = rows.x.front();
  const std::int64_t last = rows.x.back();
  const auto slack = [](const Bound& b) { return b.kind == Bound::Kind::form ? b.b : 0; };
  for (const auto& bound : term.lo) {
    s.may_lo = std::max(s.may_lo, value_of(bound, first, extent) - slack(bound));
    s.must_lo = std::max(s.must_lo, value_of(bound, last, extent) + slack(bound));
  }
  for (const auto& bound : term.hi) {
    s.may_hi = std::min(s.may_hi, value_of(bound, last, extent) + slack(bound));
    s.must_hi = std::min(s.must_hi, value_of(bound, first, extent) - slack(bound));
  }
  if (met != Truth::yes || s.must_lo >= s.must_hi) s.must_lo = s.must_hi = s.may_hi;
  return s;
}

/// The first y >= from that the stream hits.
struct Stream {
  std::int64_t at, segment_end;
};

Stream start(const ResolvedCongruence& c, std::int64_t from) {
  if (c.rate == 1) return {from, kFar};
  if (c.segment == 0) return {from + floor_mod(c.phase - from, c.rate), kFar};
  const std::int64_t base = floor_div(from, c.segment) * c.segment;
  Stream s{from + floor_mod(base + c.phase - from, c.rate), base + c.segment};
  if (s.at >= s.segment_end) s = {s.segment_end + c.phase, s.segment_end + c.segment};
  return s;
}

void advance(const ResolvedCongruence& c, Stream& s) {
  s.at += c.rate;
  if (s.at >= s.segment_end) s = {s.segment_end + c.phase, s.segment_end + c.segment};
}

bool on_keys(const PredicateUse& use, const TileRows& rows) {
  return !rows.predicates[static_cast<std::size_t>(use.number)].on_row_only;
}

bool whole(const Term& term, const TileRows& rows) {
  return term.stream.rate == 1 && term.filters.empty() &&
         std::none_of(term.predicates.begin(), term.predicates.end(), [&](const auto& u) { return on_keys(u, rows); });
}

const Predicate& predicate_of(const PredicateUse& use, const Extent& extent) {
  return extent.pairs->plan().predicates[static_cast<std::size_t>(use.number)];
}

/// Positions of a pair in the terms of expressions.
struct QueryKey {
  std::int64_t q, k;
};
QueryKey positions(const Extent& extent, std::int64_t x, std::int64_t y) {
  return extent.stationary == Stationary::query ? QueryKey{x, y} : QueryKey{y, x};
}

bool holds(const PredicateUse& use, const Extent& extent, std::int64_t x, std::int64_t y) {
  const QueryKey at = positions(extent, x, y);
  return extent.pairs->holds(predicate_of(use, extent), extent.b, extent.h, at.q, at.k) != use.negated;
}

std::int64_t of_row(const Expr& e, const Extent& extent, std::int64_t x) {
  const QueryKey at = positions(extent, x, 0);
  return extent.pairs->integer(e, extent.b, extent.h, at.q, at.k);
}

/// What the tile's rows say to a condition.
TilePredicate describe(const Predicate& p, const TileRows& rows, const Extent& extent) {
  TilePredicate out;
  out.on_row_only = !reads_key(p, extent.stationary);
  if (out.on_row_only) {
    for (auto x : rows.x) {
      const QueryKey at = positions(extent, x, 0);
      (extent.pairs->holds(p, extent.b, extent.h, at.q, at.k) ? out.some_meet : out.some_fail) = true;
    }
    return out;
  }
  if (p.key) {
    out.lo = std::numeric_limits<std::int64_t>::max();
    out.hi = std::numeric_limits<std::int64_t>::min();
  }
  // All that an interval says of a row is its bounds, and they are integers; else parts may be of any type.
  const auto parts = p.key ? std::vector<ExprPtr>{} : row_parts(p, extent.stationary);
  std::vector<double> before, now;
  std::int64_t lo_before = 0, hi_before = 0;
  for (auto x : rows.x) {
    const QueryKey at = positions(extent, x, 0);
    now.clear();
    for (const auto& part : parts) now.push_back(extent.pairs->number(*part, extent.b, extent.h, at.q, at.k));
    const std::int64_t lo = p.key ? of_row(*p.lo, extent, x) : 0, hi = p.key ? of_row(*p.hi, extent, x) : 0;
    const bool differs = out.runs.empty() || now != before || lo != lo_before || hi != hi_before;
    if (differs && out.runs.size() <= kMostRuns) out.runs.push_back(x);
    std::swap(before, now);
    lo_before = lo;
    hi_before = hi;
    if (!p.key) continue;
    out.lo = std::min(out.lo, lo);
    out.hi = std::max(out.hi, hi);
  }
  if (out.runs.size() > kMostRuns) out.runs.clear();
  return out;
}

/// A branch of which some term keeps all of the zone for every row needs none of its other terms.
void drop_covered(const PassTable& pass, const std::vector<Span>& spans, const TileRows& rows, Zone& zone) {
  const auto covers = [&](int t) {
    const auto i = static_cast<std::size_t>(t);
    return whole(pass.terms[i], rows) && zone.lo >= spans[i].must_lo && zone.hi <= spans[i].must_hi;
  };
  std::vector<int> kept;
  for (std::size_t i = 0; i < zone.terms.size();) {
    std::size_t end = i;
    int cover = -1;
    const int branch = pass.terms[static_cast<std::size_t>(zone.terms[i])].branch;
    for (; end < zone.terms.size() && pass.terms[static_cast<std::size_t>(zone.terms[end])].branch == branch; ++end) {
      if (cover < 0 && covers(zone.terms[end])) cover = zone.terms[end];
    }
    if (cover >= 0) {
      kept.push_back(cover);
    } else {
      kept.insert(kept.end(), zone.terms.begin() + static_cast<std::ptrdiff_t>(i),
                  zone.terms.begin() + static_cast<std::ptrdiff_t>(end));
    }
    i = end;
  }
  zone.terms = std::move(kept);
}

}  // namespace

Extent extent_of(const Shape& shape, std::int64_t b, Stationary stationary, const std::vector<Tensor>* inputs) {
  const std::int64_t offset = shape.offset_of(b);
  Extent e{.x_begin = offset,
           .x_end = offset + shape.n_q,
           .y_begin = 0,
           .y_end = shape.n_k,
           .tokens = shape.n_k,
           .b = b,
           .inputs = inputs,
           .h = 0,
           .stationary = stationary,
           .pairs = nullptr};
  if (stationary == Stationary::key) {
    std::swap(e.x_begin, e.y_begin);
    std::swap(e.x_end, e.y_end);
  }
  return e;
}

std::int64_t value_of(const Bound& bound, std::int64_t x, const Extent& extent) {
  switch (bound.kind) {
    case Bound::Kind::constant:
      return bound.add;
    case Bound::Kind::row:
      return x + bound.add;
    case Bound::Kind::segment:
      return floor_div(x, bound.a) * bound.a + bound.add;
    case Bound::Kind::input:
      return static_cast<std::int64_t>(
                 (*extent.inputs)[static_cast<std::size_t>(bound.a)].data[static_cast<std::size_t>(extent.b)]) +
             bound.add;
    case Bound::Kind::form:
      return of_row(*extent.pairs->plan().forms[static_cast<std::size_t>(bound.a)], extent, x) + bound.add;
    case Bound::Kind::part:
      return static_cast<std::int64_t>(static_cast<__int128>(bound.b) * extent.tokens / bound.a) + bound.add;
  }
  return 0;
}

std::int64_t tile_count(const Phase& phase, const HeadTable& head, const Extent& extent) {
  if (extent.x_begin >= extent.x_end) return 0;
  if (head.cell == 0) return (extent.x_end - extent.x_begin + phase.rows.tile - 1) / phase.rows.tile;
  const std::int64_t first = floor_div(extent.x_begin, head.cell);
  const std::int64_t last = floor_div(extent.x_end - 1, head.cell);
  return (last - first + 1) * head.tiles_per_cell;
}

void rows_of_tile(const Phase& phase, const PhaseTable& table, const HeadTable& head, const Extent& extent,
                  std::int64_t tile, TileRows& out) {
  out.x.clear();
  out.bits.clear();
  out.predicates.clear();
  const RowMap& map = phase.rows;
  const std::int64_t total = tile_count(phase, head, extent);
  if (head.cell == 0) {
    const std::int64_t number = map.longest_first ? total - 1 - tile : tile;
    const std::int64_t begin = extent.x_begin + number * map.tile;
    for (std::int64_t x = begin; x < std::min(begin + map.tile, extent.x_end); ++x) {
      out.x.push_back(x);
      out.bits.push_back(0);
    }
  } else {
    const std::int64_t cells = total / head.tiles_per_cell;
    const std::int64_t number = tile / head.tiles_per_cell;
    const std::int64_t cell = floor_div(extent.x_begin, head.cell) + (map.longest_first ? cells - 1 - number : number);
    const auto& rows =
        table.cell_tables[static_cast<std::size_t>(head.cells[static_cast<std::size_t>(floor_mod(cell, head.period))])];
    std::int64_t in_cell = tile % head.tiles_per_cell;
    if (in_cell >= rows.tiles) return;
    std::size_t number_of_class = 0;
    while (in_cell >= rows.classes[number_of_class].tiles) in_cell -= rows.classes[number_of_class++].tiles;
    const auto& of = rows.classes[number_of_class];
    const auto residues = static_cast<std::int64_t>(of.residues.size());
    const std::int64_t first = in_cell * map.tile;
    for (std::int64_t j = first; j < std::min(first + map.tile, of.rows); ++j) {
      const auto r = static_cast<std::size_t>(j % residues);
      const std::int64_t x = cell * head.cell + head.lcm * (j / residues) + of.residues[r];
      if (x < extent.x_begin || x >= extent.x_end) continue;
      out.x.push_back(x);
      out.bits.push_back(of.bits[r]);
    }
  }
  for (std::size_t i = head.cell > 0 ? head.class_bits : 0; i < head.row_bits.size(); ++i) {
    for (std::size_t r = 0; r < out.x.size(); ++r) {
      if (head.row_bits[i].holds(out.x[r])) out.bits[r] |= std::uint64_t{1} << i;
    }
  }
  if (extent.pairs == nullptr || out.x.empty()) return;
  for (const auto& p : extent.pairs->plan().predicates) out.predicates.push_back(describe(p, out, extent));
}

void zones_of_tile(const PassTable& pass, const TileRows& rows, const Extent& extent, std::vector<Zone>& out) {
  out.clear();
  if (rows.x.empty()) return;
  std::uint64_t every = ~std::uint64_t{0};
  std::uint64_t any = 0;
  for (auto bits : rows.bits) {
    every &= bits;
    any |= bits;
  }
  std::vector<Span> spans(pass.terms.size());
  std::vector<std::int64_t> cuts;
  for (std::size_t i = 0; i < pass.terms.size(); ++i) {
    const Truth met = rows_meet(pass.terms[i], rows, every, any, extent);
    if (met == Truth::no) continue;
    spans[i] = span_of(pass.terms[i], rows, met, extent);
    if (spans[i].may_lo >= spans[i].may_hi) continue;
    cuts.insert(cuts.end(), {spans[i].may_lo, spans[i].may_hi});
    if (spans[i].must_lo < spans[i].must_hi) cuts.insert(cuts.end(), {spans[i].must_lo, spans[i].must_hi});
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
    Zone zone{.lo = cuts[c], .hi = cuts[c + 1], .full = true, .terms = {}};
    for (std::size_t i = 0; i < spans.size(); ++i) {
      if (zone.lo >= spans[i].may_lo && zone.hi <= spans[i].may_hi) zone.terms.push_back(static_cast<int>(i));
    }
    if (zone.terms.empty()) continue;
    drop_covered(pass, spans, rows, zone);
    for (int t : zone.terms) {
      const auto& s = spans[static_cast<std::size_t>(t)];
      zone.full = zone.full && zone.lo >= s.must_lo && zone.hi <= s.must_hi;
    }
    if (!out.empty() && out.back().hi == zone.lo && out.back().full == zone.full && out.back().terms == zone.terms) {
      out.back().hi = zone.hi;
    } else {
      out.push_back(std::move(zone));
    }
  }
}

bool passes_filters(const Term& term, const TileRows& rows, const Extent& extent, std::int64_t y) {
  for (const auto& filter : term.filters) {
    if (!filter.holds(y)) return false;
  }
  for (const auto& use : term.predicates) {
    const TilePredicate& p = rows.predicates[static_cast<std::size_t>(use.number)];
    if (p.on_row_only) continue;
    const auto keeps = [&](std::int64_t x) { return holds(use, extent, x, y); };
    if (!p.runs.empty() && std::none_of(p.runs.begin(), p.runs.end(), keeps)) return false;
    const Predicate& condition = predicate_of(use, extent);
    if (!p.runs.empty() || !condition.key || use.negated) continue;
    const QueryKey at = positions(extent, rows.x.front(), y);
    const std::int64_t key = extent.pairs->integer(*condition.key, extent.b, extent.h, at.q, at.k);
    if (key < p.lo || key >= p.hi) return false;
  }
  return true;
}

bool holds_pair(const Term& term, const TileRows& rows, const Extent& extent, std::int64_t x, std::int64_t y) {
  return std::all_of(term.predicates.begin(), term.predicates.end(), [&](const PredicateUse& use) {
    const TilePredicate& p = rows.predicates[static_cast<std::size_t>(use.number)];
    return (!p.on_row_only && p.runs.size() == 1) || holds(use, extent, x, y);
  });
}

ResolvedCongruence stream_of(const Term& term, const TileRows& rows, const Extent& extent) {
  if (term.stream.rate != 1) return term.stream;
  for (const auto& use : term.predicates) {
    const TilePredicate& p = rows.predicates[static_cast<std::size_t>(use.number)];
    const std::int64_t modulus = predicate_of(use, extent).modulus;
    if (modulus > 1 && !use.negated && p.runs.size() == 1) return {.segment = 0, .rate = modulus, .phase = p.lo};
  }
  return term.stream;
}

RowInterval interval_of_row(const Term& term, std::int64_t x, std::uint64_t bits, const Extent& extent) {
  if ((term.row_need & ~bits) != 0 || (term.row_miss & bits) != 0) return {0, 0};
  for (const auto& row : term.rows) {
    if ((x < value_of(row.bound, x, extent)) != row.below) return {0, 0};
  }
  RowInterval r{extent.y_begin, extent.y_end};
  for (const auto& bound : term.lo) r.lo = std::max(r.lo, value_of(bound, x, extent));
  for (const auto& bound : term.hi) r.hi = std::min(r.hi, value_of(bound, x, extent));
  return r;
}

void for_each_hit(const PassTable& pass, const Zone& zone, const TileRows& rows, const Extent& extent,
                  const std::function<void(const Hit&)>& visit) {
  struct Walk {
    const Term* term;
    ResolvedCongruence congruence;
    Stream stream;
  };
  std::vector<Walk> walks;
  for (int t : zone.terms) {
    const Term& term = pass.terms[static_cast<std::size_t>(t)];
    const ResolvedCongruence c = stream_of(term, rows, extent);
    walks.push_back({&term, c, start(c, zone.lo)});
  }
  std::vector<int> hit;
  while (true) {
    std::int64_t y = std::numeric_limits<std::int64_t>::max();
    for (const auto& w : walks) y = std::min(y, w.stream.at);
    if (y >= zone.hi) return;
    hit.clear();
    for (std::size_t i = 0; i < walks.size(); ++i) {
      if (walks[i].stream.at != y) continue;
      advance(walks[i].congruence, walks[i].stream);
      if (passes_filters(*walks[i].term, rows, extent, y)) hit.push_back(zone.terms[i]);
    }
    if (!hit.empty()) visit({y, &hit});
  }
}

int weight_of(const PassTable& pass, const Hit& hit, bool full, const TileRows& rows, std::size_t r,
              const Extent& extent) {
  int weight = 0;
  int counted = -1;
  for (int t : *hit.terms) {
    const Term& term = pass.terms[static_cast<std::size_t>(t)];
    if (term.branch == counted) continue;
    if (!full) {
      const RowInterval kept = interval_of_row(term, rows.x[r], rows.bits[r], extent);
      if (hit.y < kept.lo || hit.y >= kept.hi) continue;
      if (!holds_pair(term, rows, extent, rows.x[r], hit.y)) continue;
    }
    counted = term.branch;
    ++weight;
  }
  return weight;
}

}  // namespace weft::ir
