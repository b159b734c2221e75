/// A kernel that is right runs without a word in every order; with a fault planted it is caught in every order.

#include "tests/emulate/kernel.h"
#include "tests/faults/fault.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

namespace weft::testing {
namespace {

using emulate::FaultKind;
using emulate::Order;

/// The argument of kernels/softmax.cu.
struct SoftmaxArgs {
  const float *q, *k, *v;
  float* o;
  int n;
};
constexpr int kTokens = 300;  // the last block is ragged
constexpr int kRows = 64;

struct Softmax {
  std::vector<float> q, k, v, o;

  Softmax() : q(kTokens), k(kTokens), v(kTokens), o(kTokens, std::numeric_limits<float>::quiet_NaN()) {
    for (int i = 0; i < kTokens; ++i) {
      const auto at = static_cast<std::size_t>(i);
      q[at] = 4 * std::sin(static_cast<float>(i));
      k[at] = static_cast<float>(i) / 50 + std::cos(3 * static_cast<float>(i));  // maxima rise: rescaling matters
      v[at] = std::sin(7 * static_cast<float>(i));
    }
  }

  emulate::Report run(const emulate::Program& program, Order order, int workers = 1) {
    const SoftmaxArgs args{q.data(), k.data(), v.data(), o.data(), kTokens};
    emulate::Launch launch;
    launch.blocks = (kTokens + kRows - 1) / kRows;
    launch.threads = 128;
    launch.shared_bytes = 4 * (16 + 16 + 2 * kRows);
    launch.args = &args;
    launch.args_bytes = sizeof args;
    launch.memory = {region(q, false, "q"), region(k, false, "k"), region(v, false, "v"), region(o, true, "o")};
    launch.order = order;
    launch.seed = 7;
    launch.workers = workers;
    auto report = program.launch(launch);
    EXPECT_TRUE(report.ok());
    return report.ok() ? *report : emulate::Report{};
  }

