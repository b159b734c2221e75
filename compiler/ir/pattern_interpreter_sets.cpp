#include "compiler/ir/pattern_interpreter_problem.h"

#include <algorithm>
#include <array>
#include <cstdlib>

/// One function for each kind of set, straight from the table of semantics section 3.
namespace weft::ir {
namespace {

using Keeps = bool (*)(const Set&, const Scope&, const Pair&);

bool all(const Set&, const Scope&, const Pair&) { return true; }

bool causal(const Set&, const Scope&, const Pair& p) { return p.k <= p.q; }

bool window(const Set& set, const Scope&, const Pair& p) {
  return p.q - set.args[0] <= p.k && p.k <= p.q + set.args[1];
}

bool segment(const Set& set, const Scope&, const Pair& p) {
  return floor_div(p.q, set.args[0]) == floor_div(p.k, set.args[0]);
}

bool dilated(const Set& set, const Scope& scope, const Pair& p) {
  const std::int64_t w = set.args[0], r = set.args[1];
  if (floor_div(p.q, w) != floor_div(p.k, w)) return false;
  const std::int64_t phase = floor_mod(evaluate_head(*set.expr, p.h, scope.problem.shape.heads), r);
  if (floor_mod(p.k, w) % r != phase) return false;
  return set.all_queries || floor_mod(p.q, w) % r == phase;
}

bool strided(const Set& set, const Scope&, const Pair& p) {
  return floor_mod(p.k, set.args[0]) == floor_mod(set.args[1], set.args[0]);
}

bool lag(const Set& set, const Scope&, const Pair& p) { return (p.q - p.k) % set.args[0] == 0; }

bool first_keys(const Set& set, const Scope&, const Pair& p) { return p.k < set.args[0]; }

bool global(const Set& set, const Scope&, const Pair& p) { return p.k < set.args[0] || p.q < set.args[0]; }

struct Neighborhood {
  std::int64_t size, dilation, stride;
  bool causal;
};

/// Semantics section 6, one axis of `n` tokens.
bool is_neighbor(const Neighborhood& a, std::int64_t n, std::int64_t x, std::int64_t y) {
  const std::int64_t g = floor_mod(x, a.dilation), u = floor_div(x, a.dilation);
  if (floor_mod(y, a.dilation) != g) return false;
  const std::int64_t last = n / a.dilation + (g < n % a.dilation ? 1 : 0);
  const std::int64_t group = floor_div(u, a.stride) * a.stride;
  std::int64_t start = 0, end = 0;
  if (a.causal) {
    const std::int64_t lead = std::min(group + a.stride - 1, last - 1);
    start = std::max<std::int64_t>(lead - a.size + 1, 0);
    end = u + 1;
  } else {
    const std::int64_t lead = std::min(group + a.stride / 2, last - 1);
    start = std::min(std::max<std::int64_t>(lead - a.size / 2, 0), last - a.size);
    end = start + a.size;
  }
  const std::int64_t at = floor_div(y, a.dilation);
  return start <= at && at < end;
}

bool neighborhood(const Set& set, const Scope& scope, const Pair& p) {
  const std::size_t axes = set.args.size() / 4;
  std::int64_t q = p.q, k = p.k;
  for (std::size_t i = axes; i-- > 0;) {
    const std::int64_t* a = &set.args[4 * i];
    const std::int64_t n = axes == 1 ? scope.n_k : scope.problem.pattern.grid[i];
    // The first axis takes what is left, so that nothing wraps around.
    const std::int64_t x = i == 0 ? q : floor_mod(q, n), y = i == 0 ? k : floor_mod(k, n);
    if (!is_neighbor({a[0], a[1], a[2], a[3] != 0}, n, x, y)) return false;
    q = floor_div(q, n);
    k = floor_div(k, n);
  }
  return true;
}

bool axial(const Set&, const Scope& scope, const Pair& p) {
  const auto& grid = scope.problem.pattern.grid;
  std::int64_t q = p.q, k = p.k;
  int different = 0;
  for (std::size_t i = grid.size(); i-- > 1;) {
    different += floor_mod(q, grid[i]) != floor_mod(k, grid[i]);
    q = floor_div(q, grid[i]);
    k = floor_div(k, grid[i]);
  }
  return different + (q != k) <= 1;
}

bool blocks(const Set& set, const Scope& scope, const Pair& p) {
  const std::int64_t size = bounded_product(set.args[0], 1);
  const std::int64_t count = (scope.n_k + size - 1) / size;
  const Scope inside{scope.problem, count, count, bounded_product(scope.block, size)};
  return keeps(*set.children[0], inside, {p.b, p.h, floor_div(p.q, size), floor_div(p.k, size)});
}

bool drawn(const Set& set, const Scope& scope, const Pair& p) {
  const auto& keys = drawn_keys(set, scope, p);
  return std::binary_search(keys.begin(), keys.end(), p.k);
}

bool document(const Set& set, const Scope& scope, const Pair& p) {
  return element(scope, set.input, p, {p.q}) == element(scope, set.input, p, {p.k});
}

bool lengths(const Set& set, const Scope& scope, const Pair& p) {
  const auto length = static_cast<std::int64_t>(element(scope, set.input, p, {}));
  return p.k < length && p.q < length;
}

bool table(const Set& set, const Scope& scope, const Pair& p) { return element(scope, set.input, p, {p.q, p.k}) != 0; }

bool where(const Set& set, const Scope& scope, const Pair& p) { return evaluate_boolean(*set.expr, scope, p); }

bool intersection(const Set& set, const Scope& scope, const Pair& p) {
  // Inputs are read for pairs that all else keeps.
  const auto all_that = [&](bool read) {
    return std::all_of(set.children.begin(), set.children.end(),
                       [&](const SetPtr& s) { return s->reads_inputs != read || keeps(*s, scope, p); });
  };
  return all_that(false) && (!set.reads_inputs || all_that(true));
}

bool unite(const Set& set, const Scope& scope, const Pair& p) {
  return std::any_of(set.children.begin(), set.children.end(), [&](const SetPtr& s) { return keeps(*s, scope, p); });
}

bool difference(const Set& set, const Scope& scope, const Pair& p) {
  return keeps(*set.children[0], scope, p) && !keeps(*set.children[1], scope, p);
}

bool complement(const Set& set, const Scope& scope, const Pair& p) { return !keeps(*set.children[0], scope, p); }

/// Semantics section 9: does the set's rank own position `x` of the `n_k` there are?
bool owns(const Set& set, const Scope& scope, std::int64_t x) {
  const std::int64_t ranks = set.args[0], rank = set.args[1], n = scope.n_k;
  if (set.layout == RingLayout::striped) return floor_mod(x, ranks) == rank;
  const bool zigzag = set.layout == RingLayout::zigzag;
  const std::int64_t pieces = zigzag ? 2 * ranks : ranks;
  const auto in_piece = [&](std::int64_t g) { return g * n / pieces <= x && x < (g + 1) * n / pieces; };
  return in_piece(rank) || (zigzag && in_piece(pieces - 1 - rank));
}

bool own_query(const Set& set, const Scope& scope, const Pair& p) { return owns(set, scope, p.q); }
bool own_key(const Set& set, const Scope& scope, const Pair& p) { return owns(set, scope, p.k); }

// Kinds that share a row's function, under their own name in the table.
constexpr Keeps sink = first_keys, prefix = first_keys, random = drawn, top = drawn;

constexpr Keeps kKeeps[] = {
#define WEFT_ANY_SET(kind, ...) kind,
#include "dsl/sets.def"
};

}  // namespace

bool keeps(const Set& set, const Scope& scope, const Pair& pair) {
  return kKeeps[static_cast<std::size_t>(set.kind)](set, scope, pair);
}

}  // namespace weft::ir
