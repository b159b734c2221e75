#include "compiler/planner/planner.h"
#include "compiler/ring/choose.h"
#include "tests/support/program.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>

/// Rings of a million tokens and more: what ranks receive, as a script that counted keys one by one found it, the
/// promised balance and efficiency, and how long planning takes.
namespace weft::ring {
namespace {

constexpr std::int64_t kM = 1 << 20;

struct Workload {
  const char* text;
  ir::Bind bind;
  std::int64_t heads, kv_heads;
};

const Workload kLongnet3 = {"pattern p { branches dilated(segments: [2k, 4k, 8k], rates: [1, 2, 4]); keep causal; }",
                            {.d = 64, .d_v = 64, .dtype = ir::DType::f16},
                            8,
                            8};
const Workload kLongnet5 = {
    "pattern p { branches dilated(segments: [2k, 4k, 8k, 16k, 32k], rates: [1, 2, 4, 6, 12]); "
    "keep causal; }",
    {.d = 64, .d_v = 64, .dtype = ir::DType::bf16},
    12,
    12};
const Workload kWindow = {
    "pattern p { branch window(4095, 0); }", {.d = 128, .d_v = 128, .dtype = ir::DType::bf16}, 32, 8};
const Workload kDense = {"pattern p { keep causal; }", {.d = 128, .d_v = 128, .dtype = ir::DType::bf16}, 32, 8};

/// A workload at one length, with all that a relation refers to.
class Sized {
 public:
  Sized(const Workload& workload, std::int64_t tokens, const char* target = "sm_90")
      : target_(find_target(target).value()),
        plan_(planner::plan(test::lowered({.text = workload.text, .pattern = "p"}).value(), workload.bind, target_)
                  .value()),
        tables_(ir::make_tables(plan_, workload.heads).value()),
        shape_{.batch = 1,
               .n_q = tokens,
               .n_k = tokens,
               .heads = workload.heads,
               .kv_heads = workload.kv_heads,
               .d = workload.bind.d,
               .d_v = workload.bind.d_v},
        relation_(Relation::make(plan_, tables_, shape_, inputs_).value()) {}

  Report report(const Split& split) const { return report_of(relation_, split, machine_of(plan_, target_)); }
  Report report(const OwnerMap& map) const { return report(Split::of_owners(map, shape_.kv_heads)); }
  Choice choice(std::int64_t ranks, Carrier carrier = Carrier::keys) const {
    return choose(relation_, ir::RingLayout::automatic, ranks, machine_of(plan_, target_), carrier).value();
  }

