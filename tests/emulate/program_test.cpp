/// Building and launching: built-ins, what comes of bad texts and bad launches, what is remembered.

#include "runtime/emulate/program.h"

#include "tests/emulate/kernel.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

namespace weft::testing {
namespace {

namespace fs = std::filesystem;

unsigned bits(float x) { return std::bit_cast<unsigned>(x); }

// ---------------------------------------------------------------- built-ins

constexpr int kValues = 24;  // as in kernels/builtins.cu
constexpr int kThreads = 64, kBlocks = 3;

struct Args {
  const float* in;
  unsigned* out;
};

class Builtins : public ::testing::Test {
 protected:
  void run(const emulate::Options& options = {}) {
    const auto program = built(kernel_text("builtins.cu"), options);
    ASSERT_NE(program, nullptr);
    for (int t = 0; t < kThreads; ++t) in_[static_cast<std::size_t>(t)] = std::sin(static_cast<float>(t)) * 100;
    const Args args{in_.data(), out_.data()};
    emulate::Launch launch{.blocks = kBlocks, .threads = kThreads};
    launch.args = &args;
    launch.args_bytes = sizeof args;
    launch.memory = {region(in_, false, "in"), region(out_, true, "out")};
    const auto report = program->launch(launch);
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(faults(*report), "");
  }

  /// Value `at` of every thread.
  void expect(int at, const char* what, const std::function<unsigned(int thread, float x)>& wanted) const {
    for (int i = 0; i < kBlocks * kThreads; ++i) {
      const int t = i % kThreads;
      ASSERT_EQ(out_[static_cast<std::size_t>(i * kValues + at)], wanted(t, in_[static_cast<std::size_t>(t)]))
          << what << ", thread " << t;
    }
  }

