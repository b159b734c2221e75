#include "runtime/c_api/versioned.h"

#include <weft/c.h>
#include <weft/weft.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

extern "C" {
size_t size_of_options_in_c(void);
weft_error* compile_in_c(weft_engine* engine, const char* text, weft_kernel** kernel);
}

/// The C face: what may be passed, what errors say, and that it computes what the C++ face computes.
namespace weft {
namespace {

struct FreeError {
  void operator()(weft_error* error) const { weft_error_free(error); }
};
using ErrorPtr = std::unique_ptr<weft_error, FreeError>;

std::string message(weft_error* error) {
  const ErrorPtr owned(error);
  return weft_error_message(error);
}

weft_engine* engine_in_memory() {
  weft_engine_options options = weft_engine_options_init();
  options.no_cache = 1;
  weft_engine* engine = nullptr;
  EXPECT_EQ(message(weft_engine_create(&options, &engine)), "");
  return engine;
}

constexpr const char* kCausal = "pattern p { keep causal; }";

class CApi : public ::testing::Test {
 protected:
  void SetUp() override {
    engine = engine_in_memory();
    ASSERT_NE(engine, nullptr);
  }
  void TearDown() override {
    weft_kernel_destroy(kernel);
    weft_engine_destroy(engine);
  }
  std::string compile(const char* text, const char* target = "interpreter") {
    weft_compile_options options = weft_compile_options_init();
    options.dim = kDim;
    options.dtype = WEFT_F32;
    options.target = target;
    return message(weft_compile(engine, text, std::strlen(text), &options, &kernel));
  }
  weft_run_args args() {
    const std::int64_t extents[] = {1, kTokens, 1, kDim};
    weft_run_args made = weft_run_args_init();
    made.q = weft_dense(q.data(), WEFT_F32, 4, extents);
    made.k = weft_dense(k.data(), WEFT_F32, 4, extents);
    made.v = weft_dense(v.data(), WEFT_F32, 4, extents);
    made.out = weft_dense(out.data(), WEFT_F32, 4, extents);
    return made;
  }

