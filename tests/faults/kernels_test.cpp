#include "compiler/ir/lower.h"
#include "compiler/ir/pattern_interpreter.h"
#include "dsl/parse.h"
#include "tests/codegen/any_kernel.h"
#include "tests/faults/texts.h"
#include "tests/support/effort.h"

#include <gtest/gtest.h>

/// Every text is right as it is, and each of its faults is found.
namespace weft::test {
namespace {

using emulate::Order;

const bool kListed = listed(cuda_texts()) && listed(cpu_texts());

struct Problem {
  ir::Pattern pattern;
  ir::Shape shape;
  ir::DType dtype;
  ir::Tensor q, k, v;
  ir::InputValues inputs = {};
};

ir::Pattern pattern_of(const Text& text) {
  const Source source{"input.weft",
                      std::string("pattern p { heads ") + std::to_string(text.size.heads) + "; " + text.pattern + " }"};
  const auto file = dsl::parse(source);
  EXPECT_TRUE(file.ok()) << source.text;
  auto pattern = ir::lower(*file, "p", {});
  EXPECT_TRUE(pattern.ok()) << pattern.error().message;
  return std::move(*pattern);
}

Problem problem_of(const Text& text) {
  const auto dtype = testing::best_dtype(text.target);
  const Size& size = text.size;
  const auto tensor = [&](std::int64_t n, std::int64_t heads, std::int64_t d, unsigned seed) {
    return testing::normal({1, n, heads, d}, seed);
  };
  Problem out{.pattern = pattern_of(text),
              .shape = {.batch = 1,
                        .n_q = size.queries,
                        .n_k = size.keys,
                        .heads = size.heads,
                        .kv_heads = size.kv_heads,
                        .d = size.d,
                        .d_v = size.d_v},
              .dtype = dtype,
              .q = tensor(size.queries, size.heads, size.d, 1),
              .k = tensor(size.keys, size.kv_heads, size.d, 2),
              .v = testing::rounded(tensor(size.keys, size.kv_heads, size.d_v, 3), dtype)};
  for (auto& x : out.q.data) x *= text.sharpness;
  const std::size_t keys = out.k.data.size();
  for (std::size_t i = 0; text.rising && i < keys; ++i) out.k.data[i] *= static_cast<double>(1 + 16 * i / keys);
  out.q = testing::rounded(std::move(out.q), dtype);
  out.k = testing::rounded(std::move(out.k), dtype);
  if (out.pattern.inputs.empty()) return out;
  ir::Tensor t({1, size.queries});
  for (std::size_t i = 0; i < t.data.size(); ++i) t.data[i] = static_cast<double>(i / 3 * 7 % 20 + i / 64 * 40);
  out.inputs.push_back(std::move(t));
  return out;
}

/// Emitted anew each time, because a fault may be the emitter's; equal texts are compiled once.
Result<ir::Outcome> run(const Text& text, const Problem& p, Order order = Order::ascending) {
  const Target target = find_target(text.target).value();
  const ir::Bind bind{.d = p.shape.d, .d_v = p.shape.d_v, .dtype = p.dtype};
  if (target.kind == TargetKind::cpu) {
    WEFT_TRY(const auto kernel, testing::CpuKernel::make(p.pattern, bind, target));
    return kernel.run(p.shape, p.q, p.k, p.v, p.inputs);
  }
  WEFT_TRY(const auto kernel, testing::EmulatedKernel::make(p.pattern, bind, target));
  testing::EmulatedOptions options;
  options.order = order;
  return kernel.run(p.shape, p.q, p.k, p.v, p.inputs, options);
}

class Faults : public ::testing::TestWithParam<Text> {};

TEST_P(Faults, AreFound) {
  const Text& text = GetParam();
  const Problem p = problem_of(text);
  const auto want = ir::interpret(p.pattern, p.shape, p.q, p.k, p.v, p.inputs);
  ASSERT_TRUE(want.ok()) << want.error().message;
  const double bound =
      ir::error_bounds(p.pattern, p.dtype, text.size.keys, 5, want->max_abs_score, want->largest_sum).o;
  const std::initializer_list<Order> one = {Order::ascending},
                                     all = {Order::ascending, Order::descending, Order::random};
  for (const Order order : text.target == std::string("cpu") ? one : all) {
    const Planted planted(nullptr, text.beside);
    expect_found(run(text, p, order), *want, bound, kByNothing);
  }
  for (const Fault& fault : text.faults) {
    SCOPED_TRACE(fault.name);
    for (const Order order : tries_all() ? all : one) {
      const Planted planted(fault.name, text.beside);
      expect_found(run(text, p, order), *want, bound, fault.found);
    }
  }
}

const auto kName = [](const auto& of) { return std::string(of.param.name); };
INSTANTIATE_TEST_SUITE_P(Cuda, Faults, ::testing::ValuesIn(cuda_texts()), kName);
INSTANTIATE_TEST_SUITE_P(Cpu, Faults, ::testing::ValuesIn(cpu_texts()), kName);

}  // namespace
}  // namespace weft::test
