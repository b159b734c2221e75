/// Backward passes by the library's face: what they are given and write, and what is refused.

#include "problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace weft::test {
namespace {

constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();

/// A forward's tensors with what the backward reads and writes.
struct Backward {
  Problem of;
  std::int64_t kv_heads;
  std::vector<float> d_out, dq, dk, dv;

  Backward(std::int64_t b, std::int64_t n, std::int64_t h, std::int64_t kv, std::int64_t d)
      : of(b, n, h, d),
        kv_heads(kv),
        d_out(numbers(b * n * h * d, 7)),
        dq(d_out.size(), kPoison),
        dk(static_cast<std::size_t>(b * n * kv * d), kPoison),
        dv(dk.size(), kPoison) {}

  RunArgs forward_args() {
    auto args = of.args();
    for (auto* view : {&args.k, &args.v})
      *view = dense_view(view->data, DType::f32, {of.batch, of.tokens, kv_heads, of.dim});
    return args;
  }
  RunArgs args() {
    auto args = forward_args();
    const auto& [b, n, h, d] = std::array{of.batch, of.tokens, of.heads, of.dim};
    args.d_out = dense_view(d_out.data(), DType::f32, {b, n, h, d});
    args.dq = dense_output(dq.data(), DType::f32, {b, n, h, d});
    args.dk = dense_output(dk.data(), DType::f32, {b, n, kv_heads, d});
    args.dv = dense_output(dv.data(), DType::f32, {b, n, kv_heads, d});
    return args;
  }
};

bool untouched(const std::vector<float>& x) {
  return std::all_of(x.begin(), x.end(), [](float value) { return std::isnan(value); });
}

class GradientsOfKernels : public ::testing::TestWithParam<const char*> {
 protected:
  Engine engine_{{.no_cache = true}};
  Backward problem_{2, 12, 2, 2, 16};

  Kernel compile(const std::string& text, bool gradient = true) {
    auto kernel = engine_.compile(text, {.dim = problem_.of.dim,
                                         .dtype = DType::f32,
                                         .branch_lse = !gradient,
                                         .gradient = gradient,
                                         .target = GetParam()});
    if (!kernel) throw std::runtime_error(kernel.error().message);
    return *kernel;
  }

  /// The forward, then the backward after `change`.
  void run(const std::string& text, Backward& problem, const std::function<void(RunArgs&)>& change = {}) {
    auto forward = problem.forward_args(), args = problem.args();
    if (change) change(forward), change(args);
    forward.d_out = forward.d_lse = {};
    forward.dq = forward.dk = forward.dv = {};
    forward.d_inputs = {};
    const auto ran = compile(text, false).run(forward);
    ASSERT_TRUE(ran.ok()) << ran.error().message;
    const auto status = compile(text).run(args);
    ASSERT_TRUE(status.ok()) << status.error().message;
  }

  /// The message of launching a backward pass of `text` after `spoil`; empty where it ran.
  std::string message(const std::string& text, const std::function<void(RunArgs&)>& spoil) {
    auto args = problem_.args();
    spoil(args);
    const auto status = compile(text).run(args);
    if (status.ok()) return {};
    EXPECT_EQ(status.error().kind, ErrorKind::user);
    EXPECT_TRUE(untouched(problem_.dq) && untouched(problem_.dk) && untouched(problem_.dv));
    return status.error().message;
  }
  std::string message(const std::function<void(RunArgs&)>& spoil) { return message(kCausal, spoil); }
};

constexpr const char* kSum = "pattern p { branch window(3, 0); branch sink(2); combine sum; }";
constexpr const char* kDiagonal = "pattern p { keep window(0, 0); }";
constexpr const char* kBiased = "pattern p { input bias: f32[heads]; input at: i32[keys]; score s + bias[h]; }";

TEST_P(GradientsOfKernels, AreRefusedForPages) {
  const auto refusal = [&](CompileOptions options) {
    options.dim = 16;
    options.dtype = DType::f32;
    options.gradient = true;
    const auto kernel = engine_.compile(kCausal, options);
    return kernel ? std::string() : kernel.error().message;
  };
  EXPECT_NE(refusal({.paged = true, .target = GetParam()}).find("K and V in pages have no backward pass"),
            std::string::npos);
}

TEST_P(GradientsOfKernels, ForwardsTakeNone) {
  const auto forward = compile(kCausal, false);
  const std::string sentence = "gradients are asked for, but the kernel was compiled without CompileOptions::gradient";
  const std::vector<NamedOutput> named = {{"bias", dense_output(problem_.dq.data(), DType::f32, {2})}};
  const std::vector<std::function<void(RunArgs&)>> changes = {
      [&](RunArgs& a) { a.dq = problem_.args().dq; }, [&](RunArgs& a) { a.dk = problem_.args().dk; },
      [&](RunArgs& a) { a.dv = problem_.args().dv; }, [&](RunArgs& a) { a.d_out = problem_.args().d_out; },
      [&](RunArgs& a) { a.d_inputs = named; }};
  for (const auto& change : changes) {
    auto args = problem_.forward_args();
    change(args);
    const auto status = forward.run(args);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().message, sentence);
    EXPECT_TRUE(untouched(problem_.of.out));
  }
}