  static constexpr std::int64_t kTokens = 40, kDim = 8;
  static std::vector<float> numbers(int step) {
    std::vector<float> made(kTokens * kDim);
    for (std::size_t i = 0; i < made.size(); ++i) made[i] = static_cast<float>(static_cast<int>(i) * step % 17 - 8) / 8;
    return made;
  }
  std::vector<float> q = numbers(5), k = numbers(7), v = numbers(3), out = std::vector<float>(kTokens * kDim, NAN);
  weft_engine* engine = nullptr;
  weft_kernel* kernel = nullptr;
};

TEST_F(CApi, ComputesWhatTheOtherFaceComputes) {
  ASSERT_EQ(compile(kCausal), "");
  const weft_run_args given = args();
  ASSERT_EQ(message(weft_run(kernel, &given)), "");
  std::vector<float> want(out.size());
  const Engine other{{.no_cache = true}};
  const auto same = other.compile(kCausal, {.dim = kDim, .dtype = DType::f32, .target = "interpreter"});
  ASSERT_TRUE(same.ok());
  const auto view = [](const std::vector<float>& x) { return dense_view(x.data(), DType::f32, {1, kTokens, 1, kDim}); };
  ASSERT_TRUE(same->run({.q = view(q),
                         .k = view(k),
                         .v = view(v),
                         .out = dense_output(want.data(), DType::f32, {1, kTokens, 1, kDim})})
                  .ok());
  EXPECT_EQ(out, want);
  EXPECT_STREQ(weft_kernel_target(kernel), "interpreter");
  EXPECT_NE(std::string(weft_kernel_pattern_text(kernel)).find("causal"), std::string::npos);
  EXPECT_STREQ(weft_version(), version());
}

TEST_F(CApi, SlicesAreRowsOfTheWhole) {
  ASSERT_EQ(compile(kCausal), "");
  weft_run_args given = args();
  ASSERT_EQ(message(weft_run(kernel, &given)), "");
  const std::vector<float> whole = std::exchange(out, std::vector<float>(out.size(), NAN));
  given = args();
  constexpr std::int64_t kFirst = 11, kRows = 9;
  given.q.data = q.data() + kFirst * kDim;
  given.q.extent[1] = given.out.extent[1] = kRows;
  given.slice_first = kFirst;
  given.slice_of = kTokens;
  ASSERT_EQ(message(weft_run(kernel, &given)), "");
  EXPECT_TRUE(std::equal(out.begin(), out.begin() + kRows * kDim, whole.begin() + kFirst * kDim));
  EXPECT_TRUE(std::isnan(out[kRows * kDim]));
  std::size_t bytes = 1;
  EXPECT_EQ(message(weft_kernel_workspace(kernel, {1, kRows, kTokens, 1, 1, kFirst, kTokens, 0, 0, 0}, 1, &bytes)), "");
  EXPECT_NE(message(weft_kernel_workspace(kernel, {1, kRows, kTokens, 1, 1, kTokens, kTokens, 0, 0, 0}, 1, &bytes)),
            "");
  double ms = -1;
  EXPECT_EQ(message(weft_kernel_prepare(kernel, {1, kRows, kTokens, 1, 1, kFirst, kTokens, 0, 0, 0}, &ms)), "");
  EXPECT_EQ(ms, 0) << "this kernel ran";
  EXPECT_EQ(message(weft_kernel_prepare(kernel, {1, kRows, kTokens, 1, 1, kFirst, kTokens, 0, 0, 0}, nullptr)), "");
}

/// One of two heads, of which the second alone says something.
TEST_F(CApi, SlicesOfHeadsKnowTheirNumber) {
  ASSERT_EQ(compile("pattern p { keep where(h == 1); }"), "");
  weft_run_args given = args();
  given.head_of = 2;
  ASSERT_EQ(message(weft_run(kernel, &given)), "");
  EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](float x) { return x == 0; })) << "head 0 keeps nothing";
  given.head_first = 1;
  ASSERT_EQ(message(weft_run(kernel, &given)), "");
  EXPECT_FALSE(std::any_of(out.begin(), out.end(), [](float x) { return x == 0; }));
  given.head_first = 2;
  EXPECT_EQ(message(weft_run(kernel, &given)),
            "the slice has 1 heads from head 2 on, of 2; it must lie in one of 1 to 65535");
  std::size_t bytes = 0;
  EXPECT_EQ(message(weft_kernel_workspace(kernel, {1, kTokens, kTokens, 1, 1, 0, 0, 1, 2, 0}, 1, &bytes)), "");
  EXPECT_NE(message(weft_kernel_workspace(kernel, {1, kTokens, kTokens, 1, 1, 0, 0, 2, 2, 0}, 1, &bytes)), "");
}

