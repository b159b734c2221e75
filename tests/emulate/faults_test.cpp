/// A kernel that is right runs without a word in every order; with a fault planted it is caught in every order.

#include "tests/emulate/kernel.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

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

struct Planted {
  const char* name;
  const char* from;
  const char* to;
  std::optional<FaultKind> kind;  ///< none: only the numbers tell
  const char* says = "";          ///< part of the fault's text
};

void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.name; }

const char* const kStaged = "__syncthreads();  // staged";
const char* const kLastSum = "  sum += __shfl_xor_sync";

const Planted kPlanted[] = {
    {"NoBarrierAfterStaging", kStaged, "", FaultKind::race, "shared memory races with a"},
    {"NoBarrierBeforeStaging", "__syncthreads();  // read", "", FaultKind::race, "shared memory races with a"},
    {"NoSyncwarp", "__syncwarp();", "", FaultKind::race, "shared memory races with a"},
    {"MaskOffByOne", "key <= row", "key < row", std::nullopt},
    {"MaskOffByOneAbove", "key <= row", "key <= row + 1", std::nullopt},
    {"NoRescale", "acc *= rescale;", "", std::nullopt},
    {"LoadBehindTheEnd", "min(begin + thread, a.n - 1)", "begin + thread", FaultKind::out_of_bounds,
     "load of 4 bytes at address"},
    {"LoadBeforeTheBegin", "min(begin + thread, a.n - 1)", "begin + thread - 1", FaultKind::out_of_bounds,
     "4 bytes before"},
    {"StoreBehindTheEnd", "row < a.n && half == 0", "half == 0", FaultKind::out_of_bounds,
     "bytes behind the end of `o`"},
    {"StoreIntoAnInput", "store_global(a.o", "store_global((float*)a.q", FaultKind::read_only, "`q`"},
    {"LoadOfAnOutputByTheReadOnlyPath", "load_global<float>(a.q + row)", "load_global<float>(a.o + row)",
     FaultKind::stale, "`o`"},
    {"StoreBehindSharedMemory", "store_shared(&s.partial[thread / 2]", "store_shared(&s.partial[thread]",
     FaultKind::out_of_bounds, "of shared memory which has 640 bytes"},
    {"PlainLoadBehindTheEnd", "load_global<float>(a.k + key)", "a.k[key + a.n]", FaultKind::out_of_bounds, "load of 4"},
    {"PlainStoreBehindTheEnd", "if (row < a.n && half == 0) store_global(a.o + row, both / sum)",
     "a.o[row] = both / sum", FaultKind::out_of_bounds, "behind the end of `o`"},
    {"PlainRace", "store_shared(&s.partial[thread / 2][half], acc);\n  __syncwarp();",
     "s.partial[thread / 2][half] = acc;", FaultKind::race, "the other in weft_kernel (line 56)"},
    {"Misaligned", "load_shared<float>(&s.keys[2 * i + half])", "load_shared<float2>(&s.keys[2 * i + half]).x",
     FaultKind::misaligned, "load of 8 bytes at offset 4 of shared memory"},
    {"TwoBarriers", kStaged, "if (half == 0)\n__syncthreads();\nelse\n__syncthreads();", FaultKind::divergent_barrier,
     "thread 1"},
    {"BarrierWithoutSome", kStaged, "if (thread < 96) __syncthreads();", FaultKind::race},
    {"BarrierAfterReturn", "float highest", "if (thread >= 96) return;\nfloat highest", FaultKind::divergent_barrier,
     "threads 96-127 left"},
    {"ShuffleWithExitedLane", kLastSum, "if (thread == 37) return;\n  sum += __shfl_xor_sync", FaultKind::exited_lane,
     "thread 37 left"},
    {"ShuffleFromLaneOutsideOfMask", kLastSum,
     "if (thread % 32 < 16) sum += __shfl_sync(0xFFFFu, sum, 20);\n  sum += __shfl_xor_sync", FaultKind::divergent_warp,
     "reads lane 20"},
    {"MaskWithoutTheCaller", kLastSum, "sum += __shfl_sync(0xFFFFu, sum, 0);\n  sum += __shfl_xor_sync",
     FaultKind::divergent_warp, "leaves itself out"},
    {"TwoShuffles", kLastSum,
     "if (half == 0)\nsum += __shfl_sync(~0u, sum, 0);\nelse\nsum += __shfl_sync(~0u, sum, 1);\n  sum += "
     "__shfl_xor_sync",
     FaultKind::divergent_warp, "a shuffle"},
    {"Deadlock", kLastSum, "if (half == 0)\n__syncwarp();\nelse\n__syncthreads();\n  sum += __shfl_xor_sync",
     FaultKind::deadlock, "thread 0 wait in __syncwarp"},
};

class PlantedFault : public ::testing::TestWithParam<Planted> {};
INSTANTIATE_TEST_SUITE_P(, PlantedFault, ::testing::ValuesIn(kPlanted),
                         [](const auto& planted) { return std::string(planted.param.name); });

TEST_P(PlantedFault, IsCaughtInEveryOrder) {
  const Planted& planted = GetParam();
  const auto program = built(with(kernel_text("softmax.cu"), planted.from, planted.to));
  ASSERT_NE(program, nullptr);
  for (const Order order : {Order::ascending, Order::descending, Order::random}) {
    Softmax problem;
    const auto report = problem.run(*program, order);
    if (!planted.kind) {
      EXPECT_EQ(faults(report), "");
      EXPECT_GT(problem.error(), 100 * kTolerance);
      continue;
    }
    ASSERT_FALSE(report.faults.empty()) << static_cast<int>(order);
    const bool caught = std::any_of(report.faults.begin(), report.faults.end(), [&](const emulate::Fault& fault) {
      return fault.kind == *planted.kind && fault.text.find(planted.says) != std::string::npos;
    });
    EXPECT_TRUE(caught) << static_cast<int>(order) << "\n" << faults(report);
    EXPECT_LE(report.faults.size(), emulate::kMostFaults);
  }
}

}  // namespace
}  // namespace weft::testing