TEST_P(GradientsOfKernels, WantWhatTheForwardWrote) {
  EXPECT_EQ(message([](RunArgs&) {}), "");
  problem_ = Backward(2, 12, 2, 2, 16);
  EXPECT_EQ(message([](RunArgs& a) { a.out.data = nullptr; }),
            "out has no data; the backward pass reads the O that the forward wrote");
  EXPECT_EQ(message([](RunArgs& a) { a.lse.data = nullptr; }),
            "lse has no data; the backward pass reads the LSE that the forward wrote");
  EXPECT_EQ(message(kSum, [](RunArgs&) {}), "combine sum has an LSE per branch only: ask for branch_lse");
  EXPECT_EQ(message(kSum, [](RunArgs& a) { a.lse = {}; }),
            "branch_lse has no data; the backward pass reads each branch's LSE (combine sum) that the forward wrote");
  EXPECT_EQ(message([](RunArgs& a) { a.lse.extent[2] = 11; }),
            "lse, dimension 2 (tokens): the extent is 11; expected 12, as in q");
  EXPECT_EQ(message([](RunArgs& a) { a.out.dtype = DType::f16; }), "out is f16; expected f32");
  // What is given is looked at, whether it is read or not.
  std::vector<float> branch_lse(96);
  for (const auto* text : {kSum, "pattern p { branch window(3, 0); branch sink(2); }"}) {
    EXPECT_EQ(message(text,
                      [&](RunArgs& a) {
                        if (text == kSum) a.lse = {};
                        a.branch_lse = dense_output(branch_lse.data(), DType::f32, {1, 2, 2, 12});
                      }),
              "branch_lse, dimension 0 (branches): the extent is 1; expected 2, the pattern's branches");
  }
}

TEST_P(GradientsOfKernels, WantDOThatFits) {
  EXPECT_EQ(message([](RunArgs& a) { a.d_out.data = nullptr; }), "d_out has no data");
  EXPECT_EQ(message([](RunArgs& a) { a.d_out.extent[3] = 8; }),
            "d_out, dimension 3 (dim): the extent is 8; expected 16, as in v");
  EXPECT_EQ(message([](RunArgs& a) { a.d_out.dtype = DType::f64; }), "d_out is f64; expected f32");
  EXPECT_EQ(message([](RunArgs& a) {
              a.d_lse = dense_view(a.lse.data, DType::f32, {2, 2, 11});
            }),
            "d_lse, dimension 2 (tokens): the extent is 11; expected 12, as in q");
  std::vector<float> each(96);
  EXPECT_EQ(message(kSum,
                    [&](RunArgs& a) {
                      a.lse = {};
                      a.branch_lse = dense_output(each.data(), DType::f32, {2, 2, 2, 12});
                      a.d_lse = dense_view(each.data(), DType::f32, {2, 2, 12});
                    }),
            "d_lse has 3 dimensions; expected 4");
}

TEST_P(GradientsOfKernels, AreWrittenWhereTheyFit) {
  EXPECT_EQ(message([](RunArgs& a) { a.dq = a.dk = a.dv = {}; }),
            "no gradient is wanted: give at least one of dq, dk, dv and d_inputs");
  EXPECT_EQ(message([](RunArgs& a) { a.dq.dtype = DType::f16; }), "dq is f16; expected f32");
  EXPECT_EQ(message([](RunArgs& a) { a.dk.extent[2] = 1; }),
            "dk, dimension 2 (heads): the extent is 1; expected 2, as in k");
  EXPECT_EQ(message([](RunArgs& a) { a.dv.stride[1] = 0; }),
            "dv, dimension 1 (tokens): the stride is 0; an output cannot overlap itself");
  EXPECT_EQ(message([](RunArgs& a) { a.dv.stride[1] = 16; }),
            "dv: by its strides two elements share memory; an output cannot overlap itself");
}

