#include "codegen/cuda/emit.h"
#include "compiler/planner/planner.h"
#include "runtime/nvrtc/compile.h"
#include "runtime/nvrtc/cubin.h"
#include "runtime/nvrtc/search.h"
#include "tests/support/effort.h"
#include "tests/support/shipped.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>
#include <tuple>

/// Every published pattern that kernels can compute, compiled by NVRTC without spilling. Many patterns share a text,
/// which is compiled once.
namespace weft::testing {
namespace {

struct Text {
  std::string text;
  std::string pattern;  ///< the first that has it, …
  std::size_t number;   ///< … and which of the patterns that is
  bool few;             ///< it is that of few queries
};

/// The patterns of tests/patterns with heads, dim and dtype rewritten, as texts for the target.
std::vector<Text> texts(const Target& target, std::int64_t d, ir::DType dtype, int& planned) {
  std::set<std::string> known;
  std::vector<Text> out;
  std::size_t number = 0;
  for (const auto& [file, pattern] : test::shipped_patterns("tests/patterns")) {
    ++number;
    const auto plan = planner::plan(pattern, {.d = d, .d_v = d, .dtype = dtype}, target);
    if (!plan.ok()) {
      EXPECT_FALSE(plan.error().diagnostics.empty()) << pattern.name << ": " << plan.error().message;
      continue;
    }
    ++planned;
    for (const auto regime : ir::regimes_of(*plan)) {
      const std::string text = codegen::cuda::emit(*plan, target, regime).text;
      if (known.insert(text).second) out.push_back({text, pattern.name, number, regime == ir::Regime::few_queries});
    }
  }
  return out;
}

/// Without lines of comments, which cost NVRTC nothing.
std::size_t bytes_of_code(const std::string& text) {
  std::istringstream lines(text);
  std::size_t bytes = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find_first_not_of(' ');
    if (first != std::string::npos && line.compare(first, 2, "//") != 0) bytes += line.size() + 1;
  }
  return bytes;
}

/// Of one kernel. Instructions beyond the caches of an SM (128 KB) would be fetched again for each tile, and NVRTC's
/// time grows faster than the text. What settles the sums of long rows, up to 10 KB that one block of keys in eight or
/// more runs through, stands beside the loops; where a sequence begins is asked once or twice in a tile, and rows of Q
/// and O have a loop for tiles whose rows lie evenly, and one for others. Which keys a value's bounds are is found once
/// a tile, too, by up to 10 KB more. Products of one of a warp's two tiles alone are another 6 KB. Texts have what
/// decoding alone compiles, too, 2 KB, and a second code for rows of whole blocks on a list and tiles that are computed
/// again, 1 KB each. Runs of chosen keys are asked for between others, 2 KB. Results go out 16 bytes at a time, 1 KB.
constexpr std::size_t kMostText = 181 * 1024;
constexpr std::int64_t kMostCode = (128 + 10 + 2 + 10 + 6) * 1024;

/// An architecture, a head dim and a dtype: a minute or two of NVRTC each.
using Unit = std::tuple<const char*, std::int64_t, ir::DType>;

/// Of a unit one pattern in so many is compiled, none where that is 0. Of each class of kernels a unit is compiled by
/// half; `./dev test --all` compiles these two whole, and looks at shares of four more, where registers are short and
/// where texts are long: three of them take turns. All take an hour: WEFT_TEST_EVERY_KERNEL.
struct Share {
  std::size_t one = 0, of = 0;
};
Share share_of(std::string_view name, std::int64_t d, ir::DType dtype) {
  constexpr Share whole = {0, 1};
  if (std::getenv("WEFT_TEST_EVERY_KERNEL") != nullptr) return whole;
  const bool is_half = dtype == ir::DType::f16;
  if ((name == "sm_61" && d == 64 && is_half) || (name == "sm_80" && d == 128 && is_half))
    return test::tries_all() ? whole : Share{0, 5};
  if (!test::tries_all()) return {};
  if (name == "sm_61" && d == 128 && dtype == ir::DType::f32) return {0, 4};
  if (!is_half) return {};
  if (name == "sm_80") return {1, 3};
  if (d == 128 && name == "sm_75") return {2, 3};
  if (d == 128 && name == "sm_90") return {0, 3};
  return {};
}

class CudaCompile : public ::testing::TestWithParam<Unit> {};

TEST_P(CudaCompile, WithoutSpills) {
  const auto& [name, d, dtype] = GetParam();
  const Share share = share_of(name, d, dtype);
  if (share.of == 0) GTEST_SKIP() << "WEFT_TEST_ALL or WEFT_TEST_EVERY_KERNEL compile more of " << name;
  const Target target = find_target(name).value();
  const auto library = nvrtc::locate(target);
  ASSERT_TRUE(library.ok()) << library.error().message;
  int planned = 0;
  const bool every = std::getenv("WEFT_TEST_EVERY_KERNEL") != nullptr;
  for (const auto& [text, pattern, number, few] : texts(target, d, dtype, planned)) {
    EXPECT_LE(bytes_of_code(text), kMostText) << pattern;
    if (!test::takes_turn(number, share.one, share.of)) continue;
    if (few && share.of == 1 && !every && !test::takes_turn(number, 0, 3)) continue;
    const auto binary = nvrtc::compile(**library, text, target, {.pattern = pattern});
    ASSERT_TRUE(binary.ok()) << pattern << ": " << binary.error().message;
    EXPECT_EQ(binary->spill_bytes(), 0) << pattern << "\n" << binary->log;
    EXPECT_LE(binary->registers(), 255);
    EXPECT_GT(binary->registers(), 32);
    EXPECT_LE(nvrtc::code_bytes(binary->cubin), kMostCode) << pattern;
    EXPECT_GT(nvrtc::code_bytes(binary->cubin), 1000) << "no code was found in it";
    EXPECT_EQ(binary->log.find("weft_kernel.cu("), std::string::npos) << binary->log;
  }
  EXPECT_GE(planned, 10) << "next to no pattern could be planned";
}

std::string name_of(const ::testing::TestParamInfo<Unit>& of) {
  const auto& [name, d, dtype] = of.param;
  return std::string(name) + "_d" + std::to_string(d) + "_" + ir::to_string(dtype);
}

INSTANTIATE_TEST_SUITE_P(Architectures, CudaCompile,
                         ::testing::Combine(::testing::Values("sm_61", "sm_70", "sm_75", "sm_80", "sm_86", "sm_89",
                                                              "sm_90"),
                                            ::testing::Values(std::int64_t{64}, std::int64_t{128}),
                                            ::testing::Values(ir::DType::f32, ir::DType::f16, ir::DType::bf16)),
                         name_of);

}  // namespace
}  // namespace weft::testing
