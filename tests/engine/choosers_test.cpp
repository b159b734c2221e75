#include "runtime/engine/emulate_executor.h"
#include "tests/engine/problem.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

/// Who chose a block of keys, which dK and dV look up on GPUs.
namespace weft::test {
namespace {

constexpr std::int64_t kDim = 16;

/// Of dK and dV of so many tokens, of which each block of 64 chooses one block of keys; few of them keep it.
double barriers_of_gradients(const std::string& target, std::int64_t tokens) {
  const Engine engine{{.no_cache = true}};
  const auto dtype = target == "emulate:sm_80" ? DType::f16 : DType::f32;
  const auto kernel = engine.compile("pattern p { keep blocks(64, random(1, seed: 5)) & where(q / 64 % 64 == 0); }",
                                     {.dim = kDim, .dtype = dtype, .gradient = true, .target = target});
  if (!kernel) throw std::runtime_error(kernel.error().message);
  std::vector<float> zeros(static_cast<std::size_t>(tokens * kDim)), dk(zeros.size()), dv(zeros.size());
  const auto view = dense_view(zeros.data(), dtype, {1, tokens, 1, kDim});
  RunArgs args{.q = view, .k = view, .v = view};
  args.out = dense_output(zeros.data(), dtype, {1, tokens, 1, kDim});
  args.lse = dense_output(zeros.data(), DType::f32, {1, 1, tokens});
  args.d_out = view;
  args.dk = dense_output(dk.data(), dtype, {1, tokens, 1, kDim});
  args.dv = dense_output(dv.data(), dtype, {1, tokens, 1, kDim});
  const auto reports = count_emulated(*kernel, args);
  if (!reports) throw std::runtime_error(reports.error().message);
  return std::accumulate(reports->begin(), reports->end(), 0.0,
                         [](double sum, const auto& report) { return sum + static_cast<double>(report.barriers); });
}

/// Five times the keys are five times the tiles, and each asks as much: without a look at who chose them all queries
/// are asked.
TEST(Choosers, AreLookedUpHoweverFarTheyAre) {
  for (const char* target : {"emulate:sm_61", "emulate:sm_80"}) {
    const double few = barriers_of_gradients(target, 12000), many = barriers_of_gradients(target, 60000);
    EXPECT_LT(many, 6 * few) << target << ": " << few << ", " << many;
  }
}

}  // namespace
}  // namespace weft::test
