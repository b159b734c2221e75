/// What the machine finds in kernels that do wrong, and that it finds nothing in their right twins.

#include "runtime/cuda/functions.h"
#include "runtime/nvrtc/compile.h"
#include "runtime/nvrtc/search.h"
#include "tests/machine/fixture.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <vector>

namespace weft::test {
namespace {

using cuda::DeviceAddress;

/// The driver's own calls: nothing of Weft stands between these kernels and the machine.
const cuda::Functions& driver() {
  using namespace cuda;
  static const Functions functions = [] {
    Functions out;
    void* library = dlopen(WEFT_MACHINE, RTLD_NOW | RTLD_LOCAL);
#define WEFT_CUDA_FUNCTION(name, parameters) out.name = reinterpret_cast<int(*) parameters>(dlsym(library, #name));
#include "runtime/cuda/functions.def"
    return out;
  }();
  return functions;
}

std::string compiled(int sm, const std::string& text) {
  const Target target = find_target(fmt::format("sm_{}", sm)).value();
  const auto library = nvrtc::locate(target).value();
  auto binary = nvrtc::compile(*library, text, target);
  if (!binary) throw std::runtime_error(binary.error().message);
  return std::move(binary)->cubin;
}

constexpr unsigned kThreads = 64, kNumbers = 64;
constexpr unsigned kSharedBytes = 4 * kThreads;

/// Runs `body` as the body of a kernel of one block with two warps, over `float* out` and `const float* in`, 64 numbers
/// each, and 64 numbers of shared memory, `tile`. What the machine says; the numbers come back in `out`.
std::string run(int sm, const std::string& body, std::vector<float>* out = nullptr) {
  const auto text = fmt::format(
      "extern \"C\" __global__ void __launch_bounds__(64) k(float* out, const float* in) {{\n"
      "  extern __shared__ float tile[];\n  const int t = threadIdx.x;\n{}\n}}\n",
      body);
  const auto cubin = compiled(sm, text);
  const auto& cu = driver();
  cuda::ModuleHandle* module = nullptr;
  cuda::FunctionHandle* function = nullptr;
  EXPECT_EQ(cu.cuModuleLoadData(&module, cubin.data()), 0) << the_machine().fault;
  EXPECT_EQ(cu.cuModuleGetFunction(&function, module, "k"), 0);
  struct {
    DeviceAddress out = 0, in = 0;
  } arguments;
  std::vector<float> numbers(kNumbers);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i + 1);
  const auto bytes = numbers.size() * sizeof(float);
  EXPECT_EQ(cu.cuMemAlloc_v2(&arguments.out, bytes), 0);
  EXPECT_EQ(cu.cuMemAlloc_v2(&arguments.in, bytes), 0);
  EXPECT_EQ(cu.cuMemcpyHtoD_v2(arguments.in, numbers.data(), bytes), 0);
  the_machine().fault.clear();
  void* parameters[] = {&arguments};
  const int result = cu.cuLaunchKernel(function, 1, 1, 1, kThreads, 1, 1, kSharedBytes, nullptr, parameters, nullptr);
  EXPECT_EQ(result != 0, !the_machine().fault.empty());
  if (out != nullptr) {
    out->resize(kNumbers);
    EXPECT_EQ(cu.cuMemcpyDtoH_v2(out->data(), arguments.out, bytes), 0);
  }
  cu.cuMemFree_v2(arguments.out);
  cu.cuMemFree_v2(arguments.in);
  cu.cuModuleUnload(module);
  return the_machine().fault;
}

class MachineFinds : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (const auto why = become(GetParam()); !why.empty()) GTEST_SKIP() << why;
  }
  /// `wrong` makes the machine say so, and `right` nothing.
  void expect(const std::string& says, const std::string& wrong, const std::string& right) {
    EXPECT_NE(run(GetParam(), wrong).find(says), std::string::npos) << the_machine().fault;
    EXPECT_EQ(run(GetParam(), right), "");
  }
};

