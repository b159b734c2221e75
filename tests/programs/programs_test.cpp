#include "compiler/target/target.h"
#include "tests/programs/checks.h"
#include "tests/support/blessed.h"
#include "tests/support/effort.h"
#include "tests/support/places.h"
#include "tests/support/random_program.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

/// Random programs over the whole language, as many as there is time for: a minute in eight cases, two with --all, or
/// WEFT_PROGRAMS_MINUTES. A program that fails is made as small as it gets and written to a file;
/// WEFT_PROGRAM=FILE runs that one alone.
namespace weft::test {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kCases = 8;
const std::vector<std::string> kTargets = {host_target().name, "sm_61"};

std::chrono::duration<double> time_of_a_case() {
  const char* minutes = std::getenv("WEFT_PROGRAMS_MINUTES");
  return std::chrono::duration<double>((minutes != nullptr ? std::atof(minutes) : effort(1.0, 2.0)) * 60 / kCases);
}

fs::path written(const Program& program, const std::string& stage) {
  const fs::path folder = fs::temp_directory_path() / "weft-programs";
  fs::create_directories(folder);
  const fs::path file = folder / fmt::format("{}-{}.weft", stage, program.seed);
  std::ofstream(file) << to_file(program);
  return file;
}

/// The report of a failure: what, where it lies, how to run it, and all of it.
std::string report(const Program& program, const Finding& finding) {
  const bool in_kernel = kTargets.end() != std::find(kTargets.begin(), kTargets.end(), finding.stage);
  const Checks checks{.targets = in_kernel ? std::vector{finding.stage} : std::vector<std::string>{}};
  Reached ignored;
  const auto fails = [&](const Program& p) { return examine(p, checks, ignored).stage == finding.stage; };
  const Program small = shrink(program, fails, 60);
  const fs::path file = written(small, finding.stage);
  return fmt::format("{}: {}\n{}\nagain: WEFT_PROGRAM={} {}\n", finding.stage, examine(small, checks, ignored).what,
                     to_file(small), file.string(), fs::read_symlink("/proc/self/exe").string());
}

void print(const Reached& r) {
  fmt::print("{} programs, {} refused, {} interpreted, {} planned, {} unstable\n", r.programs, r.refused, r.interpreted,
             r.planned, r.unstable);
  for (const auto& [target, times] : r.kernels) fmt::print("  on {}: {}\n", target, times);
  for (const auto& [code, times] : r.codes) fmt::print("  {}: {}\n", code, times);
}

class Programs : public ::testing::TestWithParam<int> {};

TEST_P(Programs, HoldTogether) {
  const auto end = Clock::now() + time_of_a_case();
  Reached reached;
  for (std::uint64_t i = 0; Clock::now() < end; ++i) {
    const std::uint64_t seed = static_cast<std::uint64_t>(GetParam()) + kCases * i;
    // Now and then long enough for several tiles, with less around it.
    const ProgramOptions options = i % 6 == 5 ? ProgramOptions{.most_tokens = 200, .most_heads = 3, .nesting = 2}
                                              : ProgramOptions{.any_dims = i % 3 == 0};
    const Program program = random_program(seed, options);
    // An emulated kernel costs as much as several others.
    const Checks checks{.targets = {kTargets.begin(), kTargets.end() - (i % 5 == 0 ? 0 : 1)}};
    if (const Finding f = examine(program, checks, reached); !f.ok())
      FAIL() << "seed " << seed << ", " << report(program, f);
  }
  print(reached);
  EXPECT_GT(reached.interpreted, reached.programs * 8 / 10) << "the generator writes what the language does not take";
  EXPECT_GT(reached.planned, 0);
  EXPECT_GT(reached.kernels[kTargets[0]], 0);
}

INSTANTIATE_TEST_SUITE_P(, Programs, ::testing::Range(0, kCases));

/// Programs that once failed, as they were shrunk.
TEST(FoundPrograms, HoldTogether) {
  for (const auto& entry : fs::directory_iterator(test::in_checkout("tests/programs/found"))) {
    const auto program = from_file(read_text(entry.path()));
    ASSERT_TRUE(program.ok()) << entry.path();
    Reached reached;
    const Finding f = examine(*program, {.targets = kTargets}, reached);
    EXPECT_TRUE(f.ok()) << entry.path() << ": " << f.stage << ": " << f.what;
  }
}

/// The program of WEFT_PROGRAM, or nothing.
TEST(OneProgram, HoldsTogether) {
  const char* file = std::getenv("WEFT_PROGRAM");
  if (file == nullptr) GTEST_SKIP() << "WEFT_PROGRAM names no file";
  const auto program = from_file(read_text(file));
  ASSERT_TRUE(program.ok()) << program.error().message;
  Reached reached;
  const Finding f = examine(*program, {.targets = kTargets}, reached);
  print(reached);
  EXPECT_TRUE(f.ok()) << f.stage << ": " << f.what;
}

}  // namespace
}  // namespace weft::test
