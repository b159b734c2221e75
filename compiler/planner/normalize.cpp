#include "compiler/planner/passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace weft::planner {
namespace {

using ir::Bound;
using ir::Congruence;
using ir::SetKind;
using Dnf = std::vector<Conjunction>;  // empty: keeps nothing

constexpr std::size_t kMostConjunctions = 256;

bool same_base(const Bound& a, const Bound& b) { return a.kind == b.kind && a.a == b.a && a.b == b.b; }

/// A literal: exactly one member of the conjunction is set.
Conjunction at_least(Bound e) { return {.lo = {e}, .hi = {}, .rows = {}, .x = {}, .y = {}}; }
Conjunction below(Bound e) { return {.lo = {}, .hi = {e}, .rows = {}, .x = {}, .y = {}}; }
Conjunction row_is(Bound e, bool is_below) { return {.lo = {}, .hi = {}, .rows = {{e, is_below}}, .x = {}, .y = {}}; }

Bound row(std::int64_t add) { return {.kind = Bound::Kind::row, .a = 0, .b = 0, .add = add}; }
Bound number(std::int64_t value) { return {.kind = Bound::Kind::constant, .a = 0, .b = 0, .add = value}; }
Bound segment(std::int64_t w, std::int64_t add) { return {.kind = Bound::Kind::segment, .a = w, .b = 0, .add = add}; }
Bound part(std::int64_t pieces, std::int64_t index) {
  return {.kind = Bound::Kind::part, .a = pieces, .b = index, .add = 0};
}

/// Adds one bound to a list whose tightest member counts; of two with one base only it stays.
void tighten(std::vector<Bound>& list, const Bound& e, bool is_lo) {
  for (auto& other : list) {
    if (same_base(other, e)) {
      other.add = is_lo ? std::max(other.add, e.add) : std::min(other.add, e.add);
      return;
    }
  }
  list.push_back(e);
}

/// False when the congruence contradicts one that is already there.
bool join(std::vector<Congruence>& list, const Congruence& c) {
  if (c.rate == 1) return !c.negated;
  for (const auto& other : list) {
    Congruence flipped = other;
    flipped.negated = !flipped.negated;
    if (other == c) return true;
    if (flipped == c) return false;
  }
  list.push_back(c);
  return true;
}

/// A bound that follows from the others is work in every tile: `y < x + 1` implies the segment's end.
void drop_implied(Conjunction& c) {
  const auto row_bound = [](const std::vector<Bound>& list) {
    return std::find_if(list.begin(), list.end(), [](const Bound& e) { return e.kind == Bound::Kind::row; });
  };
  const auto hi = row_bound(c.hi);
  if (hi != c.hi.end() && hi->add <= 1) {
    std::erase_if(c.hi, [](const Bound& e) { return e.kind == Bound::Kind::segment && e.add >= e.a; });
  }
  const auto lo = row_bound(c.lo);
  if (lo != c.lo.end()) {
    const std::int64_t reach = lo->add;
    const bool segment_is_nearer = std::any_of(c.lo.begin(), c.lo.end(), [&](const Bound& e) {
      return e.kind == Bound::Kind::segment && e.add >= 0 && reach <= 1 - e.a;
    });
    if (segment_is_nearer) std::erase_if(c.lo, [](const Bound& e) { return e.kind == Bound::Kind::row; });
  }
}

/// Conjunction of two conjunctions; false when nothing is left.
bool meet(const Conjunction& a, const Conjunction& b, Conjunction& out) {
  out = a;
  for (const auto& e : b.lo) tighten(out.lo, e, true);
  for (const auto& e : b.hi) tighten(out.hi, e, false);
  for (const auto& r : b.rows) {
    const auto clash = [&](const ir::RowCondition& o) {
      return same_base(o.bound, r.bound) && o.below != r.below &&
             (r.below ? o.bound.add >= r.bound.add : o.bound.add <= r.bound.add);
    };
    if (std::any_of(out.rows.begin(), out.rows.end(), clash)) return false;
    if (std::find(out.rows.begin(), out.rows.end(), r) == out.rows.end()) out.rows.push_back(r);
  }
  for (const auto& lo : out.lo) {
    for (const auto& hi : out.hi) {
      if (same_base(lo, hi) && lo.add >= hi.add) return false;
    }
  }
  for (const auto& c : b.x) {
    if (!join(out.x, c)) return false;
  }
  for (const auto& c : b.y) {
    if (!join(out.y, c)) return false;
  }
  drop_implied(out);
  return true;
}

template <typename T>
bool includes(const std::vector<T>& all, const std::vector<T>& some) {
  return std::all_of(some.begin(), some.end(),
                     [&](const T& item) { return std::find(all.begin(), all.end(), item) != all.end(); });
}

/// Every literal of `a` is in `b`, so `b` keeps nothing that `a` does not.
bool absorbs(const Conjunction& a, const Conjunction& b) {
  return includes(b.lo, a.lo) && includes(b.hi, a.hi) && includes(b.rows, a.rows) && includes(b.x, a.x) &&
         includes(b.y, a.y);
}

class Normalizer {
 public:
  Normalizer(Draft& draft, bool transposed) : draft_(draft), transposed_(transposed) {}

