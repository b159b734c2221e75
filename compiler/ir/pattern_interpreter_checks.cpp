#include "compiler/ir/pattern_interpreter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <utility>

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

Status check_bound(const char* what, const std::optional<std::int64_t>& bound, std::int64_t found) {
  if (!bound || *bound == found) return done;
  return fail(fmt::format("the pattern says {} {}, the tensors have {}", what, *bound, found));
}

Status check_sizes(const Pattern& pattern, const Shape& shape) {
  WEFT_CHECK(check_bound("heads", pattern.heads, shape.heads));
  WEFT_CHECK(check_bound("kv heads", pattern.kv_heads, shape.kv_heads));
  WEFT_CHECK(check_bound("dim", pattern.dim, shape.d));
  WEFT_CHECK(check_bound("dim value", pattern.dim_v, shape.d_v));
  if (shape.batch < 0 || shape.n_q < 0 || shape.n_k < 0 || shape.heads < 1 || shape.d < 1 || shape.d_v < 1) {
    return fail("sizes must be positive");
  }
  if (shape.kv_heads < 1 || shape.heads % shape.kv_heads != 0) {
    return fail(fmt::format("{} query heads are not a multiple of {} key/value heads", shape.heads, shape.kv_heads));
  }
  const auto offsets = static_cast<std::int64_t>(shape.offset.size());
  if (offsets > 1 && offsets != shape.batch) {
    return fail(fmt::format("{} offsets for {} batch entries", offsets, shape.batch));
  }
  const std::int64_t count = pattern.tokens.count;
  if (pattern.tokens.kind == Tokens::Kind::exact && shape.n_k != count) {
    return fail(fmt::format("the pattern says tokens {}, the keys have {}", count, shape.n_k));
  }
  if (pattern.tokens.kind == Tokens::Kind::multiple_of && shape.n_k % count != 0) {
    return fail(fmt::format("the pattern says tokens multiple_of {}, the keys have {}", count, shape.n_k));
  }
  const std::int64_t cells = Tensor::count(pattern.grid);
  if (!pattern.grid.empty() && cells != shape.n_k) {
    return fail(
        fmt::format("grid {} has {} tokens, the keys have {}", fmt::join(pattern.grid, ", "), cells, shape.n_k));
  }
  return done;
}

std::int64_t extent(const Axis& axis, const Input& input, const Shape& shape) {
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

Status check_inputs(const Pattern& pattern, const Shape& shape, const InputValues& inputs) {
  if (inputs.size() != pattern.inputs.size()) {
    return fail(fmt::format("{} inputs given, the pattern declares {}", inputs.size(), pattern.inputs.size()));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    std::vector<std::int64_t> expected;
    for (const auto& axis : pattern.inputs[i].axes) expected.push_back(extent(axis, pattern.inputs[i], shape));
    if (inputs[i].shape != expected) {
      return fail(fmt::format("input {} has shape [{}], expected [{}]", pattern.inputs[i].name,
                              fmt::join(inputs[i].shape, ", "), fmt::join(expected, ", ")));
    }
  }
  return done;
}

Status check_neighborhood(const Set& set, const Pattern& pattern, const Shape& shape, std::int64_t n_k) {
  if (shape.n_q != shape.n_k) return fail("neighborhood needs as many queries as keys");
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
  for (const ExprPtr& e : {pattern.score, pattern.scale}) uses.index_by_q = uses.index_by_q || (e && indexes_by_q(*e));
  return uses;
}

}  // namespace

Status check_shapes(const Pattern& pattern, const Shape& shape, const InputValues& inputs) {
  WEFT_CHECK(check_sizes(pattern, shape));
  WEFT_CHECK(check_inputs(pattern, shape, inputs));
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

}  // namespace weft::ir
