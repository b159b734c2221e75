/// Numbers that nobody means: each field of each public struct with each of them is one error, in milliseconds, or
/// something that can be done.

#include "runtime/engine/engine_checks.h"
#include "tests/engine/problem.h"

#include <gtest/gtest.h>
#include <weft/c.h>

#include <chrono>
#include <cstring>
#include <functional>

namespace weft::test {
namespace {

constexpr std::int64_t kHostile[] = {0,
                                     -1,
                                     1,
                                     65'535,
                                     65'536,
                                     (std::int64_t{1} << 31) - 1,
                                     std::int64_t{1} << 31,
                                     (std::int64_t{1} << 32) + 1,
                                     std::int64_t{1} << 40,
                                     std::numeric_limits<std::int64_t>::max(),
                                     std::numeric_limits<std::int64_t>::min()};

/// The longest that a call may take; generous, as machines that test are busy.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::chrono::milliseconds kLongest{30'000};
#else
constexpr std::chrono::milliseconds kLongest{2000};
#endif

/// Calls `work` for each number; an error is to be a user's or the environment's, and in time.
template <typename Work>
void each(const std::string& field, const Work& work) {
  for (const auto value : kHostile) {
    const auto begin = std::chrono::steady_clock::now();
    const auto error = work(value);
    const auto took = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(took, kLongest) << field << " " << value;
    if (!error) continue;
    EXPECT_NE(static_cast<int>(error->kind), static_cast<int>(ErrorKind::internal))
        << field << " " << value << ": " << error->message;
    EXPECT_NE(error->message, "") << field << " " << value;
  }
}

template <typename T>
std::optional<Error> error_of(const Result<T>& result) {
  return result ? std::nullopt : std::optional(result.error());
}

class Values : public ::testing::TestWithParam<const char*> {
 protected:
  static constexpr std::int64_t kDim = 16;

  Result<Kernel> compile(const char* text, bool paged = false) const {
    return engine_.compile(
        text, {.dim = kDim, .dtype = DType::f32, .branch_lse = true, .paged = paged, .target = GetParam()});
  }

  /// Each number of a view, and its type. `run` launches where a change of the arguments says that it may.
  template <typename Tensor, typename Run>
  static void each_of_view(const std::string& name, const Tensor& tensor, const Run& run) {
    for (std::size_t axis = 0; axis < kMaxRank; ++axis) {
      for (const bool stride : {false, true}) {
        each(name + (stride ? " stride " : " extent ") + std::to_string(axis), [&](std::int64_t value) {
          return run([&](RunArgs& args) {
            auto& view = *tensor(args);
            auto& number = stride ? view.stride[axis] : view.extent[axis];
            if (stride && view.extent[axis] > 1 && value != 0 && std::abs(value >> 1) < (std::int64_t{1} << 60))
              return false;
            number = value;
            return true;
          });
        });
      }
    }
    each(name + " rank", [&](std::int64_t value) {
      return run([&](RunArgs& args) {
        tensor(args)->rank = static_cast<int>(value);
        return true;
      });
    });
    each(name + " dtype", [&](std::int64_t value) {
      return run([&](RunArgs& args) {
        tensor(args)->dtype = static_cast<DType>(value & 255);
        return true;
      });
    });
  }