TEST_P(MachineFinds, NothingInWhatComputes) {
  std::vector<float> out;
  const auto said = run(GetParam(),
                        "tile[t] = in[t]; __syncthreads(); float a = tile[63 - t];"
                        "for (int i = 0; i < t % 5; ++i) a += __fdividef(1.0f, a) + sqrtf(a);"
                        "a += __shfl_xor_sync(~0u, a, 3); out[t] = t % 3 == 1 ? a : a * in[t / 2];",
                        &out);
  EXPECT_EQ(said, "");
  const auto value = [](int t) {
    double a = 64 - t;
    for (int i = 0; i < t % 5; ++i) a += 1 / a + std::sqrt(a);
    return a;
  };
  for (int t = 0; t < static_cast<int>(kThreads); ++t) {
    const double a = value(t) + value(t ^ 3), want = t % 3 == 1 ? a : a * (t / 2 + 1);
    EXPECT_NEAR(static_cast<double>(out[static_cast<std::size_t>(t)]), want, 1e-5 * want) << t;
  }
}

/// One expression as the host and as the kernel computes it, from two numbers of f64.
struct Computed {
  const char* text;
  double (*of)(double x, double y);
};
#define WEFT_COMPUTED(...)                                                                     \
  Computed {                                                                                   \
#__VA_ARGS__, [](double x, double y) -> double { return (void(x), void(y), __VA_ARGS__); } \
  }

/// To the last bit: what is left behind the bits of f32 counts as well.
TEST_P(MachineFinds, NothingInDoublesAndWideIntegers) {
  using std::fabs, std::fma;
  static constexpr Computed kComputed[] = {
      WEFT_COMPUTED(fma(x, 3.0, -fabs(y))),
      WEFT_COMPUTED(x * y),
      WEFT_COMPUTED(x - fabs(y)),
      WEFT_COMPUTED(x + 0.1),
      WEFT_COMPUTED(x < fabs(y) ? x : y),
      WEFT_COMPUTED(static_cast<double>(static_cast<long long>(y * 1e17))),
      WEFT_COMPUTED(static_cast<double>(static_cast<unsigned long long>(x * 2e17))),
      WEFT_COMPUTED(static_cast<double>(static_cast<int>(y * 1e6))),
      WEFT_COMPUTED(static_cast<double>(static_cast<unsigned>(x * 5e7))),
      WEFT_COMPUTED(static_cast<double>(static_cast<float>(static_cast<long long>(y * 1e17)))),
  };
  const auto number = [](int t) { return static_cast<float>(t + 1); };
  std::string cases;
  for (std::size_t i = 0; i < std::size(kComputed); ++i)
    cases += fmt::format("if (t % {} == {}) a = {};\n", std::size(kComputed), i, kComputed[i].text);
  std::vector<float> out;
  const auto said = run(GetParam(),
                        fmt::format("const double x = in[t] * 1.1f, y = in[63 - t] * -0.7f; double a = 0;\n"
                                    "{} out[t] = float(t < 32 ? a : a - double(float(a)));",
                                    cases),
                        &out);
  EXPECT_EQ(said, "");
  for (int t = 0; t < static_cast<int>(kThreads); ++t) {
    const auto& computed = kComputed[static_cast<std::size_t>(t) % std::size(kComputed)];
    const double a = computed.of(static_cast<double>(number(t) * 1.1F), static_cast<double>(number(63 - t) * -0.7F));
    const double want = t < 32 ? a : a - static_cast<double>(static_cast<float>(a));
    EXPECT_EQ(out[static_cast<std::size_t>(t)], static_cast<float>(want)) << t << ": " << computed.text;
  }
}

TEST_P(MachineFinds, NothingInSaturation) {
  std::vector<float> out;
  EXPECT_EQ(run(GetParam(),
                "out[t] = __saturatef(fmaf(in[t], 0.05f, -0.5f)) + __saturatef(in[t] * (t == 63 ? "
                "__int_as_float(0x7fc00000) : 0));",
                &out),
            "");
  for (int t = 0; t < static_cast<int>(kThreads); ++t) {
    const float want = std::min(std::max(std::fma(static_cast<float>(t + 1), 0.05F, -0.5F), 0.0F), 1.0F);
    EXPECT_EQ(out[static_cast<std::size_t>(t)], want) << t;
  }
}