  std::vector<float> in_ = std::vector<float>(kThreads);
  std::vector<unsigned> out_ = std::vector<unsigned>(kThreads * kBlocks * kValues);
};

unsigned as_unsigned(int x) { return static_cast<unsigned>(x); }
int warp(int t) { return t / 32 * 32; }

TEST_F(Builtins, OfWarpsAndBlocksAreAsOnAGpu) {
  run();
  expect(0, "gridDim, blockDim", [](int, float) { return kBlocks * 1000U + kThreads; });
  expect(1, "shfl", [](int t, float) { return as_unsigned(warp(t) + (t + 3) % 32); });
  expect(2, "shfl in eights", [](int t, float) { return as_unsigned(t / 8 * 8 + 5); });
  expect(3, "shfl_xor", [](int t, float) { return as_unsigned(t ^ 16); });
  expect(4, "shfl_up", [](int t, float) { return as_unsigned(t % 32 == 0 ? t : t - 1); });
  expect(5, "shfl_down", [](int t, float) { return as_unsigned(t % 32 < 2 ? t + 30 : t); });
  expect(6, "ballot", [](int, float) { return 0x49249249U; });
  expect(7, "any", [](int, float) { return 1U; });
  expect(8, "all", [](int, float) { return 0U; });
  expect(9, "syncthreads_or", [](int, float) { return 1U; });
  expect(10, "syncthreads_or of none", [](int, float) { return 0U; });
  expect(11, "syncthreads_and", [](int, float) { return 0U; });
  expect(12, "syncthreads_count", [](int, float) { return 40U; });
}

TEST_F(Builtins, OfNumbersAreAsOnAGpu) {
  run();
  expect(13, "popc, ffs, clz", [](int t, float) {
    const auto u = as_unsigned(t);
    const int first = t == 0 ? 0 : std::countr_zero(u) + 1;
    return as_unsigned(std::popcount(u) * 10000 + first * 100 + std::countl_zero(u));
  });
  expect(14, "umulhi", [](int, float) { return 8U; });
  expect(15, "2^0", [](int, float) { return bits(1); });
  expect(16, "fmaxf of NaN", [](int, float x) { return bits(x); });
  expect(17, "fminf of NaN", [](int, float x) { return bits(x); });
  expect(22, "fmaf", [](int, float x) { return bits(std::fma(x, x, -x * x)); });
  expect(23, "max, min", [](int t, float) { return as_unsigned(std::max(t, 3) - std::min(t, 3)); });
}

/// Within half of the last place, so this much is rounding to nearest; ties and specials: see below.
TEST_F(Builtins, OfShortFloatsRoundToNearest) {
  run();
  for (std::size_t i = 0; i < out_.size() / kValues; ++i) {
    const float x = in_[i % kThreads];
    const float half = std::bit_cast<float>(out_[i * kValues + 19]),
                bfloat = std::bit_cast<float>(out_[i * kValues + 21]);
    EXPECT_LE(std::abs(half - x), std::ldexp(std::abs(x), -11));
    EXPECT_LE(std::abs(bfloat - x), std::ldexp(std::abs(x), -8));
    EXPECT_EQ(out_[i * kValues + 20], bits(bfloat) >> 16);
  }
}

// ---------------------------------------------------------------- conversions, one by one

/// `out[i] = EXPRESSION of in[i]`
const char* const kConvert =
    "struct Args { const unsigned* in; unsigned* out; };\n"
    "extern \"C\" __global__ void weft_kernel(const Args a) {\n"
    "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  const unsigned x = load_global<unsigned>(a.in + i);\n"
    "  store_global<unsigned>(a.out + i, EXPRESSION);\n"
    "}\n";

std::vector<unsigned> converted(const std::string& expression, std::vector<unsigned> in) {
  std::vector<unsigned> out(in.size());
  const auto program = built(with(kConvert, "EXPRESSION", expression));
  if (!program) return out;
  struct {
    const unsigned* in;
    unsigned* out;
  } const args{in.data(), out.data()};
  emulate::Launch launch{.blocks = static_cast<std::int64_t>(in.size() / 64), .threads = 64};
  launch.args = &args;
  launch.args_bytes = sizeof args;
  launch.memory = {region(in, false, "in"), region(out, true, "out")};
  const auto report = program->launch(launch);
  EXPECT_TRUE(report.ok() && report->faults.empty());
  return out;
}

float half_value(unsigned half) {
  const int exponent = static_cast<int>(half >> 10 & 31), digits = static_cast<int>(half & 1023);
  const float sign = (half & 0x8000) != 0 ? -1.0F : 1.0F;
  if (exponent == 31) {
    return digits != 0 ? std::numeric_limits<float>::quiet_NaN() : sign * std::numeric_limits<float>::infinity();
  }
  return sign * std::ldexp(static_cast<float>(exponent == 0 ? digits : digits + 1024), std::max(exponent, 1) - 25);
}

TEST(HalfConversion, IsExactForEveryHalf) {
  std::vector<unsigned> halves(65536);
  for (unsigned i = 0; i < halves.size(); ++i) halves[i] = i;
  const auto wide = converted("__float_as_uint(from_half((unsigned short)x))", halves);
  const auto back = converted("to_half(from_half((unsigned short)x))", halves);
  for (unsigned half = 0; half < halves.size(); ++half) {
    const float value = half_value(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(std::bit_cast<float>(wide[half])));
      EXPECT_EQ(back[half] & 0x7C00, 0x7C00U);
      EXPECT_NE(back[half] & 0x3FF, 0U);
    } else {
      ASSERT_EQ(wide[half], bits(value)) << half;
      ASSERT_EQ(back[half], half);
    }
  }
}

/// Half way between each half and the next, a little below and a little above.
TEST(HalfConversion, RoundsTiesToEven) {
  std::vector<unsigned> in, wanted;
  for (unsigned half = 0; half < 0x7BFF; ++half) {
    const float middle = (half_value(half) + half_value(half + 1)) / 2;
    for (const auto& [x, rounded] : {std::pair(bits(middle) - 1, half), std::pair(bits(middle), half + (half & 1)),
                                     std::pair(bits(middle) + 1, half + 1)}) {
      in.push_back(x);
      wanted.push_back(rounded);
    }
  }
  for (const auto& [x, rounded] : {std::pair(65519.0F, 0x7BFFU), std::pair(65520.0F, 0x7C00U),
                                   std::pair(1e30F, 0x7C00U), std::pair(-0.0F, 0x8000U)}) {
    in.push_back(bits(x));
    wanted.push_back(rounded);
  }
  while (in.size() % 64 != 0) in.push_back(0), wanted.push_back(0);
  EXPECT_EQ(converted("to_half(__uint_as_float(x))", in), wanted);
}

// ---------------------------------------------------------------- programs

const char* const kNothing =
    "struct Args { long long n; };\nextern \"C\" __global__ void weft_kernel(const Args a) {}\n";

emulate::Launch launch_of_nothing() {
  static const long long n = 0;
  emulate::Launch launch;
  launch.args = &n;
  launch.args_bytes = sizeof n;
  return launch;
}

TEST(Program, IsBuiltOnceAProcess) {
  const auto first = built(kNothing);
  EXPECT_EQ(first, built(kNothing));
  EXPECT_NE(first, built(std::string(kNothing) + "// other\n"));
  EXPECT_NE(first, built(kNothing, {.count = true}));
}

TEST(Program, ThatDoesNotCompileIsAnInternalErrorWithItsLine) {
  const auto program = emulate::Program::build(with(kNothing, "{}", "{ nonsense; }"), "weft_kernel");
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.error().kind, ErrorKind::internal);
  ASSERT_FALSE(program.error().notes.empty());
  EXPECT_NE(program.error().notes[0].find("kernel.cu:2"), std::string::npos) << program.error().notes[0];
}

