#include "compiler/planner/primitives.h"

#include <numeric>

/// Sets over the coordinates of a row-major grid: neighborhoods (semantics section 6) and axes.
namespace weft::planner {
namespace {

using ir::ExprPtr;
using ir::Op;

struct Axis {
  std::int64_t size, dilation, stride;
  bool causal;
};

struct Ends {
  ExprPtr from, to;  ///< in positions of the axis; those of another residue of the dilation among them
};

/// A position's number among those of its residue of the dilation, and how many these are on an axis of n positions.
struct Place {
  ExprPtr number, length;
};
Place place_of(const Axis& a, const ExprPtr& x, const ExprPtr& n) {
  const ExprPtr has_one_more = ir::apply(Op::less, {modulo(x, a.dilation), modulo(n, a.dilation)});
  return {over(x, a.dilation),
          plus(over(n, a.dilation), ir::apply(Op::select, {has_one_more, ir::constant(1), ir::constant(0)}))};
}

/// Where the neighborhood of the query x begins and ends on an axis of n positions.
Ends keys_of(const Axis& a, const ExprPtr& x, const ExprPtr& n) {
  const auto [u, length] = place_of(a, x, n);
  const ExprPtr step = times(over(u, a.stride), a.stride);
  const ExprPtr last = minus(length, ir::constant(1));
  const ExprPtr zero = ir::constant(0);
  if (a.causal) {
    const ExprPtr lead = least(plus(step, ir::constant(a.stride - 1)), last);
    const ExprPtr start = largest(minus(lead, ir::constant(a.size - 1)), zero);
    return {times(start, a.dilation), times(plus(u, ir::constant(1)), a.dilation)};
  }
  const ExprPtr lead = least(plus(step, ir::constant(a.stride / 2)), last);
  const ExprPtr start =
      least(largest(minus(lead, ir::constant(a.size / 2)), zero), minus(length, ir::constant(a.size)));
  return {times(start, a.dilation), times(plus(start, ir::constant(a.size)), a.dilation)};
}

/// Which queries have the key y in their neighborhood: begins and ends never fall, so they are neighbours themselves.
///   start(u) <= v: where the last neighborhood begins before v all, else those whose step's lead is near enough.
///   start(u) + size > v: where the first neighborhood reaches v all, else those from the first step that does.
Ends queries_of(const Axis& a, const ExprPtr& y, const ExprPtr& n) {
  const auto [v, length] = place_of(a, y, n);
  const auto steps_below = [&](std::int64_t reach) {
    return times(over(plus(v, ir::constant(reach)), a.stride), a.stride);
  };
  // Steps of a group lead at its middle, or at its end where what follows is not seen.
  const std::int64_t middle = a.causal ? a.stride - 1 : a.stride / 2, before = a.causal ? a.size - 1 : a.size / 2;
  const ExprPtr in_last = ir::apply(Op::less_equal, {minus(length, ir::constant(a.size)), v});
  const ExprPtr to = ir::apply(
      Op::select, {in_last, length, least(plus(steps_below(before - middle), ir::constant(a.stride)), length)});
  if (a.causal) return {times(v, a.dilation), times(to, a.dilation)};
  const ExprPtr in_first = ir::apply(Op::less, {v, ir::constant(a.size)});
  const ExprPtr first_step = steps_below(1 - a.size + before - middle + a.stride - 1);
  return {times(ir::apply(Op::select, {in_first, ir::constant(0), first_step}), a.dilation), times(to, a.dilation)};
}

Ends ends_of(const Axis& a, const Context& at, const ExprPtr& x, const ExprPtr& n) {
  return at.transposed() ? queries_of(a, x, n) : keys_of(a, x, n);
}

/// The outermost axis bounds what is streamed: `inner` positions for each of its own.
Conjunction outer_axis(const Axis& a, const Context& at, std::int64_t inner, const ExprPtr& n) {
  const Ends ends = ends_of(a, at, over(at.stationary(), inner), n);
  const std::int64_t tokens = inner * at.unit();
  // Rows of another residue may begin and end one step earlier.
  const std::int64_t slack = a.dilation > 1 ? a.dilation * tokens : 0;
  Conjunction out =
      all_of(at_least(at.form(times(ends.from, tokens), slack)), below(at.form(times(ends.to, tokens), slack)));
  if (a.dilation == 1) return out;
  const auto residue = [&](const ExprPtr& position) { return modulo(over(position, inner), a.dilation); };
  const Conjunction same = inner == 1 ? at.key_modulo(a.dilation) : at.equal(residue(at.query()), residue(at.key()));
  return all_of(out, same);
}

Conjunction inner_axis(const Axis& a, const Context& at, std::int64_t inner, std::int64_t n) {
  const ExprPtr x = modulo(over(at.stationary(), inner), n), y = modulo(over(at.streamed(), inner), n);
  const Ends ends = ends_of(a, at, x, ir::constant(n));
  const Conjunction out = at.between(y, ends.from, ends.to);
  if (a.dilation == 1) return out;
  const auto residue = [&](const ExprPtr& position) { return modulo(modulo(over(position, inner), n), a.dilation); };
  return all_of(out, at.equal(residue(at.query()), residue(at.key())));
}

}  // namespace

Dnf neighborhood(const ir::Set& set, const Context& at) {
  const std::size_t axes = set.args.size() / 4;
  const auto& grid = at.pattern().grid;
  Conjunction out;
  std::int64_t inner = 1;
  for (std::size_t i = axes; i-- > 0;) {
    const std::int64_t* v = &set.args[4 * i];
    const Axis axis{v[0], v[1], v[2], v[3] != 0};
    const ExprPtr n = axes == 1 ? at.count() : ir::constant(grid[i]);
    out = all_of(out, i == 0 ? outer_axis(axis, at, inner, n) : inner_axis(axis, at, inner, grid[i]));
    if (i > 0) inner *= grid[i];
  }
  return {out};
}

/// A union over the axes: all other coordinates agree.
Dnf axial(const ir::Set&, const Context& at) {
  const auto& grid = at.pattern().grid;
  Dnf out;
  std::int64_t inner = 1;
  for (std::size_t i = grid.size(); i-- > 0;) {
    Conjunction line = at.key_modulo(inner);
    if (i > 0) line = all_of(at.same_segment(inner * grid[i]), line);
    out = unite(std::move(out), {line});
    inner *= grid[i];
  }
  return out;
}

}  // namespace weft::planner