/// One word takes what all lanes of both warps add, one of 64 bits as well.
TEST_P(MachineFinds, NothingInAdditionsToMemory) {
  std::vector<float> out;
  const auto said = run(GetParam(),
                        "out[t] = 0; __syncthreads(); atomicAdd(out, in[t]); atomicAdd((int*)out + 1, t);"
                        "atomicMax((int*)out + 2, t % 50); atomicAdd((unsigned long long*)out + 2, (1ull << 32) - t);",
                        &out);
  EXPECT_EQ(said, "");
  EXPECT_EQ(out[0], 64 * 65 / 2);
  EXPECT_EQ(std::bit_cast<std::int32_t>(out[1]), 63 * 32);
  EXPECT_EQ(std::bit_cast<std::int32_t>(out[2]), 49);
  std::uint64_t sum = 0;
  std::memcpy(&sum, &out[4], sizeof sum);
  EXPECT_EQ(sum, (std::uint64_t{64} << 32) - 63 * 32);
}

/// Pascal multiplies halves of 16 bits: each of zero, positive and negative meets each other.
TEST_P(MachineFinds, NothingInProductsOfIntegers) {
  std::vector<float> out;
  const auto said = run(GetParam(),
                        "const int a = (t % 8 - 4) * 65536 + t / 8 - 4, b = (t / 8 - 4) * 65536 + t % 8 - 4;"
                        "out[t] = __uint_as_float(unsigned(__mulhi(a, b)) + 31u * __umulhi(a, b) + 13u * (a * b)"
                        " + 17u * (a / 7) + 19u * (a % 11) + 23u * (unsigned(b) / 13));",
                        &out);
  EXPECT_EQ(said, "");
  for (int t = 0; t < static_cast<int>(kThreads); ++t) {
    const int a = (t % 8 - 4) * 65536 + t / 8 - 4, b = (t / 8 - 4) * 65536 + t % 8 - 4;
    const auto u = [](std::int64_t x) { return static_cast<std::uint32_t>(x); };
    const std::int64_t product = std::int64_t{a} * b;
    const auto unsigned_high = static_cast<std::uint32_t>(std::uint64_t{u(a)} * u(b) >> 32);
    const auto want =
        u(product >> 32) + 31 * unsigned_high + 13 * u(product) + 17 * u(a / 7) + 19 * u(a % 11) + 23 * (u(b) / 13);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(out[static_cast<std::size_t>(t)]), want) << a << " and " << b;
  }
}

/// Lanes of a warp go to different places of a table, and meet again for the shuffle.
TEST_P(MachineFinds, NothingInJumpTables) {
  std::vector<float> out;
  const auto said = run(GetParam(),
                        "float x = in[t]; switch (t % 7) {"
                        "case 0: x += 1.0f; tile[t] = x; break; case 1: x *= 3.0f; break; case 2: x = sqrtf(x); break;"
                        "case 3: x = in[63 - t]; break; case 4: x = x * x; break; case 5: x = -x; tile[t] = x; break; }"
                        "out[t] = x + __shfl_xor_sync(~0u, x, 1);",
                        &out);
  EXPECT_EQ(said, "");
  const auto value = [](int t) {
    const float x = static_cast<float>(t + 1);
    const float values[] = {x + 1, x * 3, std::sqrt(x), static_cast<float>(64 - t), x * x, -x, x};
    return values[t % 7];
  };
  for (int t = 0; t < static_cast<int>(kThreads); ++t)
    EXPECT_NEAR(out[static_cast<std::size_t>(t)], value(t) + value(t ^ 1), 1e-3F) << t;
}

/// Loops in each other, whose lanes go round as often as they like: more places to meet than Volta has barriers for, so
/// that they are kept in registers in between.
struct Nested {
  static constexpr int kLevels = 20;
  static bool goes_twice(int level, unsigned t) { return t % 4 == static_cast<unsigned>(level % 4); }
  static unsigned in(unsigned place) { return (place & 63) + 1; }
  static unsigned sum(int level, unsigned t, unsigned sum) {
    if (level == kLevels) return sum * 3 + in(sum);
    for (int i = 0; i <= (goes_twice(level, t) ? 1 : 0); ++i) {
      sum = Nested::sum(level + 1, t, sum);
      sum += in(sum + static_cast<unsigned>(level));
    }
    return sum;
  }
  static std::string text() {
    std::string begin, end;
    for (int level = 0; level < kLevels; ++level) {
      begin += fmt::format("#pragma unroll 1\nfor (int i{0} = 0; i{0} <= (t % 4 == {1} ? 1 : 0); ++i{0}) {{\n", level,
                           level % 4);
      end = fmt::format("sum += (unsigned)in[(sum + {}) & 63]; }}\n", level) + end;
    }
    return "unsigned sum = t;\n" + begin + "sum = sum * 3 + (unsigned)in[sum & 63];\n" + end +
           "out[t] = __uint_as_float(sum >> 9);";
  }
};

