/// Which of a kernel's texts are compiled when, and what a store's notes say of them.

#include "engine_fixture.h"

#include <string>

namespace weft::test {
namespace {

class CudaTexts : public CudaEngine {
 protected:
  void SetUp() override {
    driver().devices = {{"Stand-in 8.0", 80}};
    CudaEngine::SetUp();
  }
  static CompileOptions f16(std::optional<RunShape> shape = {}) {
    return {.dim = 32, .dtype = DType::f16, .shape = shape, .target = "cuda"};
  }
  /// Launches queries of `shape` as f16 over memory that is not looked at; says which kernels that were.
  std::string launched(const Kernel& kernel, const RunShape& shape) {
    const auto bytes = static_cast<std::size_t>(shape.batch * std::max(shape.n_q, shape.n_k) * shape.heads) * 64;
    const auto memory = cuda::Buffer::allocate(device_of(kernel), bytes).value();
    const auto out = cuda::Buffer::allocate(device_of(kernel), bytes).value();
    const auto rows = [&](std::int64_t n, std::int64_t heads) {
      return dense_view(memory.data(), DType::f16, {shape.batch, n, heads, 32});
    };
    RunArgs args{
        .q = rows(shape.n_q, shape.heads), .k = rows(shape.n_k, shape.kv_heads), .v = rows(shape.n_k, shape.kv_heads)};
    args.out = dense_output(out.data(), DType::f16, {shape.batch, shape.n_q, shape.heads, 32});
    driver().forget();
    const auto status = kernel.run(args);
    EXPECT_TRUE(status.ok()) << status.error().message;
    std::string names;
    for (const auto& one : driver().launches) names += driver().functions.at(one.function) + " ";
    return names;
  }

  static constexpr RunShape kOne{.batch = 1, .n_q = 1, .n_k = 300, .heads = 4, .kv_heads = 4};
  static constexpr RunShape kMany{.batch = 1, .n_q = 300, .n_k = 300, .heads = 4, .kv_heads = 4};
};

TEST_F(CudaTexts, WhoOnlyDecodesCompilesThatAlone) {
  for (const auto* text : {kCausal, kLongnet}) {
    const Engine engine({.no_cache = true});
    const auto kernel = compile(engine, text, f16(kOne));
    EXPECT_EQ(engine.cache_stats().compiled, 1U);
    EXPECT_EQ(kernel.origin(), CacheOrigin::miss);
    EXPECT_FALSE(kernel.state().emitted(ir::Regime::many_queries));
    EXPECT_TRUE(kernel.source_text() == kernel.state().source(ir::Regime::decoding).text) << "what was compiled";
    EXPECT_EQ(kernel.prepare(kOne)->compile_ms, 0);
    EXPECT_EQ(launched(kernel, kOne).substr(0, 12), "weft_kernel ");
    EXPECT_EQ(engine.cache_stats().compiled, 1U);

    // It is the one kernel of the request, and others' texts come when they are wanted.
    const auto same = compile(engine, text, f16(kMany));
    EXPECT_EQ(same.origin(), CacheOrigin::memory);
    EXPECT_EQ(engine.cache_stats().compiled, 1U);
    EXPECT_EQ(launched(same, kMany), "weft_kernel ");
    EXPECT_EQ(engine.cache_stats().compiled, 2U);
    EXPECT_EQ(launched(kernel, kOne).substr(0, 12), "weft_kernel ");
    EXPECT_EQ(engine.cache_stats().compiled, 2U);
  }
}

/// Without a shape, as whoever trains expects it: no launch of many queries compiles anything.
TEST_F(CudaTexts, ManyQueriesAreWhatIsMeantWhereNothingIsSaid) {
  const Engine engine({.no_cache = true});
  const auto kernel = compile(engine, kCausal, f16());
  EXPECT_EQ(engine.cache_stats().compiled, 1U);
  EXPECT_EQ(launched(kernel, kMany), "weft_kernel ");
  EXPECT_EQ(engine.cache_stats().compiled, 1U);
  EXPECT_NE(launched(kernel, kOne), "");
  EXPECT_EQ(engine.cache_stats().compiled, 2U);
}

/// The texts that read sizes: that of many queries is not among them.
TEST_F(CudaTexts, SizesInMemoryNeedTextsOfTheirOwn) {
  const Engine engine({.no_cache = true});
  auto shape = kMany;
  shape.sizes_at = true;
  const auto kernel = compile(engine, kCausal, f16(shape));
  EXPECT_EQ(engine.cache_stats().compiled, 2U) << "few queries, and decoding";
  EXPECT_FALSE(kernel.state().emitted(ir::Regime::many_queries));
  EXPECT_EQ(kernel.prepare(shape)->compile_ms, 0);
}

/// A list is filled by what stands in the first text, whoever reads it.
TEST_F(CudaTexts, ListsNeedTheFirst) {
  const Engine engine({.no_cache = true});
  const auto kernel = compile(engine, "pattern p { branch blocks(16, random(2)); }", f16(kOne));
  EXPECT_EQ(engine.cache_stats().compiled, 2U);
  EXPECT_EQ(launched(kernel, kOne).substr(0, 25), "weft_prepass weft_kernel ");
  EXPECT_EQ(engine.cache_stats().compiled, 2U);
}

/// The next engine emits none of them: decoding alone, both passes of gradients, and what comes later.
TEST_F(CudaTexts, EachIsNoted) {
  auto gradient = f16();
  gradient.gradient = true;
  for (const bool is_first : {true, false}) {
    SCOPED_TRACE(is_first);
    const Engine engine(options());
    const auto kernel = compile(engine, kLongnet, f16(kOne));
    EXPECT_EQ(kernel.state().emitted(ir::Regime::decoding), is_first);
    EXPECT_EQ(launched(kernel, kMany), "weft_kernel ");
    EXPECT_EQ(kernel.state().emitted(ir::Regime::many_queries), is_first);
    const auto backward = compile(engine, kLongnet, gradient);
    for (const auto text : {ir::Regime::many_queries, ir::Regime::transposed})
      EXPECT_EQ(backward.state().emitted(text), is_first) << ir::to_string(text);
    EXPECT_EQ(engine.cache_stats().compiled, is_first ? 4U : 0U);
    EXPECT_EQ(backward.times().emit_ms > 0, is_first);
    EXPECT_EQ(engine.cache_stats().not_published, 0U);
    EXPECT_EQ(engine.take_warnings(), std::vector<std::string>());
  }
  // Whatever the first launch is, any note has the plan.
  const Engine next(options());
  const auto kernel = compile(next, kLongnet, f16(kMany));
  EXPECT_FALSE(kernel.state().emitted(ir::Regime::many_queries));
  EXPECT_EQ(kernel.origin(), CacheOrigin::disk);
}

/// A shape that no launch can have is a sentence, wherever it is given.
TEST_F(CudaTexts, ShapesThatAreNone) {
  const Engine engine({.no_cache = true});
  auto shape = kOne;
  shape.heads = 2;
  const auto refused = engine.compile(kCausal, f16(shape));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::user);
  EXPECT_EQ(refused.error().message, "heads is 2, which is no multiple of kv_heads, 4");
  const auto kernel = compile(engine, kCausal, f16(kOne));
  const auto prepared = kernel.prepare(shape);
  ASSERT_FALSE(prepared.ok());
  EXPECT_EQ(prepared.error().message, refused.error().message);
}

}  // namespace
}  // namespace weft::test