  Dnf of(const ir::Set& set, bool negated) {
    switch (set.kind) {
      case SetKind::all:
        return negated ? Dnf{} : Dnf{Conjunction{}};
      case SetKind::complement:
        return of(*set.children[0], !negated);
      case SetKind::intersection:
        return fold(set, negated, !negated);
      case SetKind::unite:
        return fold(set, negated, negated);
      case SetKind::difference:
        return negated ? unite(of(*set.children[0], true), of(*set.children[1], false))
                       : intersect(of(*set.children[0], false), of(*set.children[1], true), set);
      case SetKind::causal:
      case SetKind::window:
      case SetKind::segment:
      case SetKind::dilated:
      case SetKind::strided:
      case SetKind::sink:
      case SetKind::global:
      case SetKind::prefix:
      case SetKind::lengths:
      case SetKind::own_query:
      case SetKind::own_key:
        return negated ? negate(primitive(set), set) : primitive(set);
      case SetKind::lag:
      case SetKind::neighborhood:
      case SetKind::blocks:
      case SetKind::random:
      case SetKind::axial:
      case SetKind::document:
      case SetKind::table:
      case SetKind::top:
      case SetKind::where:
        return {};  // refused before
    }
    return {};
  }

 private:
  Dnf fold(const ir::Set& set, bool negated, bool meet_all) {
    Dnf out = of(*set.children[0], negated);
    for (std::size_t i = 1; i < set.children.size(); ++i) {
      Dnf next = of(*set.children[i], negated);
      out = meet_all ? intersect(out, next, set) : unite(std::move(out), next);
    }
    return out;
  }

  Dnf unite(Dnf a, const Dnf& b) {
    for (const auto& c : b) {
      if (std::any_of(a.begin(), a.end(), [&](const Conjunction& o) { return absorbs(o, c); })) continue;
      std::erase_if(a, [&](const Conjunction& o) { return absorbs(c, o); });
      a.push_back(c);
    }
    return a;
  }

  Dnf intersect(const Dnf& a, const Dnf& b, const ir::Set& set) {
    Dnf out;
    Conjunction both;
    for (const auto& x : a) {
      for (const auto& y : b) {
        if (meet(x, y, both)) out = unite(std::move(out), {both});
        if (out.size() > kMostConjunctions) return too_complex(set);
      }
    }
    return out;
  }

  Dnf too_complex(const ir::Set& set) {
    if (draft_.diagnostics.empty()) {
      draft_.diagnostics.push_back(
          {.code = "E0405",
           .range = set.range,
           .message = fmt::format("this set falls into more than {} pieces", kMostConjunctions),
           .label = "too many unions under intersections or complements"});
    }
    return {};
  }

  /// De Morgan over a primitive's conjunctions: each literal flipped, joined by union; then intersected.
  Dnf negate(const Dnf& primitives, const ir::Set& set) {
    Dnf out{Conjunction{}};
    for (const auto& c : primitives) {
      Dnf flipped;
      for (const auto& e : c.lo) flipped.push_back(below(e));
      for (const auto& e : c.hi) flipped.push_back(at_least(e));
      for (const auto& r : c.rows) flipped.push_back(row_is(r.bound, !r.below));
      for (auto g : c.x) {
        g.negated = !g.negated;
        if (g.rate > 1 || !g.negated) flipped.push_back({.lo = {}, .hi = {}, .rows = {}, .x = {g}, .y = {}});
      }
      for (auto g : c.y) {
        g.negated = !g.negated;
        if (g.rate > 1 || !g.negated) flipped.push_back({.lo = {}, .hi = {}, .rows = {}, .x = {}, .y = {g}});
      }
      out = intersect(out, flipped, set);
    }
    return out;
  }

  static Conjunction all_of(std::initializer_list<Conjunction> literals) {
    Conjunction out;
    Conjunction next;
    for (const auto& literal : literals) {
      // Literals of one primitive never contradict each other, except a window of negative reach.
      meet(out, literal, next);
      out = next;
    }
    return out;
  }

  // Conditions on the key and on the query, whichever of them is streamed.
  Conjunction key_below(Bound e) const { return transposed_ ? row_is(e, true) : below(e); }
  Conjunction key_from(Bound e) const { return transposed_ ? row_is(e, false) : at_least(e); }
  Conjunction query_below(Bound e) const { return transposed_ ? below(e) : row_is(e, true); }
  Conjunction query_from(Bound e) const { return transposed_ ? at_least(e) : row_is(e, false); }
  Conjunction key_is(Congruence c) const { return congruent(c, transposed_); }
  Conjunction query_is(Congruence c) const { return congruent(c, !transposed_); }
  static Conjunction congruent(Congruence c, bool on_x) {
    Conjunction out;
    (on_x ? out.x : out.y).push_back(std::move(c));
    return out;
  }