  Engine engine_{{.no_cache = true}};
};

TEST_P(Values, OfShapes) {
  for (const char* text : {kLongnet, "pattern p { branch blocks(4, random(2)); combine sum; branch causal; }"}) {
    const auto kernel = compile(text);
    ASSERT_TRUE(kernel.ok()) << kernel.error().message;
    const std::pair<const char*, std::int64_t RunShape::*> fields[] = {{"batch", &RunShape::batch},
                                                                       {"n_q", &RunShape::n_q},
                                                                       {"n_k", &RunShape::n_k},
                                                                       {"heads", &RunShape::heads},
                                                                       {"kv_heads", &RunShape::kv_heads}};
    for (const auto& [name, field] : fields) {
      const auto shape_with = [member = field](std::int64_t value) {
        RunShape shape{.batch = 1, .n_q = 64, .n_k = 64, .heads = 2, .kv_heads = 1};
        shape.*member = value;
        return shape;
      };
      each(name, [&](std::int64_t value) { return error_of(kernel->workspace(shape_with(value))); });
      each(name, [&](std::int64_t value) { return error_of(kernel->lists(shape_with(value))); });
    }
    const RunShape shape{.batch = 1, .n_q = 64, .n_k = 64, .heads = 2, .kv_heads = 1};
    each("threads", [&](std::int64_t n) { return error_of(kernel->workspace(shape, static_cast<int>(n))); });
    each("offset", [&](std::int64_t n) { return error_of(kernel->lists(shape, std::span(&n, 1))); });
  }
}

/// Extents and strides of every tensor, except such as would be memory that is not there.
TEST_P(Values, OfTensors) {
  const auto kernel = compile(kLongnet);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  std::vector<float> branches(3 * 2 * 32);
  const auto run = [&](const std::function<bool(RunArgs&)>& spoil) -> std::optional<Error> {
    Problem problem(1, 32, 2, kDim);
    auto args = problem.args();
    args.branch_lse = dense_output(branches.data(), DType::f32, {3, 1, 2, 32});
    return spoil(args) ? error_of(kernel->run(args)) : std::nullopt;
  };
  const std::function<View<const void*>*(RunArgs&)> inputs[] = {
      [](RunArgs& a) { return &a.q; }, [](RunArgs& a) { return &a.k; }, [](RunArgs& a) { return &a.v; }};
  const std::function<View<void*>*(RunArgs&)> outputs[] = {
      [](RunArgs& a) { return &a.out; }, [](RunArgs& a) { return &a.lse; }, [](RunArgs& a) { return &a.branch_lse; }};
  for (const auto& input : inputs) each_of_view("input", input, run);
  for (const auto& output : outputs) each_of_view("output", output, run);
}

TEST_P(Values, OfGradients) {
  const auto kernel =
      engine_.compile(kLongnet, {.dim = kDim, .dtype = DType::f32, .gradient = true, .target = GetParam()});
  if (!kernel) GTEST_SKIP() << kernel.error().message;
  const auto run = [&](const std::function<bool(RunArgs&)>& spoil) -> std::optional<Error> {
    Problem problem(1, 32, 2, kDim), gradients(1, 32, 2, kDim);
    std::vector<float> branches(3 * 2 * 32), d_out(problem.q.size()), d_lse(problem.lse.size());
    auto args = problem.args();
    args.branch_lse = dense_output(branches.data(), DType::f32, {3, 1, 2, 32});
    args.d_out = dense_view(d_out.data(), DType::f32, {1, 32, 2, kDim});
    args.d_lse = dense_view(d_lse.data(), DType::f32, {1, 2, 32});
    args.dq = dense_output(gradients.q.data(), DType::f32, {1, 32, 2, kDim});
    args.dk = dense_output(gradients.k.data(), DType::f32, {1, 32, 2, kDim});
    args.dv = dense_output(gradients.v.data(), DType::f32, {1, 32, 2, kDim});
    return spoil(args) ? error_of(kernel->run(args)) : std::nullopt;
  };
  EXPECT_FALSE(run([](RunArgs&) { return true; }));
  const std::function<View<const void*>*(RunArgs&)> inputs[] = {[](RunArgs& a) { return &a.d_out; },
                                                                [](RunArgs& a) { return &a.d_lse; }};
  const std::function<View<void*>*(RunArgs&)> outputs[] = {
      [](RunArgs& a) { return &a.out; }, [](RunArgs& a) { return &a.lse; }, [](RunArgs& a) { return &a.branch_lse; },
      [](RunArgs& a) { return &a.dq; },  [](RunArgs& a) { return &a.dk; },  [](RunArgs& a) { return &a.dv; }};
  for (const auto& input : inputs) each_of_view("input", input, run);
  for (const auto& output : outputs) each_of_view("output", output, run);
}

TEST_P(Values, OfLaunches) {
  const auto kernel = compile(kCausal);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  const auto run = [&](const std::function<void(RunArgs&)>& spoil) {
    Problem problem(1, 32, 2, kDim);
    auto args = problem.args();
    spoil(args);
    return error_of(kernel->run(args));
  };
  each("threads", [&](std::int64_t n) { return run([&](RunArgs& a) { a.threads = static_cast<int>(n); }); });
  each("offset", [&](std::int64_t n) { return run([&](RunArgs& a) { a.offset = std::span(&n, 1); }); });
  each("seed",
       [&](std::int64_t n) { return run([&](RunArgs& a) { a.dropout_seed = static_cast<std::uint64_t>(n); }); });
  each("cu", [&](std::int64_t n) {
    const std::int64_t cu[] = {0, n, 32};
    return run([&](RunArgs& a) { a.cu_q = a.cu_k = cu; });
  });
  const std::function<void(RunArgs&)> nothing[] = {
      [](RunArgs& a) { a.inputs = std::span(static_cast<const NamedInput*>(nullptr), 3); },
      [](RunArgs& a) { a.offset = std::span(static_cast<const std::int64_t*>(nullptr), 1); },
      [](RunArgs& a) { a.cu_q = std::span(static_cast<const std::int64_t*>(nullptr), 3); },
      [](RunArgs& a) { a.cu_k = std::span(static_cast<const std::int64_t*>(nullptr), 3); },
      [](RunArgs& a) { a.kv_lengths = std::span(static_cast<const std::int64_t*>(nullptr), 3); },
      [](RunArgs& a) { a.lists = std::span(static_cast<const OutputView*>(nullptr), 3); },
      [](RunArgs& a) { a.d_inputs = std::span(static_cast<const NamedOutput*>(nullptr), 3); },
      [](RunArgs& a) { a.workspace = std::span(static_cast<std::byte*>(nullptr), 3); }};
  for (const auto& spoil : nothing) {
    const auto error = run(spoil);
    ASSERT_TRUE(error);
    EXPECT_NE(error->message.find("no data"), std::string::npos) << error->message;
  }
}

/// A row of keys that is one in memory, as often as there are numbers for keys.
TEST_P(Values, OfTheLongestSequence) {
  const auto kernel = compile("pattern p { branch window(3, 0); }");
  ASSERT_TRUE(kernel.ok());
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  std::vector<float> q(kDim, 1), row(kDim, 0.5F), out(kDim);
  RunArgs args{.q = dense_view(q.data(), DType::f32, {1, 1, 1, kDim}),
               .k = dense_view(row.data(), DType::f32, {1, 1, 1, kDim}),
               .v = dense_view(row.data(), DType::f32, {1, 1, 1, kDim}),
               .out = dense_output(out.data(), DType::f32, {1, 1, 1, kDim})};
  for (auto* view : {&args.k, &args.v}) view->extent[1] = kMost, view->stride[1] = 0;
  const auto status = kernel->run(args);
  if (status) {
    EXPECT_EQ(out, row);
  } else {
    EXPECT_NE(static_cast<int>(status.error().kind), static_cast<int>(ErrorKind::internal)) << status.error().message;
  }
  for (auto* view : {&args.k, &args.v}) view->extent[1] = kMost + 1;
  EXPECT_FALSE(kernel->run(args).ok());
}

TEST_P(Values, OfPages) {
  if (std::strcmp(GetParam(), "interpreter") == 0) GTEST_SKIP() << "the interpreter takes no pages";
  const auto kernel = compile(kCausal, true);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  constexpr std::int64_t kPages = 4, kPage = 8;
  const auto run = [&](std::int64_t page, std::int64_t length, const std::function<void(RunArgs&)>& spoil) {
    auto keys = numbers(kPages * kPage * 2 * kDim, 1), queries = numbers(8 * 2 * kDim, 2);
    std::vector<float> out(queries.size());
    const std::int32_t table[] = {3, static_cast<std::int32_t>(page), 0};
    RunArgs args{.q = dense_view(queries.data(), DType::f32, {1, 8, 2, kDim}),
                 .k = dense_view(keys.data(), DType::f32, {kPages, kPage, 2, kDim}),
                 .v = dense_view(keys.data(), DType::f32, {kPages, kPage, 2, kDim}),
                 .out = dense_output(out.data(), DType::f32, {1, 8, 2, kDim}),
                 .pages = dense_view(table, DType::i32, {1, 3}),
                 .kv_lengths = std::span(&length, 1)};
    spoil(args);
    return error_of(kernel->run(args));
  };
  const auto as_it_is = [](RunArgs&) {};
  EXPECT_FALSE(run(0, 24, as_it_is));
  for (const auto wrong : {std::int64_t{-1}, kPages, std::int64_t{1} << 30, std::int64_t{INT32_MIN}}) {
    const auto error = run(wrong, 9, as_it_is);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->message, "pages[0, 1] is " + std::to_string(wrong) + "; k has pages 0 to 3");
    EXPECT_FALSE(run(wrong, 8, as_it_is)) << "nobody needs that entry";
  }
  each("kv_lengths", [&](std::int64_t n) { return run(1, n, as_it_is); });
  for (const std::size_t axis : {0U, 1U}) {
    each("page extents", [&](std::int64_t n) {
      return run(1, 8, [&](RunArgs& a) {
        a.k.extent[axis] = a.v.extent[axis] = n;
        a.k.stride[axis] = a.v.stride[axis] = 0;
      });
    });
  }
  each("table",
       [&](std::int64_t n) -> std::optional<Error> { return run(1, 8, [&](RunArgs& a) { a.pages.extent[1] = n; }); });
}

/// What is written must not be what is read, nor itself.
TEST_P(Values, OfMemoryThatIsShared) {
  const auto kernel = compile(kCausal);
  ASSERT_TRUE(kernel.ok());
  constexpr std::int64_t kTokens = 32, kHeads = 2, kCount = kTokens * kHeads * kDim;
  const auto message = [&](const std::function<void(RunArgs&)>& spoil) {
    Problem problem(1, kTokens, kHeads, kDim);
    auto args = problem.args();
    spoil(args);
    const auto error = error_of(kernel->run(args));
    return error ? error->message : "";
  };
  EXPECT_EQ(message([](RunArgs&) {}), "");
  EXPECT_EQ(message([](RunArgs& a) { a.out.data = const_cast<void*>(a.q.data); }), "out overlaps q, which is read");
  EXPECT_EQ(
      message([](RunArgs& a) { a.out.data = const_cast<float*>(static_cast<const float*>(a.k.data) + kCount - 1); }),
      "out overlaps k, which is read");
  EXPECT_EQ(message([](RunArgs& a) { a.lse.data = const_cast<void*>(a.v.data); }), "lse overlaps v, which is read");
  EXPECT_EQ(message([](RunArgs& a) { a.lse.data = a.out.data; }), "lse overlaps out");
  EXPECT_EQ(message([](RunArgs& a) { a.out.stride[2] = kDim / 2; }),
            "out: by its strides two elements share memory; an output cannot overlap itself");
  EXPECT_NE(message([](RunArgs& a) { a.out.stride[1] = a.out.stride[2]; }).find("share memory"), std::string::npos);
  // Q, K, V and O beside each other in one buffer, as fused projections leave them.
  auto fused = numbers(4 * kCount, 7);
  const auto in_buffer = [&](RunArgs& a) {
    std::int64_t at = 0;
    for (auto* view : {&a.q, &a.k, &a.v}) {
      view->data = fused.data() + at * kHeads * kDim;
      view->stride[1] = 4 * kHeads * kDim;
      ++at;
    }
    a.out.data = fused.data() + at * kHeads * kDim;
    a.out.stride[1] = 4 * kHeads * kDim;
  };
  EXPECT_EQ(message(in_buffer), "");
  EXPECT_EQ(message([&](RunArgs& a) {
              in_buffer(a);
              a.out.data = fused.data() + 3 * kHeads * kDim - 1;
            }),
            "out overlaps v, which is read");
  // Rows from the last to the first.
  EXPECT_EQ(message([](RunArgs& a) {
              a.out.data = static_cast<float*>(a.out.data) + (kTokens - 1) * kHeads * kDim;
              a.out.stride[1] = -kHeads * kDim;
            }),
            "");
}

INSTANTIATE_TEST_SUITE_P(Targets, Values, ::testing::Values("cpu", "interpreter"),
                         [](const auto& param) { return std::string(param.param); });

TEST(EngineValues, OfOptions) {
  const auto ready = [](const std::function<void(EngineOptions&)>& spoil) {
    EngineOptions options{.no_cache = true};
    spoil(options);
    const Engine engine(options);
    const auto kernel = engine.compile(kCausal, {.dim = 16, .dtype = DType::f32, .target = "interpreter"});
    EXPECT_EQ(kernel.ok(), engine.ready().ok());
    return error_of(engine.ready());
  };
  EXPECT_FALSE(ready([](EngineOptions&) {}));
  EXPECT_TRUE(ready([](EngineOptions& o) { o.threads = -1; }));
  EXPECT_TRUE(ready([](EngineOptions& o) { o.wait_ms = -1; }));
  EXPECT_TRUE(ready([](EngineOptions& o) { o.linked_bundles = {{.data = nullptr, .size = 3}}; }));
  each("threads", [&](std::int64_t n) { return ready([&](EngineOptions& o) { o.threads = static_cast<int>(n); }); });
  each("wait_ms", [&](std::int64_t n) { return ready([&](EngineOptions& o) { o.wait_ms = n; }); });
  each("deadline_ms", [&](std::int64_t n) { return ready([&](EngineOptions& o) { o.deadline_ms = n; }); });
  each("memory_bytes", [&](std::int64_t n) { return ready([&](EngineOptions& o) { o.memory_bytes = n; }); });
  each("most_kernels",
       [&](std::int64_t n) { return ready([&](EngineOptions& o) { o.most_kernels = static_cast<std::size_t>(n); }); });
  each("cache_bytes",
       [&](std::int64_t n) { return ready([&](EngineOptions& o) { o.cache_bytes = static_cast<std::uint64_t>(n); }); });
}

TEST(EngineValues, TheLongestWaitLasts) {
  using Clock = std::chrono::steady_clock;
  const auto longest = duration_of(std::numeric_limits<std::int64_t>::max());
  EXPECT_GT(Clock::now() + longest, Clock::now());
  EXPECT_LT(Clock::now() - Clock::now(), longest);
  EXPECT_EQ(duration_of(1500), std::chrono::milliseconds(1500));
}

TEST(EngineValues, OfCompilations) {
  const Engine engine({.no_cache = true});
  for (const char* target : {"cpu", "interpreter"}) {
    const auto compile = [&](const std::function<void(CompileOptions&)>& spoil) {
      CompileOptions options{.dim = 16, .dtype = DType::f16, .target = target};
      spoil(options);
      return error_of(engine.compile("pattern p { branch window(3, 3) on heads 1..2; branch causal; }", options));
    };
    each("heads", [&](std::int64_t n) { return compile([&](CompileOptions& o) { o.heads = n; }); });
    each("dtype", [&](std::int64_t n) {
      return n == 0 || n == 1 ? std::nullopt
                              : compile([&](CompileOptions& o) { o.dtype = static_cast<DType>(n & 255); });
    });
    each("kv_heads", [&](std::int64_t n) { return compile([&](CompileOptions& o) { o.heads = 4, o.kv_heads = n; }); });
    for (const auto n : kHostile) {
      if (n == 1) continue;  // compiles
      EXPECT_TRUE(compile([&](CompileOptions& o) { o.dim = n; }) || std::strcmp(target, "interpreter") == 0) << n;
      EXPECT_TRUE(compile([&](CompileOptions& o) { o.dim_v = n; }) || std::strcmp(target, "interpreter") == 0) << n;
    }
  }
}

}  // namespace
}  // namespace weft::test
