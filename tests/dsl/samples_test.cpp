#include "dsl/parse.h"
#include "dsl/printer.h"
#include "tests/support/blessed.h"
#include "texts.h"

#include <gtest/gtest.h>

namespace weft::test {
namespace {

class Sample : public testing::TestWithParam<std::filesystem::path> {
 protected:
  const std::string text_ = read_text(GetParam());
};

TEST_P(Sample, ParsesAndChecksWithoutAWord) {
  const Source source{GetParam().filename().string(), text_};
  for (const Diagnostic& d : findings(source)) ADD_FAILURE() << render(d, source);
}

TEST_P(Sample, MeansTheSameFormatted) {
  const std::string once = formatted(text_);
  EXPECT_EQ(formatted(once), once);
  EXPECT_EQ(print_tree(parsed(once), dsl::Places::hidden), print_tree(parsed(text_), dsl::Places::hidden));
}

INSTANTIATE_TEST_SUITE_P(All, Sample, testing::ValuesIn(sample_files()),
                         [](const auto& sample) { return identifier(sample.param); });

/// The golden cases keep their own layout.
TEST(Samples, AreLaidOutAsTheFormatterDoes) {
  for (const auto& path : sample_files()) {
    if (path.parent_path().filename() != "patterns") continue;
    EXPECT_EQ(formatted(read_text(path)), read_text(path)) << path;
  }
}

}  // namespace
}  // namespace weft::test