/// Each field arrives as what it is called: where a row has one key, O is V and LSE the score.
TEST_F(CApi, GradientsOfEachTensor) {
  weft_compile_options options = weft_compile_options_init();
  options.dim = kDim;
  options.dtype = WEFT_F32;
  options.target = "interpreter";
  options.gradient = 1;
  const char* const text = "pattern p { input bias: f32[1]; keep window(0, 0); score s + bias[0]; scale 2; }";
  ASSERT_EQ(message(weft_compile(engine, text, std::strlen(text), &options, &kernel)), "");
  const std::vector<float> d_out = numbers(11), d_lse = numbers(13), bias = {0};
  std::vector<float> lse(kTokens), dq(d_out.size(), NAN), dk = dq, dv = dq, d_bias = {NAN};
  const std::int64_t extents[] = {1, kTokens, 1, kDim}, rows[] = {1, 1, kTokens}, one[] = {1};
  const weft_named_tensor input = {"bias", weft_dense(bias.data(), WEFT_F32, 1, one)};
  const weft_named_tensor d_input = {"bias", weft_dense(d_bias.data(), WEFT_F32, 1, one)};
  weft_run_args given = args();
  given.inputs = &input;
  given.input_count = 1;
  given.lse = weft_dense(lse.data(), WEFT_F32, 3, rows);
  given.d_out = weft_dense(d_out.data(), WEFT_F32, 4, extents);
  given.d_lse = weft_dense(d_lse.data(), WEFT_F32, 3, rows);
  given.dq = weft_dense(dq.data(), WEFT_F32, 4, extents);
  given.dk = weft_dense(dk.data(), WEFT_F32, 4, extents);
  given.dv = weft_dense(dv.data(), WEFT_F32, 4, extents);
  given.d_input_count = 1;
  EXPECT_EQ(message(weft_run(kernel, &given)), "weft_run_args::d_inputs is NULL");
  given.d_inputs = &d_input;
  ASSERT_EQ(message(weft_run(kernel, &given)), "");
  float sum = 0;
  for (std::size_t i = 0; i < dq.size(); ++i) {
    const float of_row = d_lse[i / kDim];
    EXPECT_FLOAT_EQ(dq[i], 2 * of_row * k[i]);
    EXPECT_FLOAT_EQ(dk[i], 2 * of_row * q[i]);
    if (i % kDim == 0) sum += of_row;
  }
  EXPECT_EQ(dv, d_out);
  EXPECT_FLOAT_EQ(d_bias[0], sum);
}

TEST_F(CApi, KernelsOutliveTheirEngine) {
  ASSERT_EQ(compile(kCausal), "");
  weft_engine_destroy(engine);
  engine = nullptr;
  const weft_run_args given = args();
  EXPECT_EQ(message(weft_run(kernel, &given)), "");
  EXPECT_FALSE(std::isnan(out.back()));
}

TEST_F(CApi, ErrorsPointIntoTheText) {
  weft_compile_options options = weft_compile_options_init();
  options.source_name = "mine.weft";
  const std::string text = "pattern p {\n  keep causl;\n}\n";
  const ErrorPtr error(weft_compile(engine, text.data(), text.size(), &options, &kernel));
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(kernel, nullptr);
  EXPECT_EQ(weft_error_kind_of(error.get()), WEFT_ERROR_USER);
  ASSERT_EQ(weft_error_diagnostic_count(error.get()), 1U);
  const weft_diagnostic first = weft_error_diagnostic(error.get(), 0);
  EXPECT_STREQ(first.code, "E0201");
  EXPECT_EQ(first.line, 2U);
  EXPECT_EQ(first.column, 8U);
  EXPECT_EQ(text.substr(first.begin, first.end - first.begin), "causl");
  const std::string report = weft_error_report(error.get());
  EXPECT_NE(report.find("mine.weft:2:8"), std::string::npos) << report;
  EXPECT_EQ(weft_error_diagnostic(error.get(), 1).code, nullptr);
}

/// What it does stands in tests/cuda/texts_test.cpp; here, that it comes through as it was given.
TEST_F(CApi, TheFirstLaunchIsTold) {
  const weft_run_shape wrong = {1, 4, 6, 2, 4, 0, 0, 0, 0, 0};
  weft_compile_options options = weft_compile_options_init();
  options.dim = 64;
  options.dtype = WEFT_F16;
  options.target = "sm_80";
  options.shape = &wrong;
  EXPECT_NE(message(weft_compile(engine, kCausal, std::strlen(kCausal), &options, &kernel))
                .find("heads is 2, which is no multiple of kv_heads, 4"),
            std::string::npos);
}

