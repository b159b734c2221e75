#include "compiler/ir/schedule.h"

#include "compiler/walk/zones.h"

#include <algorithm>
#include <limits>

namespace weft::ir {
namespace {

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
  out.on_row = reads_key(p, extent.stationary) ? 0 : 1;
  if (out.on_row != 0) {
    for (auto x : rows.x) {
      const QueryKey at = positions(extent, x, 0);
      const bool meets = extent.pairs->holds(p, extent.b, extent.h, at.q, at.k);
      (meets ? out.some_meet : out.some_fail) = 1;
      out.row_meets.push_back(meets ? 1 : 0);
    }
    return out;
  }
  if (p.key) {
    out.least = std::numeric_limits<std::int64_t>::max();
    out.most = std::numeric_limits<std::int64_t>::min();
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
    const bool differs = out.run_rows.empty() || now != before || lo != lo_before || hi != hi_before;
    if (differs && out.run_rows.size() <= kMostRuns) out.run_rows.push_back(x);
    std::swap(before, now);
    lo_before = lo;
    hi_before = hi;
    if (!p.key) continue;
    out.least = std::min(out.least, lo);
    out.most = std::max(out.most, hi);
    out.row_lo.push_back(lo);
    out.row_hi.push_back(hi);
  }
  if (out.run_rows.size() > kMostRuns) out.run_rows.clear();
  out.runs = std::ssize(out.run_rows);
  return out;
}

/// What compiler/walk asks. Of the rows only what is said to conditions.
class Environment {
 public:
  Environment(const Extent& extent, const TileRows* rows, std::size_t terms = 0)
      : x_begin(extent.x_begin),
        x_end(extent.x_end),
        y_begin(extent.y_begin),
        y_end(extent.y_end),
        extent_(extent),
        rows_(rows),
        states_(terms) {}

  std::int64_t x_begin, x_end, y_begin, y_end;
  std::int64_t word(const std::int64_t* at) const { return *at; }
  const std::int64_t* table(std::int64_t offset) const { return extent_.words->data() + offset; }
  std::int64_t input(std::int64_t number) const {
    const Tensor& of = (*extent_.inputs)[static_cast<std::size_t>(number)];
    return static_cast<std::int64_t>(of.data[static_cast<std::size_t>(extent_.b)]);
  }
  std::int64_t part(std::int64_t b, std::int64_t a) const {
    return static_cast<std::int64_t>(static_cast<__int128>(b) * extent_.tokens / a);
  }
  std::int64_t form(std::int64_t number, std::int64_t x) const {
    return of_row(*extent_.pairs->plan().forms[static_cast<std::size_t>(number)], extent_, x);
  }
  const TilePredicate& said(std::int64_t number) const { return rows_->predicates[static_cast<std::size_t>(number)]; }
  walk::TermState& state(std::int64_t t) { return states_[static_cast<std::size_t>(t)]; }
  std::int64_t modulus(std::int64_t number) const { return condition(number).modulus; }
  walk::Answer answers(std::int64_t number, std::int64_t y) const {
    using walk::kSomeDoNot, walk::kSomeDoSomeDoNot, walk::kSomeKeep;
    const TilePredicate& said_of = said(number);
    walk::Answer out{.of_rows = 0, .end = y + 1};
    if (said_of.on_row != 0) return {.of_rows = kSomeDoSomeDoNot, .end = y + 1};
    const Predicate& p = condition(number);
    for (auto x : said_of.run_rows) {
      const QueryKey at = positions(extent_, x, y);
      out.of_rows |= extent_.pairs->holds(p, extent_.b, extent_.h, at.q, at.k) ? kSomeKeep : kSomeDoNot;
    }
    if (said_of.runs > 0) return out;
    const QueryKey at = positions(extent_, rows_->x.front(), y);
    const std::int64_t key = p.key ? extent_.pairs->integer(*p.key, extent_.b, extent_.h, at.q, at.k) : 0;
    out.of_rows = p.key && (key < said_of.least || key >= said_of.most) ? kSomeDoNot : kSomeDoSomeDoNot;
    return out;
  }

 private:
  const Predicate& condition(std::int64_t number) const {
    return extent_.pairs->plan().predicates[static_cast<std::size_t>(number)];
  }

  const Extent& extent_;
  const TileRows* rows_;
  std::vector<walk::TermState> states_;
};

walk::Tiles tiles_of(const Phase& phase) {
  return {.rows = phase.rows.tile, .last_first = phase.rows.longest_first, .heads = 1};
}

/// The term's conditions on pairs that the tile could not turn into filters, of row number r.
bool holds_pair(const Term& term, const TileRows& rows, std::size_t r, std::int64_t y, const Extent& extent) {
  return std::all_of(term.predicates.begin(), term.predicates.end(), [&](const PredicateUse& use) {
    const TilePredicate& p = rows.predicates[static_cast<std::size_t>(use.number)];
    if (p.on_row != 0) return (p.row_meets[r] != 0) != use.negated;
    if (p.runs == 1) return true;
    const Predicate& condition = predicate_of(use, extent);
    if (!condition.key) return holds(use, extent, rows.x[r], y);
    const QueryKey at = positions(extent, rows.x[r], y);
    const std::int64_t key = extent.pairs->integer(*condition.key, extent.b, extent.h, at.q, at.k);
    return (p.row_lo[r] <= key && key < p.row_hi[r]) != use.negated;
  });
}

}  // namespace