TEST_P(MachineFinds, NothingInLoopsInEachOther) {
  std::vector<float> out;
  ::setenv("WEFT_MACHINE_MOST", "10", 1);
  EXPECT_EQ(run(GetParam(), Nested::text(), &out), "");
  ::unsetenv("WEFT_MACHINE_MOST");
  for (unsigned t = 0; t < kThreads; ++t)
    EXPECT_EQ(std::bit_cast<std::uint32_t>(out[t]), Nested::sum(0, t, t) >> 9) << t;
}

TEST_P(MachineFinds, StrayAccess) {
  expect("lies outside every allocation", "out[t + 1] = 1.0f;", "out[t] = 1.0f;");
  expect("lies outside every allocation", "out[t] = in[t - 1];", "out[t] = in[t];");
}

TEST_P(MachineFinds, UnalignedAccess) {
  const std::string load = "const float2 a = *(const float2*)(in + t % 32 * 2 + {}); out[t] = a.x + a.y;";
  expect("which is no multiple", fmt::format(fmt::runtime(load), 1), fmt::format(fmt::runtime(load), 0));
}

TEST_P(MachineFinds, BeyondSharedMemory) {
  expect("of shared memory, of which the block has", "tile[t + 1] = in[t]; __syncthreads(); out[t] = tile[t];",
         "tile[t] = in[t]; __syncthreads(); out[t] = tile[t];");
}

TEST_P(MachineFinds, RaceOfLoadAndStore) {
  expect("race: the load", "tile[t] = in[t]; out[t] = tile[63 - t];",
         "tile[t] = in[t]; __syncthreads(); out[t] = tile[63 - t];");
}

TEST_P(MachineFinds, RaceOfStores) {
  expect("race: the store", "tile[t % 32] = in[t]; __syncthreads(); out[t] = tile[t % 32];",
         "if (t < 32) tile[t] = in[t]; __syncthreads(); out[t] = tile[t % 32];");
}

TEST_P(MachineFinds, GlobalMemoryNobodyWrote) {
  expect("reads global memory nobody wrote", "const float a = out[63 - t]; out[t] = a;",
         "out[t] = 1.0f; const float a = ((volatile float*)out)[t]; out[t] = a;");
}

/// It is NaN, as on the emulator: kernels may load what they then select away.
TEST_P(MachineFinds, SharedMemoryNobodyWrote) {
  std::vector<float> out;
  EXPECT_EQ(run(GetParam(), "if (t < 63) tile[t] = in[t]; __syncthreads(); out[t] = tile[t];", &out), "");
  EXPECT_EQ(out[62], 63.0F);
  EXPECT_TRUE(std::isnan(out[63]));
}

/// On Maxwell and Pascal some lanes of a warp arrive for all: the barrier counts warps, and too many.
TEST_P(MachineFinds, BarriersThatSomeLanesMiss) {
  const auto says = run(GetParam(),
                        "if (in[t] < 40.0f) { tile[t] = in[t]; __syncthreads(); out[t] = tile[t]; }"
                        "else { __syncthreads(); __syncthreads(); out[t] = 0.0f; }");
  EXPECT_NE(says.find(GetParam() < 70 ? "BAR at" : "wait for lanes that never come"), std::string::npos) << says;
}

TEST_P(MachineFinds, LanesThatAreNotThere) {
  if (GetParam() < 70) return;  // SHFL gives what an absent lane's register holds there, and compilers count on it
  expect("which is not there", "float a = in[t]; if (t % 32 < 7) a += __shfl_xor_sync(0x7f, a, 8); out[t] = a;",
         "float a = in[t]; if (t % 32 < 8) a += __shfl_xor_sync(0xff, a, 4); out[t] = a;");
}

