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

/// Where the neighborhood of x begins and ends on an axis of n positions.
Ends ends_of(const Axis& a, const ExprPtr& x, const ExprPtr& n) {
  const ExprPtr group = modulo(x, a.dilation), u = over(x, a.dilation);
  const ExprPtr has_one_more = ir::apply(Op::less, {group, modulo(n, a.dilation)});
  const ExprPtr length =
      plus(over(n, a.dilation), ir::apply(Op::select, {has_one_more, ir::constant(1), ir::constant(0)}));
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

/// The outermost axis bounds the keys: `inner` positions for each of its own.
Conjunction outer_axis(const Axis& a, const Context& at, std::int64_t inner, const ExprPtr& n) {
  const Ends ends = ends_of(a, over(at.query(), inner), n);
  const std::int64_t tokens = inner * at.unit();
  // Rows of another residue may begin and end one step earlier.
  const std::int64_t slack = a.dilation > 1 ? a.dilation * tokens : 0;
  Conjunction out = all_of(
      {at.key_from(at.form(times(ends.from, tokens), slack)), at.key_below(at.form(times(ends.to, tokens), slack))});
  if (a.dilation == 1) return out;
  const ExprPtr of_query = modulo(over(at.query(), inner), a.dilation);
  const Conjunction same =
      inner == 1 ? at.key_modulo(a.dilation, of_query) : at.equal(of_query, modulo(over(at.key(), inner), a.dilation));
  return all_of({out, same});
}

Conjunction inner_axis(const Axis& a, const Context& at, std::int64_t inner, std::int64_t n) {
  const ExprPtr x = modulo(over(at.query(), inner), n), y = modulo(over(at.key(), inner), n);
  const Ends ends = ends_of(a, x, ir::constant(n));
  const Conjunction out = at.between(y, ends.from, ends.to);
  return a.dilation == 1 ? out : all_of({out, at.equal(modulo(x, a.dilation), modulo(y, a.dilation))});
}

/// Transposed, the ends are no bounds of what is streamed: every axis is asked.
Conjunction asked(const Axis& a, const Context& at, const ExprPtr& x, const ExprPtr& y, const ExprPtr& n) {
  const Ends ends = ends_of(a, x, n);
  return all_of({at.between(y, ends.from, ends.to), at.equal(modulo(x, a.dilation), modulo(y, a.dilation))});
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
    if (at.transposed()) {
      const auto coordinate = [&](const ExprPtr& p) {
        return i == 0 ? over(p, inner) : modulo(over(p, inner), grid[i]);
      };
      out = all_of({out, asked(axis, at, coordinate(at.query()), coordinate(at.key()), n)});
    } else {
      out = all_of({out, i == 0 ? outer_axis(axis, at, inner, n) : inner_axis(axis, at, inner, grid[i])});
    }
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
    Conjunction line = at.key_modulo(inner, modulo(at.query(), inner));
    if (i > 0) line = all_of({at.same_segment(inner * grid[i]), line});
    out = unite(std::move(out), {line});
    inner *= grid[i];
  }
  return out;
}

}  // namespace weft::planner
