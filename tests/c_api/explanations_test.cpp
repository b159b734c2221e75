#include <weft/c.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

/// What a kernel will do, and what is on the machine, by the C face.
namespace weft {
namespace {

using nlohmann::json;

struct Free {
  void operator()(weft_error* error) const { weft_error_free(error); }
  void operator()(weft_explanation* explanation) const { weft_explanation_free(explanation); }
  void operator()(weft_engine* engine) const { weft_engine_destroy(engine); }
};
using ErrorPtr = std::unique_ptr<weft_error, Free>;
using ExplanationPtr = std::unique_ptr<weft_explanation, Free>;

class CExplanations : public ::testing::Test {
 protected:
  void SetUp() override {
    weft_engine_options options = weft_engine_options_init();
    options.no_cache = 1;
    weft_engine* made = nullptr;
    ASSERT_EQ(weft_engine_create(&options, &made), nullptr);
    engine_.reset(made);
  }

  std::pair<ExplanationPtr, ErrorPtr> explained(const char* text, const weft_explain_options* how,
                                                const weft_compile_options* options = nullptr) {
    weft_explanation* out = nullptr;
    ErrorPtr error(weft_explain(engine_.get(), text, text == nullptr ? 0 : std::strlen(text), options, how, &out));
    return {ExplanationPtr(out), std::move(error)};
  }
  static std::string message_of(const ErrorPtr& error) { return error ? weft_error_message(error.get()) : ""; }

