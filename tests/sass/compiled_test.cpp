/// Real cubins through a real disassembler, where this machine has both.

#include "laboratory/sass/listing.h"
#include "laboratory/sass/report.h"
#include "runtime/nvrtc/compile.h"
#include "runtime/nvrtc/disassemble.h"
#include "runtime/nvrtc/search.h"

#include <gtest/gtest.h>

namespace weft::sass {
namespace {

/// Twelve rounds of 64 products, an exponential, and a loop around them.
constexpr const char* kText = R"(
extern "C" __global__ void weft_kernel(const float* a, float* o, int n) {
  __shared__ float x[12][24];
  float sum[8][8] = {};
  float* const flat = &x[0][0];
  const int t = threadIdx.x % 8;
  for (int i = threadIdx.x; i < 288; i += 32) flat[i] = a[i];
  for (int k = 0; k < n; ++k) {
    __syncthreads();
#pragma unroll 1
    for (int c = 0; c < 12; ++c) {
      for (int i = 0; i < 8; ++i) {
        for (int j = 0; j < 8; ++j) sum[i][j] = __fmaf_rn(x[c][t + i], x[c][t + 8 + j], sum[i][j]);
      }
    }
    __syncthreads();
    flat[threadIdx.x] = exp2f(sum[0][0] * a[k]);
  }
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 8; ++j) o[(threadIdx.x * 8 + i) * 8 + j] = sum[i][j];
  }
})";

Result<std::string> listing_for(const Target& target) {
  WEFT_TRY(const auto library, nvrtc::locate(target));
  WEFT_TRY(const auto binary, nvrtc::compile(*library, kText, target));
  return nvrtc::disassemble(binary.cubin, target, nvrtc::Encodings::shown);
}

TEST(Compiled, LoopsOfEveryGenerationAreFound) {
  int seen = 0;
  for (const char* name : {"sm_60", "sm_61", "sm_70", "sm_75", "sm_80", "sm_89", "sm_90a", "sm_120"}) {
    SCOPED_TRACE(name);
    const auto text = listing_for(*find_target(name));
    if (!text.ok()) {
      ASSERT_EQ(text.error().kind, ErrorKind::environment) << text.error().message;
      continue;
    }
    ++seen;
    const auto codes = parse_listing(*text);
    ASSERT_TRUE(codes.ok()) << codes.error().message;
    EXPECT_EQ(codes->front().name, "weft_kernel");
    const auto report = report_on(*codes, {.launch = {}, .products = 12 * 64});
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_EQ(report->loops[0].mix.products, 12 * 64);
    EXPECT_EQ(report->loops.size(), 2U);
    EXPECT_TRUE(report->trusted);
    EXPECT_EQ(report->share_of_peak.has_value(), !codes->front().wide);
    EXPECT_GE(report->loops[0].mix.of(Unit::special), 1);
    EXPECT_GE(report->loops[0].mix.of(Unit::barrier), 2);
  }
  if (seen == 0) GTEST_SKIP() << "no NVRTC or no nvdisasm here";
}

}  // namespace
}  // namespace weft::sass