TEST_P(MachineFinds, CopiesThatNobodyWaitedFor) {
  if (GetParam() < 80) return;
  const std::string copy =
      "const unsigned to = (unsigned)__cvta_generic_to_shared(tile + t);"
      "asm volatile(\"cp.async.ca.shared.global [%0], [%1], 4;\" :: \"r\"(to), \"l\"(in + t));"
      "asm volatile(\"cp.async.commit_group;\");";
  const std::string wait = "asm volatile(\"cp.async.wait_group 0;\");";
  std::vector<float> out;
  EXPECT_EQ(run(GetParam(), copy + wait + "__syncthreads(); out[t] = tile[63 - t];", &out), "");
  EXPECT_EQ(out[0], 64.0F);
  // Its own warp reads what has not come: no race, and not the numbers.
  run(GetParam(), copy + "__syncwarp(); out[t] = ((volatile float*)tile)[t];" + wait, &out);
  EXPECT_NE(out[0], 1.0F);
  // Another warp waits at the barrier only.
  EXPECT_NE(run(GetParam(), copy + "__syncthreads(); out[t] = tile[63 - t];" + wait).find("race"), std::string::npos);
  // Nobody does before the end.
  expect("never waited for", "out[t] = in[t];" + copy, "out[t] = in[t];" + copy + wait);
}

/// The path of a launch's first warp, as models of clocks read it: all that it executes, from the first instruction on.
TEST_P(MachineFinds, ThePathOfAWarp) {
  const auto path = testing::TempDir() + fmt::format("weft-path-{}", GetParam());
  ::setenv("WEFT_MACHINE_PATH", path.c_str(), 1);
  EXPECT_EQ(run(GetParam(), "float a = in[t]; for (int i = 0; i < 5; ++i) a = sqrtf(a); out[t] = a;"), "");
  ::unsetenv("WEFT_MACHINE_PATH");
  const auto& launches = the_machine().launches;
  ASSERT_FALSE(launches.empty());
  const auto file = fmt::format("{}.{}", path, launches.size() - 1);
  std::ifstream in(file, std::ios::binary);
  const std::string raw{std::istreambuf_iterator<char>(in), {}};
  std::filesystem::remove(file);
  std::vector<std::int32_t> addresses(raw.size() / sizeof(std::int32_t));
  std::memcpy(addresses.data(), raw.data(), addresses.size() * sizeof(std::int32_t));
  std::uint64_t executed = 0;  // both warps do the same
  for (const auto& [name, count] : launches.back().executed) executed += count;
  ASSERT_FALSE(addresses.empty());
  EXPECT_EQ(addresses.size(), executed / 2);
  EXPECT_EQ(addresses.front(), *std::min_element(addresses.begin(), addresses.end()));
}

TEST_P(MachineFinds, MoreSharedMemoryThanWasAllowed) {
  const auto& cu = driver();
  const auto cubin = compiled(GetParam(), "extern \"C\" __global__ void k(int*) {}");
  cuda::ModuleHandle* module = nullptr;
  cuda::FunctionHandle* function = nullptr;
  ASSERT_EQ(cu.cuModuleLoadData(&module, cubin.data()), 0) << the_machine().fault;
  ASSERT_EQ(cu.cuModuleGetFunction(&function, module, "k"), 0);
  DeviceAddress none = 0;
  void* parameters[] = {&none};
  const auto launch = [&](unsigned bytes) {
    return cu.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, bytes, nullptr, parameters, nullptr);
  };
  EXPECT_EQ(launch(48 << 10), 0) << the_machine().fault;
  EXPECT_NE(launch(60 << 10), 0);
  const bool has_more = GetParam() >= 70;
  EXPECT_EQ(cu.cuFuncSetAttribute(function, cuda::kFunctionMostDynamicShared, 60 << 10) == 0, has_more);
  EXPECT_EQ(launch(60 << 10) == 0, has_more);
}

INSTANTIATE_TEST_SUITE_P(, MachineFinds, ::testing::ValuesIn(kArchitectures),
                         [](const auto& of) { return fmt::format("sm_{}", of.param); });

}  // namespace
}  // namespace weft::test