  /// q - a <= k <= q + c. Transposed: q in [k - c, k + a].
  Conjunction between(std::int64_t a, std::int64_t c) const {
    return transposed_ ? all_of({at_least(row(-c)), below(row(a + 1))})
                       : all_of({at_least(row(-a)), below(row(c + 1))});
  }

  Dnf primitive(const ir::Set& set) const {
    const auto arg = [&](std::size_t i) { return set.args[i]; };
    switch (set.kind) {
      case SetKind::causal:
        return {transposed_ ? at_least(row(0)) : below(row(1))};
      case SetKind::window:
        return arg(0) + arg(1) < 0 ? Dnf{} : Dnf{between(arg(0), arg(1))};
      case SetKind::segment:
        return {all_of({at_least(segment(arg(0), 0)), below(segment(arg(0), arg(0)))})};
      case SetKind::sink:
      case SetKind::prefix:
        return {key_below(number(arg(0)))};
      case SetKind::global:
        return {key_below(number(arg(0))), query_below(number(arg(0)))};
      case SetKind::strided:
        return {key_is({.segment = 0, .rate = arg(0), .phase = ir::constant(arg(1)), .negated = false})};
      case SetKind::lengths: {
        const Bound t{.kind = Bound::Kind::input, .a = set.input, .b = 0, .add = 0};
        return {all_of({key_below(t), query_below(t)})};
      }
      case SetKind::dilated: {
        const Congruence c{.segment = arg(0), .rate = arg(1), .phase = set.expr, .negated = false};
        const Conjunction inside = all_of({at_least(segment(arg(0), 0)), below(segment(arg(0), arg(0))), key_is(c)});
        return {set.all_queries ? inside : all_of({inside, query_is(c)})};
      }
      case SetKind::own_query:
      case SetKind::own_key:
        return owned(set);
      case SetKind::all:
      case SetKind::lag:
      case SetKind::neighborhood:
      case SetKind::blocks:
      case SetKind::random:
      case SetKind::axial:
      case SetKind::document:
      case SetKind::table:
      case SetKind::top:
      case SetKind::where:
      case SetKind::intersection:
      case SetKind::unite:
      case SetKind::difference:
      case SetKind::complement:
        return {};
    }
    return {};
  }

  /// Semantics section 9: which tokens a rank owns.
  Dnf owned(const ir::Set& set) const {
    const std::int64_t ranks = set.args[0];
    const std::int64_t rank = set.args[1];
    const bool key = set.kind == SetKind::own_key;
    const auto piece = [&](std::int64_t pieces, std::int64_t index) {
      const Bound from = part(pieces, index);
      const Bound to = part(pieces, index + 1);
      return key ? all_of({key_from(from), key_below(to)}) : all_of({query_from(from), query_below(to)});
    };
    switch (set.layout) {
      case ir::RingLayout::contiguous:
        return {piece(ranks, rank)};
      case ir::RingLayout::zigzag:
        return {piece(2 * ranks, rank), piece(2 * ranks, 2 * ranks - 1 - rank)};
      case ir::RingLayout::striped: {
        const Congruence c{.segment = 0, .rate = ranks, .phase = ir::constant(rank), .negated = false};
        return {key ? key_is(c) : query_is(c)};
      }
    }
    return {};
  }

  Draft& draft_;
  bool transposed_;
};

}  // namespace

void normalize(Draft& draft) {
  for (const auto& branch : draft.pattern.branches) {
    Normalizer normalizer(draft, draft.options.stationary == ir::Stationary::key);
    draft.branches.push_back(normalizer.of(*branch.set, false));
  }
}

void make_ranges(Draft& draft) {
  for (std::size_t i = 0; i < draft.branches.size(); ++i) {
    for (const auto& c : draft.branches[i]) {
      ir::KeyRange range{.branch = static_cast<int>(i),
                         .heads = draft.pattern.branches[i].heads,
                         .stream = {},
                         .filters = c.y,
                         .lo = c.lo,
                         .hi = c.hi,
                         .rows = c.rows,
                         .row_congruences = c.x};
      // The largest stride leaves the fewest keys to look at.
      auto best = range.filters.end();
      for (auto at = range.filters.begin(); at != range.filters.end(); ++at) {
        if (!at->negated && (best == range.filters.end() || at->rate > best->rate)) best = at;
      }
      if (best != range.filters.end()) {
        range.stream = *best;
        range.filters.erase(best);
      }
      draft.ranges.push_back(std::move(range));
    }
  }
}

}  // namespace weft::planner
