/// Counters against numbers worked out by hand.

#include "tests/emulate/kernel.h"

#include <new>
#include <numeric>

namespace weft::testing {
namespace {

/// Sectors are those of addresses, so tensors begin at one.
template <typename T>
struct SectorAligned {
  using value_type = T;
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t(32))); }
  void deallocate(T* p, std::size_t) { ::operator delete(p, std::align_val_t(32)); }
  bool operator==(const SectorAligned&) const = default;
};
using Floats = std::vector<float, SectorAligned<float>>;

struct Args {
  const float* in;
  float* out;
};

emulate::Report run(const std::string& text, std::int64_t blocks, int threads, std::int64_t shared_bytes, Floats& in,
                    Floats& out) {
  const auto program = built(text, {.count = true});
  if (!program) return {};
  const Args args{in.data(), out.data()};
  emulate::Launch launch;
  launch.blocks = blocks;
  launch.threads = threads;
  launch.shared_bytes = shared_bytes;
  launch.args = &args;
  launch.args_bytes = sizeof args;
  launch.memory = {region(in, false, "in"), region(out, true, "out")};
  auto report = program->launch(launch);
  EXPECT_TRUE(report.ok());
  return report.ok() ? *report : emulate::Report{};
}

/// One access of a warp; see kernels/access.cu.
struct Pattern {
  const char* name;
  const char* type;
  const char* shared;  ///< index into shared memory, of elements
  const char* global;
  int load_wavefronts, load_conflicts;
  int store_wavefronts, store_conflicts;
  int sectors;
  bool lanes_share = false;  ///< a shared address, so that their stores race
};

void PrintTo(const Pattern& pattern, std::ostream* out) { *out << pattern.name; }

const Pattern kPatterns[] = {
    {"Coalesced", "float", "lane", "lane", 1, 0, 1, 0, 4},
    {"Conflict32Ways", "float", "lane * 32", "lane * 8", 32, 31, 32, 31, 32},
    {"Conflict2Ways", "float", "lane * 2", "lane * 2", 2, 1, 2, 1, 8},
    {"Padded", "float", "lane * 33", "lane * 33", 1, 0, 1, 0, 32},
    {"Broadcast", "float", "lane % 1", "lane % 1", 1, 0, 1, 0, 1, true},
    {"HalvesOfAWord", "unsigned short", "lane", "lane", 1, 0, 1, 0, 2},
    {"Eight", "float2", "lane", "lane", 2, 0, 2, 0, 8},
    {"EightConflict2Ways", "float2", "lane * 2", "lane * 2", 4, 2, 4, 2, 16},
    {"EightInPairs", "float2", "lane / 2", "lane / 2", 1, 0, 2, 0, 4, true},
    {"Sixteen", "float4", "lane", "lane", 4, 0, 4, 0, 16},
    {"SixteenInPairs", "float4", "lane / 2", "lane / 2", 2, 0, 4, 0, 8, true},
    {"SixteenInPairsTwoApart", "float4", "lane / 4 * 2 + lane % 2", "lane", 2, 0, 4, 0, 16, true},
    {"SixteenConflict8Ways", "float4", "lane * 8", "lane * 8", 32, 28, 32, 28, 32},
    {"AcrossSectors", "float", "lane", "lane + 4", 1, 0, 1, 0, 5},
};

class OneAccess : public ::testing::TestWithParam<Pattern> {};
INSTANTIATE_TEST_SUITE_P(, OneAccess, ::testing::ValuesIn(kPatterns),
                         [](const auto& pattern) { return std::string(pattern.param.name); });

TEST_P(OneAccess, IsCountedExactly) {
  const Pattern& p = GetParam();
  std::string text = with(kernel_text("access.cu"), "TYPE", p.type);
  text = with(with(text, "SHARED_INDEX", p.shared), "GLOBAL_INDEX", p.global);
  Floats in(2048), out(2048);
  const auto report = run(text, 1, 32, 16384, in, out);
  EXPECT_EQ(faults(report).empty(), !p.lanes_share) << faults(report);
  EXPECT_EQ(report.shared_loads.requests, 1);
  EXPECT_EQ(report.shared_loads.units, p.load_wavefronts);
  EXPECT_EQ(report.shared_loads.conflicts, p.load_conflicts);
  EXPECT_EQ(report.shared_stores.units, p.store_wavefronts);
  EXPECT_EQ(report.shared_stores.conflicts, p.store_conflicts);
  EXPECT_EQ(report.global_loads.requests, 1);
  EXPECT_EQ(report.global_loads.units, p.sectors);
  EXPECT_EQ(report.global_stores.units, p.sectors);
}