TEST(Program, WithoutTheNamedCompilerIsAnEnvironmentError) {
  const auto program = emulate::Program::build(kNothing, "weft_kernel", {.compiler = "no-such-compiler"});
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.error().kind, ErrorKind::environment);
  EXPECT_NE(program.error().message.find("no-such-compiler"), std::string::npos);
}

TEST(Program, TakesTheCompilerOfTheVariable) {
  setenv("WEFT_CXX", "/nowhere/c++", 1);
  const auto program = emulate::Program::build(kNothing, "weft_kernel");
  unsetenv("WEFT_CXX");
  ASSERT_FALSE(program.ok());
  EXPECT_NE(program.error().message.find("/nowhere/c++"), std::string::npos);
}

TEST(Program, WithoutAnyCompilerNamesThePackage) {
  const std::string path = std::getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  const auto program = emulate::Program::build(kNothing, "weft_kernel");
  setenv("PATH", path.c_str(), 1);
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.error().kind, ErrorKind::environment);
  ASSERT_FALSE(program.error().notes.empty());
  EXPECT_NE(program.error().notes[0].find("apt-get install g++"), std::string::npos);
}

/// Each has a spelling of its own for what makes plain accesses visible.
TEST(Program, IsCheckedWithEveryCompilerThatIsHere) {
  const std::string text =
      with(with(kNothing, "long long n", "long long n; int* out"), "{}", "{ a.out[a.n + threadIdx.x] = 1; }");
  for (const char* compiler : {"g++", "clang++"}) {
    const auto program = emulate::Program::build(text, "weft_kernel", {.compiler = compiler});
    if (!program.ok()) {
      EXPECT_EQ(program.error().kind, ErrorKind::environment) << program.error().message;
      continue;
    }
    std::vector<int> out(40);
    for (const long long first : {0, 9}) {
      const struct {
        long long n;
        int* out;
      } args{first, out.data()};
      emulate::Launch launch{.threads = 32, .args = &args, .args_bytes = sizeof args};
      launch.memory = {region(out, true, "out")};
      const auto report = (*program)->launch(launch);
      ASSERT_TRUE(report.ok());
      EXPECT_EQ(report->faults.empty(), first == 0) << compiler << faults(*report);
      EXPECT_EQ(report->blocks, first == 0 ? 1 : 0);
    }
  }
}

/// A folder of the test's own, with a compiler that writes down what it is called with.
class KeptObjects : public ::testing::Test {
 protected:
  void SetUp() override {
    if (emulate::Program::build(kNothing, "weft_kernel", {.compiler = "g++"}).ok()) {
      std::ofstream(compiler()) << "#!/bin/sh\necho \"$@\" >>" << (root_ / "calls").string() << "\nexec g++ \"$@\"\n";
      fs::permissions(compiler(), fs::perms::owner_all);
    } else {
      GTEST_SKIP() << "no g++ here";
    }
  }
  void TearDown() override { fs::remove_all(root_); }

  std::string compiler() const { return (root_ / "compiler").string(); }
  fs::path objects() const { return root_ / "objects"; }
  bool build() const {
    const emulate::Options options{.compiler = compiler(), .directory = objects().string()};
    return emulate::Program::build(kNothing, "weft_kernel", options).ok();
  }
  int compilations() const {
    std::ifstream calls(root_ / "calls");
    int count = 0;
    for (std::string line; std::getline(calls, line);) count += line.find("-shared") != std::string::npos ? 1 : 0;
    return count;
  }

 private:
  static fs::path make_root() {
    fs::path root = fs::temp_directory_path() / ("weft-emulate-test-" + std::to_string(::getpid()));
    fs::create_directories(root);
    return root;
  }
  fs::path root_ = make_root();
};

using KeptObjectsDeathTest = KeptObjects;  // builds in processes of their own

TEST_F(KeptObjectsDeathTest, SpareTheNextProcessTheCompiler) {
  EXPECT_EXIT(std::exit(build() ? 0 : 1), ::testing::ExitedWithCode(0), "");
  EXPECT_EQ(compilations(), 1);
  EXPECT_EXIT(std::exit(build() ? 0 : 1), ::testing::ExitedWithCode(0), "");
  EXPECT_EQ(compilations(), 1);
}

TEST_F(KeptObjectsDeathTest, AreWhereTheEnvironmentSays) {
  const auto build_elsewhere = [&] {
    ::setenv("WEFT_EMULATED", objects().c_str(), 1);
    std::exit(emulate::Program::build(kNothing, "weft_kernel", {.compiler = compiler()}).ok() ? 0 : 1);
  };
  for (int time = 0; time < 2; ++time) {
    EXPECT_EXIT(build_elsewhere(), ::testing::ExitedWithCode(0), "");
    EXPECT_EQ(compilations(), 1);
  }
}

