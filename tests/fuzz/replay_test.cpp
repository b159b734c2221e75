#include "fuzz/targets.h"
#include "limits.h"
#include "tests/support/blessed.h"
#include "tests/support/places.h"
#include "tests/support/random_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

/// The corpora of fuzz/, and what else is at hand, through the functions that are fuzzed.
namespace weft::test {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files(const std::vector<const char*>& folders) {
  std::vector<fs::path> out;
  for (const char* folder : folders) {
    for (const auto& entry : fs::directory_iterator(test::in_checkout(folder))) {
      if (entry.is_regular_file() && entry.path().extension() != ".md") out.push_back(entry.path());
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string name_of(const ::testing::TestParamInfo<fs::path>& info) {
  std::string name = info.param.parent_path().filename().string() + "_" + info.param.stem().string();
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

class FrontEnd : public ::testing::TestWithParam<fs::path> {};

TEST_P(FrontEnd, Replay) {
  const std::string text = read_text(GetParam());
  EXPECT_EQ(within_limits([&] { fuzz::front_end(text); }), "");
}

INSTANTIATE_TEST_SUITE_P(, FrontEnd,
                         ::testing::ValuesIn(files({"fuzz/corpus/front_end", "tests/patterns", "examples"})), name_of);

class PlanText : public ::testing::TestWithParam<fs::path> {};

TEST_P(PlanText, Replay) {
  const std::string text = read_text(GetParam());
  EXPECT_EQ(within_limits([&] { fuzz::plan_text(text); }), "");
}

INSTANTIATE_TEST_SUITE_P(, PlanText, ::testing::ValuesIn(files({"fuzz/corpus/plan_text"})), name_of);

class BundleBytes : public ::testing::TestWithParam<fs::path> {};

TEST_P(BundleBytes, Replay) {
  const std::string bytes = read_text(GetParam());
  EXPECT_EQ(within_limits([&] { fuzz::bundle(bytes); }), "");
}

INSTANTIATE_TEST_SUITE_P(, BundleBytes, ::testing::ValuesIn(files({"fuzz/corpus/bundle", "tests/data/bundles"})),
                         name_of);

class EntryBytes : public ::testing::TestWithParam<fs::path> {};

TEST_P(EntryBytes, Replay) {
  const std::string bytes = read_text(GetParam());
  EXPECT_EQ(within_limits([&] { fuzz::entry(bytes); }), "");
}

INSTANTIATE_TEST_SUITE_P(, EntryBytes, ::testing::ValuesIn(files({"fuzz/corpus/entry", "fuzz/corpus/bundle"})),
                         name_of);

/// The targets end a process that they find fault with; these must not.
TEST(Replay, RandomPrograms) {
  for (std::uint64_t seed = 5000; seed < 5200; ++seed) fuzz::front_end(random_program(seed).text);
}

}  // namespace
}  // namespace weft::test
