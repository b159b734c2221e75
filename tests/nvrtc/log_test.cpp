#include "runtime/nvrtc/ptxas_log.h"

#include <gtest/gtest.h>

namespace weft::nvrtc {
namespace {

TEST(PtxasLog, ReadsKernelsAndWhatTheyCall) {
  // As NVRTC 12.9 wrote it; numbers shortened.
  const auto kernels = read_ptxas_log(R"(nvrtc: warning: Architectures prior to '<compute/sm>_75' are deprecated
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k2' for 'sm_61'
ptxas info    : Function properties for k2
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 5 registers, used 0 barriers, 328 bytes cmem[0]
ptxas info    : Compile time = 1.257 ms
ptxas info    : Compiling entry function 'k' for 'sm_61'
ptxas info    : Function properties for k
ptxas         .     3584 bytes stack frame, 43 bytes spill stores, 42 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 3584 bytes cumulative stack size, 1024 bytes smem, 340 bytes cmem[0]
ptxas info    : Compile time = 299.572 ms
ptxas info    : Function properties for _Z6helperf
ptxas         .     0 bytes stack frame, 5 bytes spill stores, 6 bytes spill loads
)");
  ASSERT_EQ(kernels.size(), 2U);
  EXPECT_EQ(kernels[0].name, "k2");
  EXPECT_EQ(kernels[0].registers, 5);
  EXPECT_EQ(kernels[0].shared_bytes, 0);
  EXPECT_EQ(kernels[0].spill_bytes, 0);
  EXPECT_EQ(kernels[1].name, "k");
  EXPECT_EQ(kernels[1].registers, 32);
  EXPECT_EQ(kernels[1].shared_bytes, 1024);
  EXPECT_EQ(kernels[1].spill_bytes, 43 + 42 + 5 + 6);
}

TEST(PtxasLog, OtherTextsSayNothing) {
  EXPECT_TRUE(read_ptxas_log("").empty());
  EXPECT_TRUE(read_ptxas_log("Used 5 registers\n12 bytes smem").empty()) << "of no kernel";
  const auto odd = read_ptxas_log("Compiling entry function 'k\nUsed many registers, 99999999999999999999 bytes smem");
  ASSERT_EQ(odd.size(), 1U);
  EXPECT_EQ(odd[0].name, "k");
  EXPECT_EQ(odd[0].registers, 0);
  EXPECT_EQ(odd[0].shared_bytes, 0);
}

}  // namespace
}  // namespace weft::nvrtc