TEST_F(CApi, NothingThatIsMissingCrashes) {
  ASSERT_EQ(compile(kCausal), "");
  const weft_run_args given = args();
  std::size_t bytes = 0;
  weft_kernel* other = nullptr;
  EXPECT_NE(message(weft_engine_create(nullptr, nullptr)), "");
  EXPECT_NE(message(weft_engine_take_warnings(nullptr, nullptr, nullptr)), "");
  EXPECT_NE(message(weft_engine_take_warnings(engine, nullptr, nullptr)), "");
  EXPECT_NE(message(weft_compile(nullptr, kCausal, 1, nullptr, &other)), "");
  EXPECT_NE(message(weft_compile(engine, nullptr, 0, nullptr, &other)), "");
  EXPECT_NE(message(weft_compile(engine, kCausal, 1, nullptr, nullptr)), "");
  EXPECT_NE(message(weft_run(nullptr, &given)), "");
  EXPECT_NE(message(weft_run(kernel, nullptr)), "");
  EXPECT_NE(message(weft_kernel_workspace(kernel, {}, 0, nullptr)), "");
  EXPECT_NE(message(weft_kernel_workspace(nullptr, {}, 0, &bytes)), "");
  EXPECT_NE(message(weft_kernel_prepare(kernel, {}, nullptr)), "");
  EXPECT_NE(message(weft_kernel_prepare(nullptr, {}, nullptr)), "");
  EXPECT_NE(message(weft_kernel_lists(kernel, {}, nullptr, 0, nullptr, nullptr)), "");
  weft_run_args empty = weft_run_args_init();
  EXPECT_NE(message(weft_run(kernel, &empty)), "");
  empty = given;
  empty.input_count = 3;
  EXPECT_NE(message(weft_run(kernel, &empty)), "");
  empty = given;
  empty.q.dtype = static_cast<weft_dtype>(6 + 1);
  EXPECT_NE(message(weft_run(kernel, &empty)), "");
  empty = given;
  empty.k.rank = 9;
  EXPECT_NE(message(weft_run(kernel, &empty)), "");
  weft_error_free(nullptr);
  weft_kernel_destroy(nullptr);
  weft_engine_destroy(nullptr);
  EXPECT_STREQ(weft_error_message(nullptr), "");
  EXPECT_STREQ(weft_kernel_target(nullptr), "");
  EXPECT_EQ(weft_engine_cache_stats(nullptr).misses, 0U);
}

TEST_F(CApi, RunErrorsNameTheTensor) {
  ASSERT_EQ(compile(kCausal), "");
  weft_run_args given = args();
  given.v.extent[1] = 3;
  EXPECT_EQ(message(weft_run(kernel, &given)), "v, dimension 1 (tokens): the extent is 3; expected 40, as in k");
  EXPECT_TRUE(std::isnan(out.front())) << "something was written";
}

TEST_F(CApi, TheHeaderIsC) {
  EXPECT_EQ(size_of_options_in_c(), sizeof(weft_engine_options));
  EXPECT_EQ(message(compile_in_c(engine, kCausal, &kernel)), "");
  EXPECT_NE(kernel, nullptr);
}

TEST_F(CApi, CountsLookups) {
  ASSERT_EQ(compile(kCausal, "cpu"), "");
  weft_kernel_destroy(kernel);
  kernel = nullptr;
  ASSERT_EQ(compile(kCausal, "cpu"), "");
  EXPECT_EQ(weft_kernel_origin(kernel), WEFT_FROM_MEMORY);
  const weft_cache_stats stats = weft_engine_cache_stats(engine);
  EXPECT_EQ(stats.compiled, 1U);
  EXPECT_EQ(stats.memory_hits, 1U);
}

TEST_F(CApi, ManyThreadsShareAnEngine) {
  std::vector<std::thread> threads;
  std::array<weft_kernel*, 8> kernels{};
  for (auto& made : kernels) {
    threads.emplace_back([&] { EXPECT_EQ(message(compile_in_c(engine, kCausal, &made)), ""); });
  }
  for (auto& thread : threads) thread.join();
  for (auto* made : kernels) weft_kernel_destroy(made);
}