TEST_P(GradientsOfKernels, ShareMemoryWithNothing) {
  EXPECT_EQ(message([](RunArgs& a) { a.dq.data = a.out.data; }), "dq overlaps out, which is read");
  EXPECT_EQ(message([](RunArgs& a) { a.dq.data = a.dk.data; }), "dk overlaps dq");
  EXPECT_EQ(message([&](RunArgs& a) { a.dk.data = problem_.of.k.data(); }), "dk overlaps k, which is read");
  EXPECT_EQ(message([&](RunArgs& a) { a.dv.data = problem_.d_out.data(); }), "dv overlaps d_out, which is read");
  EXPECT_EQ(message([](RunArgs& a) {
              a.d_lse = dense_view(a.dq.data, DType::f32, {2, 2, 12});
            }),
            "dq overlaps d_lse, which is read");
  EXPECT_EQ(message([](RunArgs& a) { a.lse.data = a.dq.data; }), "dq overlaps lse, which is read");
  // What is only read may be one.
  EXPECT_EQ(message([](RunArgs& a) { a.d_out.data = a.out.data; }), "");
}

TEST_P(GradientsOfKernels, OfInputs) {
  std::vector<float> bias(2), to(2, kPoison);
  const std::vector<std::int32_t> at(12);
  const std::vector<NamedInput> inputs = {{"bias", dense_view(bias.data(), DType::f32, {2})},
                                          {"at", dense_view(at.data(), DType::i32, {12})}};
  const auto refusal = [&](std::vector<NamedOutput> named) {
    return message(kBiased, [&](RunArgs& a) {
      a.inputs = inputs;
      a.d_inputs = named;
    });
  };
  const auto view = dense_output(to.data(), DType::f32, {2});
  EXPECT_EQ(refusal({{"baas", view}}), "the pattern has no input 'baas'");
  EXPECT_EQ(refusal({{"at", view}}), "the gradient of input 'at': only f32 inputs have one, this is i32");
  EXPECT_EQ(refusal({{"bias", view}, {"bias", view}}), "the gradient of input 'bias' is given twice");
  EXPECT_EQ(refusal({{"bias", {}}}), "the gradient of input 'bias' has no data");
  EXPECT_EQ(refusal({{"bias", dense_output(to.data(), DType::f32, {1})}}),
            "the gradient of input 'bias', dimension 0 (axis 0): the extent is 1; expected 2, as in the input");
  EXPECT_EQ(refusal({{"bias", dense_output(to.data(), DType::f64, {1})}}),
            "the gradient of input 'bias' is f64; expected f32");
  EXPECT_EQ(refusal({{"bias", dense_output(bias.data(), DType::f32, {2})}}),
            "the gradient of input 'bias' overlaps input 'bias', which is read");
  EXPECT_TRUE(untouched(to));

  // A bias of the whole row leaves O as it is and adds to LSE.
  const std::vector<float> d_lse = numbers(2 * 2 * 12, 3);
  const std::vector<NamedOutput> named = {{"bias", view}};
  run(kBiased, problem_, [&](RunArgs& a) {
    a.inputs = inputs;
    a.d_inputs = named;
    a.d_lse = dense_view(d_lse.data(), DType::f32, {2, 2, 12});
    a.dq = a.dk = a.dv = {};
  });
  for (std::size_t h = 0; h < 2; ++h) {
    float sum = 0;
    for (std::size_t b = 0; b < 2; ++b)
      for (std::size_t row = 0; row < 12; ++row) sum += d_lse[(b * 2 + h) * 12 + row];
    EXPECT_NEAR(to[h], sum, 1e-5F);
  }
  EXPECT_TRUE(untouched(problem_.dq)) << "it was not wanted";
}