  /// The largest deviation of O from f64; infinite where a row was not written.
  double error() const {
    double worst = 0;
    for (std::size_t row = 0; row < kTokens; ++row) {
      double most = -std::numeric_limits<double>::infinity(), sum = 0, acc = 0;
      const auto score = [&](std::size_t key) { return static_cast<double>(q[row] * k[key]); };
      for (std::size_t key = 0; key <= row; ++key) most = std::max(most, score(key));
      for (std::size_t key = 0; key <= row; ++key) {
        const double p = std::exp2(score(key) - most);
        sum += p;
        acc += p * static_cast<double>(v[key]);
      }
      const double deviation = std::abs(acc / sum - static_cast<double>(o[row]));
      worst = std::isnan(deviation) ? std::numeric_limits<double>::infinity() : std::max(worst, deviation);
    }
    return worst;
  }
};
constexpr double kTolerance = 1e-5;

class InEveryOrder : public ::testing::TestWithParam<Order> {};
INSTANTIATE_TEST_SUITE_P(, InEveryOrder, ::testing::Values(Order::ascending, Order::descending, Order::random));

TEST_P(InEveryOrder, TheControlIsRight) {
  const auto program = built(kernel_text("softmax.cu"));
  ASSERT_NE(program, nullptr);
  for (const int workers : {1, 3}) {
    Softmax problem;
    const auto report = problem.run(*program, GetParam(), workers);
    EXPECT_EQ(faults(report), "");
    EXPECT_LT(problem.error(), kTolerance);
    EXPECT_EQ(report.blocks, 5);
    EXPECT_EQ(report.barriers, 2 * (4 + 8 + 12 + 16 + 19));
    EXPECT_EQ(report.warp_syncs, 4 * (4 + 8 + 12 + 16 + 19) + 2 * 4 * 5);
  }
}

struct Marked {
  const char* name;               ///< of a mark in kernels/softmax.cu
  std::optional<FaultKind> kind;  ///< none: only the numbers tell
  const char* says = "";          ///< part of the fault's text
};

const Marked kMarked[] = {
    {"no_barrier_after_staging", FaultKind::race, "shared memory races with a"},
    {"no_barrier_before_staging", FaultKind::race, "shared memory races with a"},
    {"no_syncwarp", FaultKind::race, "shared memory races with a"},
    {"mask_one_too_short", std::nullopt},
    {"mask_one_too_far", std::nullopt},
    {"no_rescale", std::nullopt},
    {"load_behind_the_end", FaultKind::out_of_bounds, "load of 4 bytes at address"},
    {"load_before_the_begin", FaultKind::out_of_bounds, "4 bytes before"},
    {"store_behind_the_end", FaultKind::out_of_bounds, "bytes behind the end of `o`"},
    {"store_into_an_input", FaultKind::read_only, "`q`"},
    {"output_by_the_read_only_path", FaultKind::stale, "`o`"},
    {"store_behind_shared_memory", FaultKind::out_of_bounds, "of shared memory which has 640 bytes"},
    {"plain_load_behind_the_end", FaultKind::out_of_bounds, "load of 4"},
    {"plain_store_behind_the_end", FaultKind::out_of_bounds, "behind the end of `o`"},
    {"plain_race", FaultKind::race, "the other in weft_kernel (line 93)"},
    {"misaligned", FaultKind::misaligned, "load of 8 bytes at offset 4 of shared memory"},
    {"two_barriers", FaultKind::divergent_barrier, "thread 1"},
    {"two_instances_of_a_barrier", FaultKind::divergent_barrier, "kFirst = "},
    {"half_a_warp_at_another_place", FaultKind::divergent_barrier, "waits in meet_warps"},
    {"barrier_without_some", FaultKind::race},
    {"barrier_after_return", FaultKind::divergent_barrier, "threads 96-127 left"},
    {"shuffle_with_exited_lane", FaultKind::exited_lane, "thread 37 left"},
    {"shuffle_from_a_lane_outside_the_mask", FaultKind::divergent_warp, "reads lane 20"},
    {"mask_without_the_caller", FaultKind::divergent_warp, "leaves itself out"},
    {"two_shuffles", FaultKind::divergent_warp, "a shuffle"},
    {"deadlock", FaultKind::deadlock, "thread 0 wait in __syncwarp"},
};

/// The kernel with its marks made code, for all faults.
std::shared_ptr<const emulate::Program> marked_kernel() {
  return built(text_of(test::in_checkout("tests/faults/planted.h")) + "#line 1\n" + text_of(WEFT_PLANTED_SOFTMAX));
}

TEST(MarksOfSoftmax, StandInTheTable) {
  std::set<std::string> marks = {
#include "marks.inc"
  };
  for (const Marked& fault : kMarked) EXPECT_EQ(marks.erase(fault.name), 1U) << fault.name;
  EXPECT_TRUE(marks.empty()) << *marks.begin();
}

TEST_P(InEveryOrder, FaultsAreCaught) {
  const auto program = marked_kernel();
  ASSERT_NE(program, nullptr);
  for (const Marked& marked : kMarked) {
    SCOPED_TRACE(marked.name);
    const test::Planted planted(marked.name);
    Softmax problem;
    const auto report = problem.run(*program, GetParam());
    if (!marked.kind) {
      EXPECT_EQ(faults(report), "");
      EXPECT_GT(problem.error(), 100 * kTolerance);
      continue;
    }
    EXPECT_FALSE(report.faults.empty());
    const bool caught = std::any_of(report.faults.begin(), report.faults.end(), [&](const emulate::Fault& fault) {
      return fault.kind == *marked.kind && fault.text.find(marked.says) != std::string::npos;
    });
    EXPECT_TRUE(caught) << faults(report);
    EXPECT_LE(report.faults.size(), emulate::kMostFaults);
  }
}

TEST_P(InEveryOrder, NothingIsFoundWhereNothingIsPlanted) {
  const auto program = marked_kernel();
  ASSERT_NE(program, nullptr);
  Softmax problem;
  EXPECT_EQ(faults(problem.run(*program, GetParam())), "");
  EXPECT_LT(problem.error(), kTolerance);
}

}  // namespace
}  // namespace weft::testing
