#include "compiler/planner/conjunctions.h"

#include <algorithm>

namespace weft::planner {
namespace {

using ir::Bound;
using ir::Congruence;

bool same_base(const Bound& a, const Bound& b) { return a.kind == b.kind && a.a == b.a && a.b == b.b; }

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

ir::HeadCondition opposite(const ir::HeadCondition& c) { return {ir::apply(ir::Op::logical_not, {c.holds})}; }

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

template <typename T>
bool includes(const std::vector<T>& all, const std::vector<T>& some) {
  return std::all_of(some.begin(), some.end(),
                     [&](const T& item) { return std::find(all.begin(), all.end(), item) != all.end(); });
}

/// Every literal of `a` is in `b`, so `b` keeps nothing that `a` does not.
bool absorbs(const Conjunction& a, const Conjunction& b) {
  return includes(b.heads, a.heads) && includes(b.lo, a.lo) && includes(b.hi, a.hi) && includes(b.rows, a.rows) &&
         includes(b.x, a.x) && includes(b.y, a.y) && includes(b.pairs, a.pairs);
}

}  // namespace

Conjunction at_least(Bound e) { return {.heads = {}, .lo = {e}, .hi = {}, .rows = {}, .x = {}, .y = {}, .pairs = {}}; }
Conjunction below(Bound e) { return {.heads = {}, .lo = {}, .hi = {e}, .rows = {}, .x = {}, .y = {}, .pairs = {}}; }
Conjunction row_is(Bound e, bool is_below) {
  return {.heads = {}, .lo = {}, .hi = {}, .rows = {{e, is_below}}, .x = {}, .y = {}, .pairs = {}};
}

Conjunction congruent(ir::Congruence c, bool on_x) {
  Conjunction out;
  (on_x ? out.x : out.y).push_back(std::move(c));
  return out;
}
Conjunction on_heads(ir::ExprPtr holds) {
  Conjunction out;
  out.heads.push_back({std::move(holds)});
  return out;
}
Conjunction pair_is(ir::PredicateUse use) {
  return {.heads = {}, .lo = {}, .hi = {}, .rows = {}, .x = {}, .y = {}, .pairs = {use}};
}

Bound row(std::int64_t add) { return {.kind = Bound::Kind::row, .a = 0, .b = 0, .add = add}; }
Bound number(std::int64_t value) { return {.kind = Bound::Kind::constant, .a = 0, .b = 0, .add = value}; }
Bound segment(std::int64_t w, std::int64_t add) { return {.kind = Bound::Kind::segment, .a = w, .b = 0, .add = add}; }
Bound part(std::int64_t pieces, std::int64_t index) {
  return {.kind = Bound::Kind::part, .a = pieces, .b = index, .add = 0};
}

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
  for (const auto& c : b.heads) {
    const ir::HeadCondition flipped = opposite(c);
    if (std::find(out.heads.begin(), out.heads.end(), flipped) != out.heads.end()) return false;
    if (std::find(out.heads.begin(), out.heads.end(), c) == out.heads.end()) out.heads.push_back(c);
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
  for (const auto& use : b.pairs) {
    const auto at =
        std::find_if(out.pairs.begin(), out.pairs.end(), [&](const auto& o) { return o.number == use.number; });
    if (at == out.pairs.end()) {
      out.pairs.push_back(use);
    } else if (at->negated != use.negated) {
      return false;
    }
  }
  drop_implied(out);
  return true;
}

Conjunction all_of(const Conjunction& a, const Conjunction& b) {
  // Literals of one primitive never contradict each other, except a window of negative reach.
  Conjunction out;
  meet(a, b, out);
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

std::optional<Dnf> both(const Dnf& a, const Dnf& b, std::size_t most) {
  Dnf out;
  Conjunction met;
  for (const auto& x : a) {
    for (const auto& y : b) {
      if (meet(x, y, met)) out = unite(std::move(out), {met});
      if (out.size() > most) return std::nullopt;
    }
  }
  return out;
}

/// De Morgan: each literal of a conjunction flipped, joined by union; then intersected over the conjunctions.
std::optional<Dnf> opposite(const Dnf& pieces, std::size_t most) {
  std::optional<Dnf> out = Dnf{Conjunction{}};
  for (const auto& c : pieces) {
    Dnf flipped;
    for (const auto& e : c.heads) flipped.push_back(on_heads(opposite(e).holds));
    for (const auto& e : c.lo) flipped.push_back(below(e));
    for (const auto& e : c.hi) flipped.push_back(at_least(e));
    for (const auto& r : c.rows) flipped.push_back(row_is(r.bound, !r.below));
    for (bool on_x : {true, false}) {
      for (auto g : on_x ? c.x : c.y) {
        g.negated = !g.negated;
        if (g.rate > 1 || !g.negated) flipped.push_back(congruent(g, on_x));
      }
    }
    for (const auto& use : c.pairs) flipped.push_back(pair_is({use.number, !use.negated}));
    out = both(*out, flipped, most);
    if (!out) return out;
  }
  return out;
}

}  // namespace weft::planner