TEST(CApiLists, AreToldOneByOne) {
  weft_engine* engine = engine_in_memory();
  weft_kernel* kernel = nullptr;
  const std::string text = "pattern p { keep blocks(4, random(2, seed: 1)); }";
  weft_compile_options options = weft_compile_options_init();
  options.dim = 8;
  options.dtype = WEFT_F32;
  ASSERT_EQ(message(weft_compile(engine, text.data(), text.size(), &options, &kernel)), "");
  std::vector<weft_chosen_list> lists;
  const auto visit = [](const weft_chosen_list* list, void* context) {
    static_cast<std::vector<weft_chosen_list>*>(context)->push_back(*list);
  };
  ASSERT_EQ(message(weft_kernel_lists(kernel, {1, 16, 16, 1, 1, 0, 0, 0, 0, 0}, nullptr, 0, visit, &lists)), "");
  ASSERT_EQ(lists.size(), 1U);
  EXPECT_EQ(lists[0].block, 4);
  EXPECT_EQ(lists[0].extent[2], 4);
  EXPECT_EQ(lists[0].extent[3], 2);
  weft_kernel_destroy(kernel);
  weft_engine_destroy(engine);
}

/// A struct that grew by a field since the caller was compiled.
struct Options {
  std::size_t size;
  int first;
  int second;
};
struct Newer {
  std::size_t size;
  int first, second, third, fourth;
};

TEST(VersionedStructs, OlderCallersGetDefaults) {
  const struct {
    std::size_t size;
    int first;
    int padding;
  } older{.size = sizeof(std::size_t) + sizeof(int), .first = 7, .padding = 99};
  const auto read = c_api::read_versioned(reinterpret_cast<const Options*>(&older), "options", Options{0, 1, 2});
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->first, 7);
  EXPECT_EQ(read->second, 2) << "read beyond what the caller has";
}

TEST(VersionedStructs, NewerCallersMaySetOnlyWhatIsKnown) {
  Newer newer{.size = sizeof(Newer), .first = 7, .second = 8, .third = 0, .fourth = 0};
  const auto read = [&] {
    return c_api::read_versioned(reinterpret_cast<const Options*>(&newer), "options", Options{0, 1, 2});
  };
  ASSERT_TRUE(read().ok());
  EXPECT_EQ(read()->second, 8);
  newer.fourth = 1;
  ASSERT_FALSE(read().ok());
  EXPECT_NE(read().error().message.find("does not know"), std::string::npos);
}

TEST(VersionedStructs, SizesThatNoVersionHadAreRefused) {
  for (std::size_t size : {std::size_t{0}, std::size_t{3}, std::size_t{1} << 40}) {
    const Options options{size, 1, 2};
    EXPECT_FALSE(c_api::read_versioned(&options, "options", Options{0, 1, 2}).ok()) << size;
  }
  const auto none = c_api::read_versioned<Options>(nullptr, "options", Options{0, 1, 2});
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->second, 2);
}

TEST_F(CApi, ErrorsLookTheSameFromCpp) {
  const char* text = "pattern p { keep cousal; }";
  const Engine cpp({.no_cache = true});
  const auto wrong = cpp.compile(text, {.dim = kDim, .dtype = DType::f32});
  ASSERT_FALSE(wrong.ok());
  const auto shown = report(wrong.error(), {.name = "<pattern>", .text = text});
  EXPECT_NE(shown.find("^^^^^^"), std::string::npos) << shown;
  EXPECT_NE(shown.find("help: "), std::string::npos) << shown;
  weft_compile_options options = weft_compile_options_init();
  const ErrorPtr error(weft_compile(engine, text, std::strlen(text), &options, &kernel));
  EXPECT_EQ(shown, weft_error_report(error.get()));
  // Without the text, and with another one, there is what there is to say.
  EXPECT_NE(report(wrong.error()).find(wrong.error().message), std::string::npos);
  EXPECT_NE(report(wrong.error(), {.name = "other", .text = "x"}).find(wrong.error().message), std::string::npos);
  EXPECT_EQ(report({.kind = ErrorKind::environment, .message = "no", .notes = {"a", "b"}}),
            "error: no\n  = note: a\n  = note: b\n");
}

}  // namespace
}  // namespace weft
