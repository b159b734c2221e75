#include "compiler/ir/launchable.h"
#include "compiler/ir/pattern_interpreter_problem.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace weft::ir {
namespace {

Status fail(std::string message) { return user_error(std::move(message)); }

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

Status check_inputs(const Pattern& pattern, const Shape& shape, const InputValues& inputs) {
  if (inputs.size() != pattern.inputs.size()) {
    return fail(fmt::format("{} inputs given, the pattern declares {}", inputs.size(), pattern.inputs.size()));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    std::vector<std::int64_t> expected;
    for (const auto& axis : pattern.inputs[i].axes) expected.push_back(extent_of(axis, pattern.inputs[i], shape));
    if (inputs[i].shape != expected) {
      return fail(fmt::format("input {} has shape [{}], expected [{}]", pattern.inputs[i].name,
                              fmt::join(inputs[i].shape, ", "), fmt::join(expected, ", ")));
    }
  }
  return done;
}

}  // namespace

Status check_shapes(const Pattern& pattern, const Shape& shape, const InputValues& inputs) {
  WEFT_CHECK(check_sizes(pattern, shape));
  WEFT_CHECK(check_inputs(pattern, shape, inputs));
  return check_meaning(pattern, shape);
}

Status check_tensor(const char* name, const Tensor& tensor, const std::vector<std::int64_t>& expected) {
  if (tensor.shape == expected) return done;
  return fail(
      fmt::format("{} has shape [{}], expected [{}]", name, fmt::join(tensor.shape, ", "), fmt::join(expected, ", ")));
}

Status check_operands(const Pattern& pattern, const Shape& shape, const Tensor& q, const Tensor& k, const Tensor& v,
                      const InputValues& inputs) {
  WEFT_CHECK(check_shapes(pattern, shape, inputs));
  WEFT_CHECK(check_tensor("q", q, {shape.batch, shape.n_q, shape.heads, shape.d}));
  WEFT_CHECK(check_tensor("k", k, {shape.batch, shape.n_k, shape.kv_heads, shape.d}));
  return check_tensor("v", v, {shape.batch, shape.n_k, shape.kv_heads, shape.d_v});
}

}  // namespace weft::ir
