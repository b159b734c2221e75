#include <weft/c.h>

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>

/// What the C face says of a text without compiling it, and of what a kernel was compiled from.
namespace weft {
namespace {

struct Free {
  void operator()(weft_error* error) const { weft_error_free(error); }
  void operator()(weft_pattern* pattern) const { weft_pattern_free(pattern); }
};
using ErrorPtr = std::unique_ptr<weft_error, Free>;
using PatternPtr = std::unique_ptr<weft_pattern, Free>;

std::pair<PatternPtr, ErrorPtr> check(const char* text, const weft_compile_options* options = nullptr) {
  weft_pattern* pattern = nullptr;
  ErrorPtr error(weft_check(text, text == nullptr ? 0 : std::strlen(text), options, &pattern));
  return {PatternPtr(pattern), std::move(error)};
}

constexpr const char* kScored = R"(
pattern scored(reach: int = 8) {
  input bias: f32[heads, 2 * reach + 1];
  input doc: i32[batch, tokens];
  branch window(reach, 0);
  branch document(doc) & window(reach, 0);
  score s + bias[h, q - k + reach];
})";

TEST(CPatterns, SayWhatTheTextSays) {
  const auto [pattern, error] = check(kScored);
  ASSERT_NE(pattern, nullptr) << weft_error_report(error.get());
  EXPECT_STREQ(weft_pattern_name(pattern.get()), "scored");
  EXPECT_EQ(weft_pattern_lse(pattern.get()), WEFT_LSE_OF_ROWS);
  EXPECT_EQ(weft_pattern_branch_count(pattern.get()), 2);
  ASSERT_EQ(weft_pattern_input_count(pattern.get()), 2u);
  const weft_input_info bias = weft_pattern_input(pattern.get(), 0), doc = weft_pattern_input(pattern.get(), 1);
  EXPECT_STREQ(bias.name, "bias");
  EXPECT_EQ(bias.dtype, WEFT_F32);
  EXPECT_STREQ(doc.name, "doc");
  EXPECT_EQ(doc.dtype, WEFT_I32);
  EXPECT_EQ(doc.rank, 2);
  EXPECT_EQ(weft_pattern_input(pattern.get(), 2).name, nullptr);
  EXPECT_EQ(weft_pattern_warning_count(pattern.get()), 0u);
  EXPECT_STREQ(weft_pattern_warnings_report(pattern.get()), "");
}

TEST(CPatterns, ParametersAreBound) {
  weft_compile_options options = weft_compile_options_init();
  const char* params[] = {"reach=3"};
  options.params = params;
  options.param_count = 1;
  const auto [pattern, error] = check(kScored, &options);
  ASSERT_NE(pattern, nullptr);
  EXPECT_NE(std::string(weft_pattern_text(pattern.get())).find("window(3, 0)"), std::string::npos)
      << weft_pattern_text(pattern.get());
}

TEST(CPatterns, EachModeHasItsLse) {
  const auto lse = [](const char* text) {
    const auto [pattern, error] = check(text);
    EXPECT_NE(pattern, nullptr) << text;
    return weft_pattern_lse(pattern.get());
  };
  EXPECT_EQ(lse("pattern p { keep causal; combine joint detached; }"), WEFT_LSE_OF_ROWS);
  EXPECT_EQ(lse("pattern p { branch causal; branch all; combine sum; }"), WEFT_LSE_OF_BRANCHES);
  EXPECT_EQ(lse("pattern p { branch causal; branch all; combine mean; }"), WEFT_LSE_OF_BRANCHES);
  EXPECT_EQ(lse("pattern p { keep causal; weights sigmoid; }"), WEFT_LSE_NONE);
}

TEST(CPatterns, WarningsHavePlaces) {
  const auto [pattern, error] = check("pattern p {\n  keep window(-2, 6);\n}\n");
  ASSERT_NE(pattern, nullptr) << weft_error_report(error.get());
  ASSERT_GE(weft_pattern_warning_count(pattern.get()), 1u);
  const weft_diagnostic warning = weft_pattern_warning(pattern.get(), 0);
  EXPECT_EQ(warning.code[0], 'W');
  EXPECT_EQ(warning.line, 2u);
  EXPECT_NE(std::string(weft_pattern_warnings_report(pattern.get())).find("^"), std::string::npos);
  EXPECT_EQ(weft_pattern_warning(pattern.get(), 99).code, nullptr);
}

TEST(CPatterns, AllThatIsWrongIsTold) {
  const auto [pattern, error] = check("pattern p {\n  keep causl;\n  branch windw(3, 0);\n}\n");
  EXPECT_EQ(pattern, nullptr);
  ASSERT_EQ(weft_error_diagnostic_count(error.get()), 2u);
  EXPECT_EQ(weft_error_kind_of(error.get()), WEFT_ERROR_USER);
  EXPECT_EQ(weft_error_diagnostic(error.get(), 1).line, 3u);
}

TEST(CPatterns, NothingIsAnErrorToo) {
  EXPECT_STREQ(weft_error_message(check(nullptr).second.get()), "the text is NULL");
  const ErrorPtr nowhere(weft_check("", 0, nullptr, nullptr));
  EXPECT_STREQ(weft_error_message(nowhere.get()), "the place for the pattern is NULL");
  EXPECT_STREQ(weft_pattern_name(nullptr), "");
  EXPECT_STREQ(weft_pattern_text(nullptr), "");
  EXPECT_STREQ(weft_pattern_warnings_report(nullptr), "");
  EXPECT_EQ(weft_pattern_input_count(nullptr), 0u);
  EXPECT_EQ(weft_pattern_branch_count(nullptr), 0);
  EXPECT_EQ(weft_pattern_lse(nullptr), WEFT_LSE_NONE);
  EXPECT_EQ(weft_kernel_pattern(nullptr), nullptr);
  weft_pattern_free(nullptr);
}

TEST(CPatterns, KernelsKnowTheirs) {
  weft_engine_options options = weft_engine_options_init();
  options.no_cache = 1;
  weft_engine* engine = nullptr;
  ASSERT_EQ(weft_engine_create(&options, &engine), nullptr);
  weft_compile_options wanted = weft_compile_options_init();
  wanted.dim = 8;
  wanted.dtype = WEFT_F32;
  wanted.target = "interpreter";
  weft_kernel* kernel = nullptr;
  ASSERT_EQ(weft_compile(engine, kScored, std::strlen(kScored), &wanted, &kernel), nullptr);
  const weft_pattern* pattern = weft_kernel_pattern(kernel);
  EXPECT_STREQ(weft_pattern_name(pattern), "scored");
  EXPECT_STREQ(weft_pattern_text(pattern), weft_kernel_pattern_text(kernel));
  EXPECT_EQ(weft_pattern_input_count(pattern), 2u);
  weft_kernel_destroy(kernel);
  weft_engine_destroy(engine);
}

/// Every text of the library holds patterns, and no name stands in two of them.
TEST(CLibrary, IsInOrder) {
  std::set<std::string> names;
  std::size_t texts = 0;
  for (const char* text = nullptr; (text = weft_library_text(texts)) != nullptr; ++texts) {
    const std::string whole = text;
    for (std::size_t at = whole.find("\npattern "); at != std::string::npos; at = whole.find("\npattern ", at + 1)) {
      const auto name = whole.substr(at + 9, whole.find_first_of(" (", at + 9) - at - 9);
      EXPECT_TRUE(names.insert(name).second) << name << " stands in two texts";
      weft_compile_options options = weft_compile_options_init();
      options.pattern = name.c_str();
      const auto [pattern, error] = check(text, &options);
      EXPECT_NE(pattern, nullptr) << weft_error_report(error.get());
    }
  }
  EXPECT_GT(texts, 10u);
  for (const auto* name : {"dense", "causal", "longnet", "window", "bigbird"})
    EXPECT_TRUE(names.contains(name)) << name;
  EXPECT_EQ(weft_library_text(texts + 1), nullptr);
}

}  // namespace
}  // namespace weft
