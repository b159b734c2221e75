/// Memory that runs out at any allocation is an error, wherever it happens: nothing is thrown, nothing is left in a
/// state that keeps the next call from working, and the second try computes what it should.

#include "faults.h"
#include "tests/engine/folder.h"
#include "tests/engine/problem.h"

#include <gtest/gtest.h>
#include <weft/c.h>

#include <algorithm>
#include <functional>

namespace weft::test {
namespace {

constexpr std::int64_t kDim = 16;

CompileOptions options_for(const std::string& target) { return {.dim = kDim, .dtype = DType::f32, .target = target}; }

/// Kinds of the errors of calls that were refused memory, without memory of its own.
class Errors {
 public:
  template <typename T>
  bool ok(const Result<T>& result) {
    if (!result && result.error().kind != ErrorKind::environment) strange_ = true;
    return result.ok();
  }
  void expect_environment(long after) const {
    EXPECT_FALSE(strange_) << "an error that does not say that memory is out, after allocation " << after;
  }

 private:
  bool strange_ = false;
};

/// Calls `refused_at` for every allocation in turn, the first few hundred one by one and then ever fewer, until it says
/// that there were not so many; how many there were.
int each_allocation(long one_by_one, const std::function<bool(long)>& refused_at) {
  int refusals = 0;
  for (long after = 0; refused_at(after) && !::testing::Test::HasFailure(); ++refusals) {
    after += 1 + std::max(0L, after - one_by_one) / 25;
  }
  return refusals;
}

class Memory : public ::testing::Test {
 protected:
  /// Everything that can be asked of an engine and its kernel.
  void use(EngineOptions engine_options, const CompileOptions& options, RunArgs args, Errors& errors) {
    const Engine engine(std::move(engine_options));
    (void)errors.ok(engine.ready());
    const auto kernel = engine.compile(text_, options);
    if (errors.ok(kernel)) {
      (void)errors.ok(kernel->run(args));
      (void)errors.ok(kernel->workspace(shape_));
      (void)errors.ok(kernel->lists(shape_));
      (void)kernel->plan_text();
      (void)kernel->source_text();
      (void)kernel->shared_bytes(2);
    } else {
      (void)report(kernel.error());
    }
    (void)engine.take_warnings();
    (void)engine.cache_stats();
  }

  void sweep(const EngineOptions& engine, const CompileOptions& options, Asking who, long one_by_one) {
    Errors none;
    use(engine, options, expected_.args(), none);  // finds what is searched for once in a process
    none.expect_environment(-1);
    ASSERT_FALSE(std::isnan(expected_.out[0]));
    const int refusals = each_allocation(one_by_one, [&](long after) {
      // What the caller makes, the caller has memory for.
      auto mine = engine;
      Problem problem(1, 64, 2, kDim), again(1, 64, 2, kDim);
      const auto args = problem.args();
      Errors errors, no_more;
      refuse_memory_after(after, who);
      use(std::move(mine), options, args, errors);
      const bool refused = give_memory();
      errors.expect_environment(after);
      use(engine, options, again.args(), no_more);
      EXPECT_EQ(again.out, expected_.out) << "after allocation " << after;
      return refused;
    });
    EXPECT_GT(refusals, 50);
    RecordProperty("refusals", refusals);
  }

  Folder folder_;
  std::string text_ = kLongnet;
  RunShape shape_{.batch = 1, .n_q = 64, .n_k = 64, .heads = 2, .kv_heads = 2};
  Problem expected_{1, 64, 2, kDim};
};

TEST_F(Memory, OfAnInterpretedPattern) {
  sweep({.no_cache = true}, options_for("interpreter"), Asking::weft_and_its_strings, 300);
}

TEST_F(Memory, OfAStoredKernel) {
  sweep({.cache_dir = folder_.path().string(), .threads = 2}, options_for("cpu"), Asking::weft_and_its_strings, 300);
}

TEST_F(Memory, OfAKernelThatIsCompiled) {
  sweep({.no_cache = true, .threads = 2}, options_for("cpu"), Asking::weft, 20);
}

TEST_F(Memory, OfATextThatIsWrong) {
  const Engine engine({.no_cache = true});
  const std::string text = "pattern p { keep cousal; branch window(1, 2, 3, 4); }";
  const int refusals = each_allocation(100000, [&](long after) {
    refuse_memory_after(after);
    const auto kernel = engine.compile(text, {});
    const auto shown = report(kernel.error());
    const bool refused = give_memory();
    EXPECT_FALSE(kernel.ok());
    EXPECT_NE(kernel.error().kind, ErrorKind::internal) << kernel.error().message << " after allocation " << after;
    return refused;
  });
  EXPECT_GT(refusals, 50);
}

/// The same from C, where errors need memory themselves.
TEST_F(Memory, OfTheFaceForC) {
  const auto directory = folder_.path().string();
  const auto use_c = [&](Problem& problem) {
    weft_engine_options engine_options = weft_engine_options_init();
    engine_options.cache_dir = directory.c_str();
    weft_compile_options options = weft_compile_options_init();
    options.dim = kDim;
    options.dtype = WEFT_F32;
    const auto tensor = [](std::vector<float>& data) {
      const std::int64_t extents[] = {1, 64, 2, kDim};
      return weft_dense(data.data(), WEFT_F32, 4, extents);
    };
    weft_run_args args = weft_run_args_init();
    args.q = tensor(problem.q);
    args.k = tensor(problem.k);
    args.v = tensor(problem.v);
    args.out = tensor(problem.out);
    weft_engine* engine = nullptr;
    weft_kernel* kernel = nullptr;
    weft_error* error = weft_engine_create(&engine_options, &engine);
    if (error == nullptr) error = weft_compile(engine, text_.data(), text_.size(), &options, &kernel);
    if (error == nullptr) error = weft_run(kernel, &args);
    const auto kind = error == nullptr ? 0 : static_cast<int>(weft_error_kind_of(error));
    const bool told = error == nullptr || *weft_error_report(error) != '\0';
    weft_error_free(error);
    weft_kernel_destroy(kernel);
    weft_engine_destroy(engine);
    return told ? kind : -1;
  };
  ASSERT_EQ(use_c(expected_), 0);
  const int refusals = each_allocation(100, [&](long after) {
    Problem problem(1, 64, 2, kDim), again(1, 64, 2, kDim);
    refuse_memory_after(after);
    const int kind = use_c(problem);
    const bool refused = give_memory();
    EXPECT_TRUE(kind == 0 || kind == WEFT_ERROR_ENVIRONMENT) << kind << " after allocation " << after;
    EXPECT_EQ(use_c(again), 0);
    EXPECT_EQ(again.out, expected_.out);
    return refused;
  });
  EXPECT_GT(refusals, 50);
}

}  // namespace
}  // namespace weft::test