/// Where a row has one key, O is V and LSE the score.
TEST_P(GradientsOfKernels, ComeFromDOAndDLse) {
  const std::vector<float> d_lse = numbers(2 * 2 * 12, 3);
  run(kDiagonal, problem_, [&](RunArgs& a) { a.d_lse = dense_view(d_lse.data(), DType::f32, {2, 2, 12}); });
  EXPECT_LT(largest_difference(problem_.dv, problem_.d_out), 1e-6);
  const auto& of = problem_.of;
  double most = 0;
  for (std::size_t i = 0; i < of.q.size(); ++i) {
    const auto b = i / (12 * 2 * 16), row = i / (2 * 16) % 12, h = i / 16 % 2;
    const float factor = d_lse[(b * 2 + h) * 12 + row] / 4;
    most = std::max<double>(most, std::fabs(problem_.dq[i] - factor * of.k[i]));
    most = std::max<double>(most, std::fabs(problem_.dk[i] - factor * of.q[i]));
  }
  EXPECT_LT(most, 1e-6);
}

TEST_P(GradientsOfKernels, OfSumsTakeTheLseOfEachBranch) {
  std::vector<float> branch_lse(2 * 2 * 2 * 12, kPoison), d_lse(branch_lse.size());
  std::fill(d_lse.begin() + 2 * 2 * 12, d_lse.end(), 1.0F);  // of the second branch
  const auto change = [&](RunArgs& a) {
    a.lse = {};
    a.branch_lse = dense_output(branch_lse.data(), DType::f32, {2, 2, 2, 12});
    a.d_lse = dense_view(d_lse.data(), DType::f32, {2, 2, 2, 12});
  };
  problem_.d_out.assign(problem_.d_out.size(), 0.0F);
  run("pattern p { branch sink(1); branch window(0, 0); combine sum; }", problem_, change);
  auto meant = problem_.of.k;
  for (float& value : meant) value /= 4;
  EXPECT_LT(largest_difference(problem_.dq, meant), 1e-6);
}

TEST_P(GradientsOfKernels, LeaveWhatTheyRead) {
  auto& of = problem_.of;
  for (auto* x : {&of.out, &of.lse}) x->assign(x->size(), 5.0F);
  const auto out = of.out, lse = of.lse;
  EXPECT_EQ(message([](RunArgs&) {}), "");
  EXPECT_EQ(of.out, out);
  EXPECT_EQ(of.lse, lse);
}

/// What slices add to dK and dV is the whole's, and dQ is the rows'; keys that no row may see are poisoned.
TEST_P(GradientsOfKernels, OfSlicesAddUp) {
  run(kLongnet, problem_);
  Backward sum(2, 12, 2, 2, 16);
  for (auto* x : {&sum.dq, &sum.dk, &sum.dv}) x->assign(x->size(), 0.0F);
  for (const auto& [first, rows] : {std::pair<std::int64_t, std::int64_t>{0, 5}, {5, 1}, {6, 6}}) {
    Backward part(2, 12, 2, 2, 16);
    const auto slice = [first = first, rows = rows](RunArgs& a) {
      const auto cut = [&](auto& view, std::size_t axis) {
        view.extent[axis] = rows;
        using Byte = std::conditional_t<std::is_same_v<decltype(view.data), void*>, std::byte, const std::byte>;
        if (view.data != nullptr) view.data = static_cast<Byte*>(view.data) + first * view.stride[axis] * 4;
      };
      cut(a.q, 1), cut(a.out, 1), cut(a.lse, 2), cut(a.d_out, 1), cut(a.dq, 1);
      a.slice = {.first = first, .of = 12};
    };
    // Causal: rows behind the slice are nobody's.
    for (std::int64_t b = 0; b < 2; ++b) {
      const auto begin = part.of.k.begin() + (b * 12 + first + rows) * 2 * 16;
      std::fill(begin, part.of.k.begin() + (b + 1) * 12 * 2 * 16, std::numeric_limits<float>::infinity());
    }
    run(kLongnet, part, slice);
    for (std::size_t i = 0; i < part.dq.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i) / 32 % 12;
      EXPECT_EQ(std::isnan(part.dq[i]), row < first || row >= first + rows);
      if (!std::isnan(part.dq[i])) sum.dq[i] = part.dq[i];
      sum.dk[i] += part.dk[i];
      sum.dv[i] += part.dv[i];
    }
  }
  EXPECT_EQ(sum.dq, problem_.dq);
  EXPECT_LT(largest_difference(sum.dk, problem_.dk), 1e-6);
  EXPECT_LT(largest_difference(sum.dv, problem_.dv), 1e-6);
}

