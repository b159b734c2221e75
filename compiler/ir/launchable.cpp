#include "compiler/ir/launchable.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace weft::ir {
namespace {

constexpr std::int64_t kMostDrawn = 65536;  ///< batch entries and heads a counter has room for

Status fail(std::string message) { return user_error(std::move(message)); }

void for_each_set(const Set& set, const std::function<void(const Set&)>& visit) {
  visit(set);
  for (const auto& child : set.children) for_each_set(*child, visit);
}

bool indexes_by_q(const Expr& e) {
  if (e.op == Op::input) {
    return std::any_of(e.args.begin(), e.args.end(), [](const ExprPtr& arg) { return reads(*arg, Variable::q); });
  }
  return std::any_of(e.args.begin(), e.args.end(), [](const ExprPtr& arg) { return indexes_by_q(*arg); });
}

bool indexes_by_q(const Set& set) {
  return set.kind == SetKind::document || set.kind == SetKind::table || (set.expr && indexes_by_q(*set.expr));
}

Status check_neighborhood(const Set& set, const Pattern& pattern, const Shape& shape, std::int64_t n_k) {
  if (shape.n_q != shape.n_k) {
    return fail(fmt::format("neighborhood needs as many queries as keys; there are {} and {}", shape.n_q, shape.n_k));
  }
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    if (shape.offset_of(b) == 0) continue;
    return fail(
        fmt::format("neighborhood needs the whole sequence; the queries begin at position {}", shape.offset_of(b)));
  }
  const std::size_t axes = set.args.size() / 4;
  for (std::size_t i = 0; i < axes; ++i) {
    const std::int64_t n = axes == 1 ? n_k : pattern.grid[i];
    const std::int64_t reach = set.args[4 * i] * set.args[4 * i + 1];
    if (reach > n) return fail(fmt::format("neighborhood: size times dilation is {}, more than {} tokens", reach, n));
  }
  return done;
}

/// `n_k` counts blocks inside `blocks`.
Status check_neighborhoods(const Set& set, const Pattern& pattern, const Shape& shape, std::int64_t n_k) {
  if (set.kind == SetKind::neighborhood) return check_neighborhood(set, pattern, shape, n_k);
  if (set.kind == SetKind::blocks) n_k = (n_k + set.args[0] - 1) / set.args[0];
  for (const auto& child : set.children) WEFT_CHECK(check_neighborhoods(*child, pattern, shape, n_k));
  return done;
}

Status check_branch(const Branch& branch, const Pattern& pattern, const Shape& shape) {
  if (branch.heads.kind == HeadSet::Kind::range && branch.heads.hi > shape.heads) {
    return fail(
        fmt::format("a branch runs on heads {}..{}, there are {}", branch.heads.lo, branch.heads.hi, shape.heads));
  }
  return check_neighborhoods(*branch.set, pattern, shape, shape.n_k);
}

struct Uses {
  bool random_numbers = false;
  bool index_by_q = false;
};

Uses uses_of(const Pattern& pattern) {
  Uses uses{.random_numbers = pattern.dropout > 0};
  for (const auto& branch : pattern.branches) {
    for_each_set(*branch.set, [&](const Set& set) {
      uses.random_numbers = uses.random_numbers || set.kind == SetKind::random;
      uses.index_by_q = uses.index_by_q || indexes_by_q(set);
    });
  }
  for (const ExprPtr& e : of_pairs(pattern)) uses.index_by_q = uses.index_by_q || (e && indexes_by_q(*e));
  return uses;
}

}  // namespace

Status check_meaning(const Pattern& pattern, const Shape& shape) {
  for (const auto& branch : pattern.branches) WEFT_CHECK(check_branch(branch, pattern, shape));
  const Uses uses = uses_of(pattern);
  if (uses.random_numbers && (shape.batch > kMostDrawn || shape.heads > kMostDrawn)) {
    return fail(fmt::format("random numbers reach {} batch entries and heads", kMostDrawn));
  }
  for (std::int64_t b = 0; uses.index_by_q && b < shape.batch; ++b) {
    if (shape.offset_of(b) >= 0) continue;
    return fail(fmt::format("query positions begin at {} and the pattern uses them as an index; give an offset",
                            shape.offset_of(b)));
  }
  return done;
}

std::int64_t extent_of(const Axis& axis, const Input& input, const Shape& shape) {
  switch (axis.kind) {
    case Axis::Kind::batch:
      return shape.batch;
    case Axis::Kind::heads:
      return shape.heads;
    case Axis::Kind::queries:
      return shape.n_q;
    case Axis::Kind::keys:
    case Axis::Kind::tokens:
      return shape.n_k;
    case Axis::Kind::blocks:
      return (shape.n_k + input.block - 1) / std::max<std::int64_t>(input.block, 1);
    case Axis::Kind::extent:
      return axis.extent;
  }
  return 0;
}

}  // namespace weft::ir