TEST_F(KeptObjectsDeathTest, AreReplacedWhenDamaged) {
  EXPECT_EXIT(std::exit(build() ? 0 : 1), ::testing::ExitedWithCode(0), "");
  ASSERT_EQ(std::distance(fs::directory_iterator(objects()), fs::directory_iterator()), 1);
  const fs::path kept = fs::directory_iterator(objects())->path();
  fs::resize_file(kept, fs::file_size(kept) / 2);
  EXPECT_EXIT(std::exit(build() ? 0 : 1), ::testing::ExitedWithCode(0), "");
  EXPECT_EQ(compilations(), 2);
  EXPECT_TRUE(build());
  EXPECT_EQ(compilations(), 2) << "what replaced it is whole";
}

TEST(Program, MayHoldSeveralKernels) {
  const std::string text =
      "struct Args { int* out; };\n"
      "extern \"C\" __global__ void weft_prepass(const Args a) { store_global<int>(a.out, 1); }\n"
      "extern \"C\" __global__ void weft_kernel(const Args a) { store_global<int>(a.out, 2); }\n";
  const auto program = emulate::Program::build(text, "weft_kernel", {.further = {"weft_prepass"}});
  ASSERT_TRUE(program.ok()) << program.error().message;
  for (const std::size_t kernel : {0U, 1U}) {
    std::vector<int> out(1);
    int* const args = out.data();
    const auto report = (*program)->launch({.kernel = kernel,
                                            .threads = 1,
                                            .args = &args,
                                            .args_bytes = sizeof args,
                                            .memory = {region(out, true, "out")}});
    ASSERT_TRUE(report.ok() && report->faults.empty());
    EXPECT_EQ(out[0], kernel == 0 ? 2 : 1);
  }
  EXPECT_NE(*program, *emulate::Program::build(text, "weft_kernel")) << "a program without the other kernel";
}

TEST(Launch, ThatMakesNoSenseIsAnError) {
  const auto program = built(kNothing);
  ASSERT_NE(program, nullptr);
  const auto refused = [&](const std::function<void(emulate::Launch&)>& spoil) {
    emulate::Launch launch = launch_of_nothing();
    spoil(launch);
    const auto report = program->launch(launch);
    return !report.ok() && report.error().kind == ErrorKind::internal;
  };
  EXPECT_FALSE(refused([](emulate::Launch&) {}));
  EXPECT_TRUE(refused([](emulate::Launch& l) { l.args_bytes = 4; }));
  EXPECT_TRUE(refused([](emulate::Launch& l) { l.args = nullptr; }));
  EXPECT_TRUE(refused([](emulate::Launch& l) { l.threads = 0; }));
  EXPECT_TRUE(refused([](emulate::Launch& l) { l.threads = 2048; }));
  EXPECT_TRUE(refused([](emulate::Launch& l) { l.blocks = -1; }));
  EXPECT_TRUE(refused([](emulate::Launch& l) { l.kernel = 1; }));
  EXPECT_TRUE(refused([](emulate::Launch& l) { l.shared_bytes = 1 << 30; }));
}

TEST(Launch, OfNoBlocksDoesNothing) {
  const auto program = built(kNothing);
  ASSERT_NE(program, nullptr);
  emulate::Launch launch = launch_of_nothing();
  launch.blocks = 0;
  const auto report = program->launch(launch);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->blocks, 0);
}

/// Every block finds NaN, also the second on the same host thread.
TEST(Launch, StartsBlocksWithNanInSharedMemory) {
  const char* const text =
      "struct Args { float* out; };\n"
      "extern \"C\" __global__ void weft_kernel(const Args a) {\n"
      "  WEFT_SHARED_MEMORY(memory);\n"
      "  store_global(a.out + blockIdx.x * 32 + threadIdx.x, load_shared<float>(memory + 4 * threadIdx.x));\n"
      "  store_shared(memory + 4 * threadIdx.x, 1.0f);\n"
      "}\n";
  const auto program = built(text);
  ASSERT_NE(program, nullptr);
  std::vector<float> out(128);
  float* const args = out.data();
  emulate::Launch launch{.blocks = 4, .threads = 32, .shared_bytes = 128};
  launch.args = &args;
  launch.args_bytes = sizeof args;
  launch.memory = {region(out, true, "out")};
  const auto report = program->launch(launch);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(faults(*report), "");
  EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](float x) { return std::isnan(x); }));
}

}  // namespace
}  // namespace weft::testing