 private:
  Target target_;
  ir::Plan plan_;
  ir::Tables tables_;
  ir::Shape shape_;
  std::vector<ir::Tensor> inputs_;
  Relation relation_;
};

std::string bytes(double value) {
  for (auto [unit, name] : {std::pair{1e9, "GB"}, std::pair{1e6, "MB"}, std::pair{1e3, "KB"}}) {
    if (value >= unit) return fmt::format("{:.3g} {}", value / unit, name);
  }
  return fmt::format("{:.0f} B", value);
}

/// Imbalance; mean and largest bytes that a rank receives.
std::string row(const Report& report) {
  return fmt::format("{:.3f}; {} / {}", report.imbalance, bytes(report.mean_needed()), bytes(report.most_needed()));
}

struct Expected {
  std::int64_t ranks;
  const char *contiguous, *zigzag, *striped;
};

void compare(const Workload& workload, const std::vector<Expected>& table) {
  const Sized sized(workload, kM);
  for (const auto& expected : table) {
    const auto of = [&](ir::RingLayout layout) { return row(sized.report(owners(layout, kM, expected.ranks))); };
    EXPECT_EQ(of(ir::RingLayout::contiguous), expected.contiguous) << expected.ranks;
    EXPECT_EQ(of(ir::RingLayout::zigzag), expected.zigzag) << expected.ranks;
    if (expected.striped == nullptr) continue;  // not in the table, or slow
    EXPECT_EQ(of(ir::RingLayout::striped), expected.striped) << expected.ranks;
  }
}

TEST(Tables, Longnet3) {
  compare(kLongnet3, {{8, "1.000; 0 B / 0 B", "1.000; 0 B / 0 B", "1.002; 1.88 GB / 1.88 GB"},
                      {64, "1.000; 0 B / 0 B", "1.000; 0 B / 0 B", "1.023; 2.09 GB / 2.11 GB"},
                      {512, "1.250; 2.1 MB / 4.19 MB", "1.000; 6.29 MB / 6.29 MB", nullptr}});
  const Sized sized(kLongnet3, kM);
  EXPECT_EQ(row(sized.report(snake(kM, 512, 4, 2))), "1.000; 4.98 MB / 5.77 MB");
}

TEST(Tables, Longnet5) {
  compare(kLongnet5, {{8, "1.000; 0 B / 0 B", "1.000; 0 B / 0 B", nullptr},
                      {64, "1.027; 2.1 MB / 4.19 MB", "1.000; 9.44 MB / 10.5 MB", nullptr},
                      {512, "1.353; 8.39 MB / 17.8 MB", "1.000; 19.9 MB / 21 MB", nullptr}});
}

TEST(Tables, Window) {
  compare(kWindow, {{8, "1.002; 14.7 MB / 16.8 MB", "1.002; 29.4 MB / 33.5 MB", "1.000; 3.76 GB / 3.76 GB"},
                    {64, "1.002; 16.5 MB / 16.8 MB", "1.002; 33 MB / 33.5 MB", "1.000; 4.23 GB / 4.23 GB"},
                    {512, "1.002; 16.7 MB / 16.8 MB", "1.002; 33.4 MB / 33.5 MB", nullptr}});
}

TEST(Tables, Dense) {
  compare(kDense, {{8, "1.875; 1.88 GB / 3.76 GB", "1.000; 2.82 GB / 3.76 GB", "1.000; 3.76 GB / 3.76 GB"},
                   {64, "1.984; 2.11 GB / 4.23 GB", "1.000; 3.17 GB / 4.23 GB", "1.000; 4.23 GB / 4.23 GB"},
                   {512, "1.998; 2.14 GB / 4.29 GB", "1.000; 3.21 GB / 4.29 GB", nullptr}});
}

TEST(Tables, ChoicesAreBalancedAndEfficient) {
  for (const auto& workload : {kLongnet3, kWindow, kDense}) {
    for (std::int64_t ranks : {8, 64}) {
      const Sized sized(workload, kM);
      const auto report = sized.report(sized.choice(ranks).split);
      EXPECT_LE(report.imbalance, 1.03) << workload.text << ranks;
      EXPECT_GE(report.efficiency, 0.95) << workload.text << ranks;
      double needed = 0, sent = 0;
      for (const auto& share : report.ranks) {
        needed += share.needed_bytes;
        sent += share.sent_bytes;
        EXPECT_LE(share.needed_bytes, share.field_bytes);
      }
      EXPECT_EQ(needed, sent);
    }
  }
  // No map of another kind is taken where the plainest is as good.
  const Sized window(kWindow, kM);
  EXPECT_EQ(window.choice(64).split.home.name, "contiguous");
}

/// Rows of one document at the end have almost all of the work: no snake is balanced, chunks that change places are.
TEST(Tables, ChunksBalanceWhatSnakesDoNot) {
  const Workload uneven = {
      "pattern p { branch causal & where(q >= 20000 and q < 26000 or q - k < 8); }", {.d = 64, .d_v = 64}, 1, 1};
  const Sized sized(uneven, 1 << 15, "cpu:x86-64-v3");
  const auto choice = sized.choice(6);
  EXPECT_TRUE(choice.split.home.name.starts_with("chunks of")) << choice.split.home.name;
  const auto report = sized.report(choice.split);
  EXPECT_LE(report.imbalance, 1.06);
  EXPECT_GE(sized.report(snake(1 << 15, 6, 6, 2)).imbalance, 1.3);
}

/// A walk over the pairs of 64 M tokens, or over their rows, would not end within the test's time.
TEST(Tables, PlanningGrowsWithRanksNotWithTokens) {
  for (const auto& workload : {kLongnet3, kLongnet5, kWindow, kDense}) {
    for (const auto& [ranks, tokens] : {std::pair{512, kM}, {4096, 64 * kM}}) {
      const Sized sized(workload, tokens);
      const auto start = std::chrono::steady_clock::now();
      const auto choice = sized.choice(ranks);
      const auto report = sized.report(choice.split);
      const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
      EXPECT_LE(report.imbalance, 1.031) << workload.text << ranks;
      std::printf("  %d ranks: %.1f ms, %s\n", ranks, ms, choice.split.home.name.c_str());
    }
  }
}

}  // namespace
}  // namespace weft::ring