/// 4 tiles of 32 x 32, each by 4 warps that take 8 rows each.
class Transposition : public ::testing::Test {
 protected:
  static constexpr int kBlocks = 4;

  emulate::Report run_with(const std::string& row) {
    std::iota(in_.begin(), in_.end(), 0.0F);
    auto report =
        run(with(kernel_text("transpose.cu"), "kRow = 33", "kRow = " + row), kBlocks, 128, 32 * 33 * 4, in_, out_);
    EXPECT_EQ(faults(report), "");
    return report;
  }
  void expect_transposed() const {
    for (std::size_t i = 0; i < out_.size(); ++i) {
      const std::size_t tile = i / 1024, row = i / 32 % 32, column = i % 32;
      ASSERT_EQ(out_[i], in_[tile * 1024 + column * 32 + row]) << i;
    }
  }

  Floats in_ = Floats(1024 * kBlocks), out_ = Floats(1024 * kBlocks);
};

TEST_F(Transposition, PaddedRowsHaveNoConflicts) {
  const auto report = run_with("33");
  expect_transposed();
  for (const auto& traffic : {report.shared_loads, report.shared_stores}) {
    EXPECT_EQ(traffic.requests, kBlocks * 32);
    EXPECT_EQ(traffic.bytes, kBlocks * 4096);
    EXPECT_EQ(traffic.units, kBlocks * 32);
    EXPECT_EQ(traffic.conflicts, 0);
  }
  EXPECT_EQ(report.global().requests, 2 * kBlocks * 32);
  EXPECT_EQ(report.global().units, 2 * kBlocks * 32 * 4);
  EXPECT_EQ(report.barriers, kBlocks);
}

TEST_F(Transposition, UnpaddedRowsHave32Ways) {
  const auto report = run_with("32");
  expect_transposed();
  EXPECT_EQ(report.shared_stores.conflicts, 0);
  EXPECT_EQ(report.shared_loads.requests, kBlocks * 32);
  EXPECT_EQ(report.shared_loads.units, kBlocks * 32 * 32);
  EXPECT_EQ(report.shared_loads.conflicts, kBlocks * 32 * 31);
  ASSERT_EQ(report.shared_lines.size(), 2U);
  EXPECT_EQ(report.shared_lines.front().traffic.conflicts, kBlocks * 32 * 31) << "worst first";
  EXPECT_LT(report.shared_lines.back().line, report.shared_lines.front().line);
}

TEST(Flops, AreTwoForEachFusedMultiplyAdd) {
  const std::string text = with(kernel_text("access.cu"), "TYPE", "float");
  const std::string sum = "float sum = value;\n  for (int i = 0; i < lane; ++i) sum = __fmaf_rn(sum, 0.5f, 1.0f);\n";
  const std::string kernel = with(with(with(with(text, "SHARED_INDEX", "lane"), "GLOBAL_INDEX", "lane"),
                                       "  __syncwarp();", sum + "  __syncwarp();"),
                                  "load_shared<Type>((Type*)memory + shared)", "sum");
  Floats in(32), out(32);
  EXPECT_EQ(run(kernel, 1, 32, 128, in, out).flops, 2 * 31 * 32 / 2);
}

/// Lanes that part ways make requests of their own; those of one call in a loop are told apart by its passes.
TEST(Requests, FollowTheLanesThatMakeThem) {
  const std::string text = with(with(kernel_text("access.cu"), "TYPE", "float"), "SHARED_INDEX", "lane");
  const std::string load = "store_global((Type*)a.out + global, load_shared<Type>((Type*)memory + shared))";
  const std::string loop =
      "float sum = 0;\n  for (int i = 0; i < 1 + lane % 2; ++i) sum += load_shared<Type>((Type*)memory + (lane & "
      "~1));\n"
      "  store_global((Type*)a.out + global, sum)";
  Floats in(32), out(32);
  const auto report = run(with(with(text, "GLOBAL_INDEX", "lane"), load, loop), 1, 32, 128, in, out);
  EXPECT_EQ(report.shared_loads.requests, 2);
  EXPECT_EQ(report.shared_loads.bytes, 4 * (32 + 16));
  EXPECT_EQ(report.shared_loads.units, 2);
}

}  // namespace
}  // namespace weft::testing
