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
  return truth;
}

Span span_of(const Term& term, const TileRows& rows, Truth met, const Extent& extent) {
  Span s{extent.y_begin, extent.y_end, extent.y_begin, extent.y_end};
  const std::int64_t first = rows.x.front();
  const std::int64_t last = rows.x.back();
  for (const auto& bound : term.lo) {
    s.may_lo = std::max(s.may_lo, value_of(bound, first, extent));
    s.must_lo = std::max(s.must_lo, value_of(bound, last, extent));
  }
  for (const auto& bound : term.hi) {
    s.may_hi = std::min(s.may_hi, value_of(bound, last, extent));
    s.must_hi = std::min(s.must_hi, value_of(bound, first, extent));
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

bool whole(const Term& term) { return term.stream.rate == 1 && term.filters.empty(); }

/// A branch of which some term keeps all of the zone for every row needs none of its other terms.
void drop_covered(const PassTable& pass, const std::vector<Span>& spans, Zone& zone) {
  const auto covers = [&](int t) {
    const auto i = static_cast<std::size_t>(t);
    return whole(pass.terms[i]) && zone.lo >= spans[i].must_lo && zone.hi <= spans[i].must_hi;
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
           .inputs = inputs};
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
    drop_covered(pass, spans, zone);
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

void for_each_hit(const PassTable& pass, const Zone& zone, const std::function<void(const Hit&)>& visit) {
  std::vector<Stream> streams;
  for (int t : zone.terms) streams.push_back(start(pass.terms[static_cast<std::size_t>(t)].stream, zone.lo));
  std::vector<int> hit;
  while (true) {
    std::int64_t y = std::numeric_limits<std::int64_t>::max();
    for (const auto& s : streams) y = std::min(y, s.at);
    if (y >= zone.hi) return;
    hit.clear();
    for (std::size_t i = 0; i < streams.size(); ++i) {
      const Term& term = pass.terms[static_cast<std::size_t>(zone.terms[i])];
      if (streams[i].at != y) continue;
      advance(term.stream, streams[i]);
      bool passes = true;
      for (const auto& filter : term.filters) passes = passes && filter.holds(y);
      if (passes) hit.push_back(zone.terms[i]);
    }
    if (!hit.empty()) visit({y, &hit});
  }
}

}  // namespace weft::ir
