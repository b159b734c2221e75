/// S11, S12: what compilers are given holds our own words and numbers only, and programs are started without a shell.

#include "problem.h"
#include "runtime/engine/compilation.h"
#include "runtime/engine/destination.h"
#include "tests/support/places.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

namespace weft::test {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = test::in_checkout("");

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Every name that a user can choose begins with `zq`.
constexpr const char* kMarked = R"(# zqcomment "zqfile.h" */ \ zqbackslash
const zqconst = 5;
pattern zqpattern(zqparam: int = 7, zqscale: real = 0.37251) {
  input zqinput: f32[heads];
  input zqtable: i32[keys];
  let zqset = window(zqparam, zqconst);
  branch zqset;
  branch causal & lag(3);
  keep where(any(zqvar in 0..3: zqtable[k] == zqvar + zqconst));
  score s * zqscale + zqinput[h];
}
)";

std::string emitted(const std::string& text, const std::string& target, const std::string& pattern = {}) {
  const CompileOptions options{
      .pattern = pattern, .dim = 32, .dtype = DType::f32, .target = target, .source_name = "zqsource.weft"};
  auto front = read_pattern({.name = options.source_name, .text = text}, options);
  if (!front) return {};
  auto planned = plan_pattern(std::move(*front), options, find_destination(target)->target);
  return planned ? Compilation(std::move(*planned)).source().text : std::string();
}

class Tokens : public ::testing::TestWithParam<const char*> {};

TEST_P(Tokens, OfTheUserAreNotInTheText) {
  const std::string text = emitted(kMarked, GetParam());
  ASSERT_GT(text.size(), 1000U);
  EXPECT_EQ(text.find("zq"), std::string::npos) << text.substr(text.find("zq"), 60);
  EXPECT_EQ(text.find("backslash"), std::string::npos);
}

/// Nothing that would make a compiler read a file, take an option or assemble what somebody wrote.
TEST_P(Tokens, NeverNameAFile) {
  std::size_t texts = 0;
  for (const auto& item : fs::directory_iterator(kSource / "examples")) {
    if (item.path().extension() != ".weft") continue;
    const std::string text = emitted(text_of(item.path()), GetParam());
    texts += text.empty() ? 0U : 1U;
    // A quoted one would have NVRTC print the file's first line in its log.
    for (auto at = text.find("include"); at != std::string::npos; at = text.find("include", at + 1)) {
      EXPECT_EQ(text.substr(at, text.find('\n', at) - at), "include <cstdint>") << item.path();
    }
    for (const char* word : {"#embed", "#pragma comment", "#line", "__FILE__", "__DATE__", "__TIME__", "__TIMESTAMP__",
                             "_Pragma", "module asm", "source_filename", "weft-", "/home", "/tmp"}) {
      EXPECT_EQ(text.find(word), std::string::npos) << item.path() << ": " << word;
    }
  }
  EXPECT_GT(texts, 5U) << "the control";
}

INSTANTIATE_TEST_SUITE_P(, Tokens, ::testing::Values("cpu:x86-64-v3", "sm_61", "sm_80"), [](const auto& of) {
  return std::regex_replace(std::string(of.param), std::regex("[^a-z0-9]"), "_");
});

TEST(Shell, IsNeverStarted) {
  const std::regex call(R"(\b(system|popen|execlp|execvp|wordexp)\s*\()");
  const auto first_call = [&](const std::string& text) {
    std::smatch found;
    return std::regex_search(text, found, call) ? found.str() : std::string();
  };
  std::size_t files = 0;
  for (const char* folder : {"compiler", "dsl", "codegen", "kernels_cache", "runtime", "tools"}) {
    for (const auto& item : fs::recursive_directory_iterator(kSource / folder)) {
      const auto extension = item.path().extension();
      if (extension != ".cpp" && extension != ".h") continue;
      ++files;
      EXPECT_EQ(first_call(text_of(item.path())), "") << item.path();
    }
  }
  EXPECT_GT(files, 100U);
  EXPECT_EQ(first_call("return std::system(line.c_str());"), "system(") << "the control";
}

}  // namespace
}  // namespace weft::test