Extent extent_of(const Shape& shape, std::int64_t b, Stationary stationary, const std::vector<Tensor>* inputs,
                 const Tables* tables) {
  const std::int64_t offset = shape.offset_of(b);
  Extent e{.x_begin = offset,
           .x_end = offset + shape.n_q,
           .y_begin = 0,
           .y_end = shape.n_k,
           .tokens = shape.n_k,
           .b = b,
           .inputs = inputs,
           .words = tables != nullptr ? &tables->words : nullptr,
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
  return walk::value_of(Environment(extent, nullptr), words_of(bound).data(), x);
}

std::int64_t tile_count(const Phase& phase, const HeadTable& head, const Extent& extent) {
  const Environment e(extent, nullptr);
  return walk::tile_count(e, e.table(head.at), tiles_of(phase));
}

walk::TileRange tiles_of_rows(const Phase& phase, const HeadTable& head, const Extent& extent, std::int64_t begin,
                              std::int64_t end) {
  const Environment e(extent, nullptr);
  return walk::tiles_of_rows(e, e.table(head.at), tiles_of(phase), begin, end);
}

void rows_of_tile(const Phase& phase, const HeadTable& head, const Extent& extent, std::int64_t tile, TileRows& out) {
  out.x.clear();
  out.bits.clear();
  out.predicates.clear();
  const Environment e(extent, nullptr);
  walk::rows_of_tile(e, e.table(head.at), tiles_of(phase), tile, [&](std::int64_t x, std::uint64_t bits) {
    out.x.push_back(x);
    out.bits.push_back(bits);
  });
  if (extent.pairs == nullptr || out.x.empty()) return;
  for (const auto& p : extent.pairs->plan().predicates) out.predicates.push_back(describe(p, out, extent));
}

void zones_of_tile(const PassTable& pass, const TileRows& rows, const Extent& extent, std::vector<Zone>& out) {
  out.clear();
  if (rows.x.empty()) return;
  walk::Rows of_tile{.first = rows.x.front(), .last = rows.x.back(), .every = ~std::uint64_t{0}, .any = 0};
  for (auto bits : rows.bits) {
    of_tile.every &= bits;
    of_tile.any |= bits;
  }
  Environment e(extent, &rows, pass.terms.size());
  const std::int64_t* const words = e.table(pass.at);
  std::vector<std::int64_t> cuts(4 * pass.terms.size()), terms(pass.terms.size());
  const std::int64_t count = walk::make_spans(e, of_tile, words, cuts.data());
  for (std::size_t c = 1; c < static_cast<std::size_t>(count); ++c) {
    if (cuts[c - 1] == cuts[c]) continue;
    const walk::Zone zone = walk::make_zone(e, words, cuts[c - 1], cuts[c], terms.data());
    if (zone.count == 0) continue;
    const std::vector<int> of_zone(terms.begin(), terms.begin() + zone.count);
    if (!out.empty() && out.back().hi == cuts[c - 1] && out.back().full == zone.full && out.back().terms == of_zone) {
      out.back().hi = cuts[c];
    } else {
      out.push_back({.lo = cuts[c - 1], .hi = cuts[c], .full = zone.full, .terms = of_zone});
    }
  }
}

bool passes_filters(const Term& term, const TileRows& rows, const Extent& extent, std::int64_t y) {
  Environment e(extent, &rows);
  std::int64_t skip = y;
  return walk::passes(e, e.table(term.at), y, skip);
}

std::int64_t step_of(const Term& term, const TileRows& rows, const Extent& extent) {
  const Environment e(extent, &rows);
  walk::TermState state;
  walk::choose_stream(e, e.table(term.at), state);
  return state.rate;
}

walk::Interval interval_of_row(const Term& term, std::int64_t x, std::uint64_t bits, const Extent& extent) {
  const Environment e(extent, nullptr);
  return walk::interval_of_row(e, e.table(term.at), x, bits);
}

void for_each_hit(const PassTable& pass, const Zone& zone, const TileRows& rows, const Extent& extent,
                  const std::function<void(const Hit&)>& visit) {
  Environment e(extent, &rows, pass.terms.size());
  const std::int64_t* const words = e.table(pass.at);
  const std::vector<std::int64_t> terms(zone.terms.begin(), zone.terms.end());
  for (auto t : terms) walk::start_stream(e, walk::term_of(e, words, t), e.state(t), zone.lo);
  std::vector<int> hit;
  for (std::int64_t y; (y = walk::next_hit(e, words, terms.data(), std::ssize(terms), zone.hi)) < zone.hi;) {
    hit.clear();
    for (int t : zone.terms) {
      if (e.state(t).hit != 0) hit.push_back(t);
    }
    visit({y, &hit});
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
      const walk::Interval kept = interval_of_row(term, rows.x[r], rows.bits[r], extent);
      if (hit.y < kept.lo || hit.y >= kept.hi) continue;
      if (!holds_pair(term, rows, r, hit.y, extent)) continue;
    }
    counted = term.branch;
    ++weight;
  }
  return weight;
}

}  // namespace weft::ir