  std::unique_ptr<weft_engine, Free> engine_;
};

TEST_F(CExplanations, CountWhatIsKept) {
  weft_explain_options how = weft_explain_options_init();
  how.batch = 2;
  how.n_q = 100;
  weft_compile_options options = weft_compile_options_init();
  options.heads = 3;
  options.kv_heads = 1;
  options.dim = 16;
  const auto [explanation, error] = explained("pattern p { keep window(2, 0); }", &how, &options);
  ASSERT_NE(explanation, nullptr) << weft_error_report(error.get());
  const auto said = json::parse(weft_explanation_json(explanation.get()));
  EXPECT_EQ(said["pairs"], 2 * 3 * (100 * 3 - 3)) << "but for the first two rows, each row keeps three";
  EXPECT_EQ(said["batch"], 2);
  EXPECT_EQ(said["n_k"], 100);
  EXPECT_EQ(said["kv_heads"], 1);
  EXPECT_EQ(said["dim"], 16);
  EXPECT_GT(said["predicted"]["ms"], 0);
  const std::string text = weft_explanation_text(explanation.get());
  EXPECT_NE(text.find("p on cpu:"), std::string::npos) << text;
  EXPECT_NE(text.find("100 queries, 100 keys, 3 heads, dim 16, f32\n"), std::string::npos) << text;
}

TEST_F(CExplanations, LeaveWhatIsMissingWithTheEngineOnce) {
  weft_engine_options where = weft_engine_options_init();
  where.no_cache = 1;
  where.nvrtc = "/nowhere/libnvrtc.so";
  weft_engine* made = nullptr;
  ASSERT_EQ(weft_engine_create(&where, &made), nullptr);
  engine_.reset(made);
  weft_compile_options options = weft_compile_options_init();
  options.target = "sm_80";
  options.dtype = WEFT_F16;
  options.gradient = 1;
  const auto [explanation, error] = explained("pattern p { keep window(2, 0); }", nullptr, &options);
  ASSERT_NE(explanation, nullptr) << weft_error_report(error.get());
  std::vector<std::string> warnings;
  const auto hear = [](const char* text, void* heard) {
    static_cast<std::vector<std::string>*>(heard)->emplace_back(text);
  };
  ASSERT_EQ(weft_engine_take_warnings(engine_.get(), hear, &warnings), nullptr);
  ASSERT_EQ(warnings.size(), 1) << "two kernels lack the same";
  EXPECT_NE(warnings[0].find("registers and spills are not known"), std::string::npos) << warnings[0];
}

TEST_F(CExplanations, HaveDefaults) {
  const auto [explanation, error] = explained("pattern p { keep causal; }", nullptr);
  ASSERT_NE(explanation, nullptr) << weft_error_report(error.get());
  const auto said = json::parse(weft_explanation_json(explanation.get()));
  EXPECT_EQ(said["n_q"], 4096);
  EXPECT_EQ(said["heads"], 8);
  EXPECT_EQ(said["dim"], 64);
  EXPECT_EQ(said["dtype"], "f32");
  EXPECT_EQ(said["ring"], nullptr);
}

TEST_F(CExplanations, ReadInputsAndSayWhatIsUnknownWithout) {
  const char* const text = "pattern p { input ids: i32[batch, tokens]; keep document(ids); }";
  const std::vector<std::int32_t> ids = {0, 0, 0, 1};
  const std::int64_t extents[] = {1, 4};
  const weft_named_tensor input = {"ids", weft_dense(ids.data(), WEFT_I32, 2, extents)};
  weft_explain_options how = weft_explain_options_init();
  how.n_q = 4;
  auto [without, none] = explained(text, &how);
  ASSERT_NE(without, nullptr) << weft_error_report(none.get());
  EXPECT_EQ(json::parse(weft_explanation_json(without.get()))["pairs"], nullptr);
  how.inputs = &input;
  how.input_count = 1;
  auto [with, error] = explained(text, &how);
  ASSERT_NE(with, nullptr) << weft_error_report(error.get());
  EXPECT_EQ(json::parse(weft_explanation_json(with.get()))["pairs"], 8 * (9 + 1));
}

TEST_F(CExplanations, OfRingsAndGradients) {
  weft_explain_options how = weft_explain_options_init();
  how.n_q = 512;
  how.ranks = 4;
  how.layout = "zigzag";
  auto [ring, error] = explained("pattern p { keep causal; }", &how);
  ASSERT_NE(ring, nullptr) << weft_error_report(error.get());
  const auto said = json::parse(weft_explanation_json(ring.get()))["ring"];
  EXPECT_EQ(said["ranks"], 4);
  EXPECT_EQ(said["layout"], "zigzag");
  EXPECT_EQ(said["bits"], "one device");
  how.ring_memory = 1 << 20;
  auto [cut, none_of_it] = explained("pattern p { keep causal; }", &how);
  ASSERT_NE(cut, nullptr) << weft_error_report(none_of_it.get());
  EXPECT_EQ(json::parse(weft_explanation_json(cut.get()))["ring"]["bits"], "chunks of 64 keys");
  how.ranks = 0;
  weft_compile_options options = weft_compile_options_init();
  options.gradient = 1;
  auto [gradient, none] = explained("pattern p { keep causal; }", &how, &options);
  ASSERT_NE(gradient, nullptr) << weft_error_report(none.get());
  EXPECT_EQ(json::parse(weft_explanation_json(gradient.get()))["backward"]["products"], 5);
}

TEST_F(CExplanations, AreRefusedInWords) {
  weft_explain_options how = weft_explain_options_init();
  const char* const text = "pattern p { keep causal; }";
  const auto refused = [&](const char* of = nullptr, const weft_compile_options* options = nullptr) {
    const auto [explanation, error] = explained(of == nullptr ? text : of, &how, options);
    EXPECT_EQ(explanation, nullptr);
    return message_of(error);
  };
  how.n_q = -1;
  EXPECT_EQ(refused(), "weft_explain_options::n_q is -1; expected 0 or more");
  how.n_q = 64;
  how.ranks = 3;
  how.layout = "snail";
  EXPECT_EQ(refused(), "ring: 'snail' is not a layout");
  how.layout = nullptr;
  EXPECT_EQ(refused("pattern p { keep causal; ring 2; }"), "ring 3: the pattern says 'ring 2'");
  how.ranks = 1'000'000;
  EXPECT_EQ(refused(), "ring 1000000: expected from 1 to 4096 ranks");
  how.ranks = 2;
  how.n_q = 512;
  how.ring_memory = 1 << 20;
  weft_compile_options options = weft_compile_options_init();
  options.gradient = 1;
  EXPECT_EQ(refused(nullptr, &options),
            "gradients of a ring want all rows in memory at once that they need; give more memory, or more ranks");
  how.n_q = 64;
  how.ranks = 0;
  options = weft_compile_options_init();
  options.target = "interpreter";
  EXPECT_EQ(refused(nullptr, &options), "the interpreter has no plan; explain another target, such as cpu");
  const weft_named_tensor unknown = {"ids", {}};
  how.inputs = &unknown;
  how.input_count = 1;
  EXPECT_EQ(refused(), "p has no input 'ids'");
  EXPECT_EQ(message_of(explained(nullptr, nullptr).second), "the text is NULL");
  ErrorPtr no_engine(weft_explain(nullptr, text, std::strlen(text), nullptr, nullptr, nullptr));
  EXPECT_EQ(message_of(no_engine), "the place for the explanation is NULL");
}

TEST(CDoctor, NamesWhatIsThereAndWhatIsNot) {
  weft_explanation* out = nullptr;
  const ErrorPtr error(weft_doctor(nullptr, &out));
  const ExplanationPtr explanation(out);
  ASSERT_NE(explanation, nullptr);
  std::vector<std::string> names;
  const auto said = json::parse(weft_explanation_json(out));
  for (const auto& item : said["items"]) names.push_back(item["name"]);
  EXPECT_EQ(names[0], "cpu");
  EXPECT_EQ(names[1], "llvm");
  EXPECT_EQ(names[2], "store");
  EXPECT_EQ(std::string(weft_explanation_text(out)).substr(0, 6), "+ cpu ");
}

}  // namespace
}  // namespace weft