/// A key that several query heads share gets what each of them gives.
TEST_P(GradientsOfKernels, OfSharedHeadsAddUp) {
  Backward shared(2, 12, 4, 2, 16), own(2, 12, 4, 4, 16);
  for (std::size_t i = 0; i < own.of.k.size(); ++i) {
    const auto from = i / 64 * 32 + i / 32 % 2 * 16 + i % 16;
    own.of.k[i] = shared.of.k[from];
    own.of.v[i] = shared.of.v[from];
  }
  run(kLongnet, shared);
  run(kLongnet, own);
  std::vector<float> dk(shared.dk.size()), dv(dk.size());
  for (std::size_t i = 0; i < own.dk.size(); ++i) {
    const auto to = i / 64 * 32 + i / 32 % 2 * 16 + i % 16;
    dk[to] += own.dk[i];
    dv[to] += own.dv[i];
  }
  EXPECT_EQ(shared.dq, own.dq);
  EXPECT_LT(largest_difference(shared.dk, dk), 1e-6);
  EXPECT_LT(largest_difference(shared.dv, dv), 1e-6);
}

/// Tensors as [B, H, n, d] with room between their rows, which stays as it is.
TEST_P(GradientsOfKernels, OfStridedViewsAreThoseOfDenseOnes) {
  run(kLongnet, problem_);
  constexpr std::int64_t kRow = 16 + 3, kHead = 12 * kRow + 5, kEntry = 2 * kHead;
  const auto place = [](std::size_t dense) {
    const auto i = static_cast<std::int64_t>(dense);
    return static_cast<std::size_t>(i / 384 * kEntry + i / 16 % 2 * kHead + i / 32 % 12 * kRow + i % 16);
  };
  const auto spread = [&](const std::vector<float>& dense) {
    std::vector<float> out(2 * kEntry, kPoison);
    for (std::size_t i = 0; i < dense.size(); ++i) out[place(i)] = dense[i];
    return out;
  };
  const auto gather = [&](std::vector<float>& wide) {
    std::vector<float> out(384 * 2);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = std::exchange(wide[place(i)], kPoison);
    return out;
  };
  auto& of = problem_.of;
  const auto q = spread(of.q), k = spread(of.k), v = spread(of.v), d_out = spread(problem_.d_out);
  std::vector<float> out = spread(of.out), dq(q.size(), kPoison), dk = dq, dv = dq;
  auto args = problem_.args();
  const auto place_at = [](auto& view, auto* data) {
    view.data = data;
    view.stride = {kEntry, kRow, kHead, 1};
  };
  place_at(args.q, q.data()), place_at(args.k, k.data()), place_at(args.v, v.data()),
      place_at(args.d_out, d_out.data());
  place_at(args.out, out.data()), place_at(args.dq, dq.data()), place_at(args.dk, dk.data()),
      place_at(args.dv, dv.data());
  const auto status = compile(kLongnet).run(args);
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(gather(dq), problem_.dq);
  EXPECT_EQ(gather(dk), problem_.dk);
  EXPECT_EQ(gather(dv), problem_.dv);
  for (const auto* wide : {&dq, &dk, &dv}) EXPECT_TRUE(untouched(*wide));
}

/// Both passes of one text are kernels of one engine.
TEST_P(GradientsOfKernels, AreKernelsOfTheirOwn) {
  const auto forward = compile(kCausal, false), backward = compile(kCausal), again = compile(kCausal);
  EXPECT_EQ(forward.run(problem_.forward_args()).ok(), true);
  EXPECT_EQ(backward.run(problem_.args()).ok(), true);
  EXPECT_EQ(forward.run(problem_.args()).ok(), false);
  EXPECT_EQ(backward.run(problem_.forward_args()).ok(), false);
  EXPECT_EQ(again.origin(), CacheOrigin::memory);
  EXPECT_EQ(backward.origin(), CacheOrigin::miss);
}

INSTANTIATE_TEST_SUITE_P(Targets, GradientsOfKernels, ::testing::Values("interpreter", "cpu", "emulate:sm_61"),
                         [](const auto& row) {
                           const std::string target = row.param;
                           return target.substr(0, target.find(':'));
                         });

}  // namespace
}  // namespace weft::test
