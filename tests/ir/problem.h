#pragma once

#include "compiler/ir/pattern_interpreter.h"
#include "tests/support/random_numbers.h"

#include <gtest/gtest.h>

namespace weft::ir {

inline Tensor normal_tensor(std::vector<std::int64_t> shape, std::uint64_t seed) {
  Tensor t(std::move(shape));
  test::RandomNumbers random(seed);
  for (auto& value : t.data) value = random.normal();
  return t;
}

/// One pattern with tensors that fit its shape.
struct TestProblem {
  Pattern pattern;
  Shape shape;
  InputValues inputs = {};
  Tensor q = {}, k = {}, v = {};

  TestProblem(Pattern p, Shape s) : pattern(std::move(p)), shape(std::move(s)) {
    if (pattern.branches.empty()) pattern.branches.push_back({make_set(SetKind::all), {}, {}});
    q = normal_tensor({shape.batch, shape.n_q, shape.heads, shape.d}, 1);
    k = normal_tensor({shape.batch, shape.n_k, shape.kv_heads, shape.d}, 2);
    v = normal_tensor({shape.batch, shape.n_k, shape.kv_heads, shape.d_v}, 3);
  }

  Outcome run() const {
    auto out = interpret(pattern, shape, q, k, v, inputs);
    EXPECT_TRUE(out.ok()) << (out.ok() ? "" : out.error().message);
    return out.ok() ? std::move(out).value() : Outcome{};
  }
};

inline Shape square(std::int64_t n, std::int64_t heads = 1, std::int64_t d = 4) {
  return {.batch = 1, .n_q = n, .n_k = n, .heads = heads, .kv_heads = heads, .d = d, .d_v = d};
}

inline Pattern pattern_of(std::vector<SetPtr> branches, Combine combine = Combine::joint) {
  Pattern p;
  p.name = "p";
  for (auto& set : branches) p.branches.push_back({std::move(set), {}, {}});
  p.combine = combine;
  return p;
}

/// The kept pairs of batch entry 0 as text: a row a query, `#` kept.
inline std::string picture(const Pattern& pattern, const Shape& shape, const InputValues& inputs = {},
                           std::int64_t h = 0) {
  const PairEvaluator evaluator(pattern, shape, inputs);
  std::string out;
  for (std::int64_t row = 0; row < shape.n_q; ++row) {
    for (std::int64_t k = 0; k < shape.n_k; ++k) {
      out += evaluator.multiplicity(0, h, row + shape.offset_of(0), k) > 0 ? '#' : '.';
    }
    out += '\n';
  }
  return out;
}

}  // namespace weft::ir
