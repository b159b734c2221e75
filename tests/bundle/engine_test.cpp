#include "kernels_cache/bundle/writer.h"
#include "runtime/engine/ahead.h"
#include "runtime/engine/destination.h"
#include "runtime/engine/measured.h"
#include "tests/bundle/pem.h"
#include "tests/cli/command.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

/// An engine with bundles: where kernels come from, in which order, and what happens to bundles that are none.
namespace weft::test {
namespace {

namespace fs = std::filesystem;

const char* const kText = "pattern p { keep causal; keep window(16, 0); }";

CompileOptions p_for(const std::string& target, std::int64_t dim = 16) {
  return {.dim = dim, .dtype = DType::f32, .target = target};
}

std::string bundle_of(const std::vector<CompileOptions>& kernels) {
  const Ahead ahead({.no_cache = true});
  bundle::Writer writer;
  for (const auto& options : kernels) {
    const auto work = Ahead::plan({.name = "p.weft", .text = kText}, options);
    EXPECT_TRUE(work.ok());
    for (const auto& one : *work) {
      const auto made = ahead.make(one);
      EXPECT_TRUE(made.ok()) << made.error().message;
      writer.add(*bundle::pack(made->kernel));
    }
  }
  return *writer.finish();
}

class EngineBundles : public ::testing::Test {
 protected:
  EngineOptions options() const { return {.cache_dir = scratch_.path("store"), .bundles = {bundle_}}; }
  EngineOptions without_compiler() const {
    auto to = options();
    to.no_compile = true;
    to.llvm = "/nonexistent/libLLVM.so";
    return to;
  }
  static CacheOrigin origin(const Engine& engine, const CompileOptions& wanted) {
    const auto kernel = engine.compile(kText, wanted);
    EXPECT_TRUE(kernel.ok()) << kernel.error().message;
    return kernel ? kernel->origin() : CacheOrigin::miss;
  }

  Scratch scratch_;
  std::string bytes_ = bundle_of({p_for("cpu:x86-64")});
  std::string bundle_ = scratch_.write("x.wfb", bytes_);
};

TEST_F(EngineBundles, ComeAfterMemoryAndStore) {
  const Engine engine(options());
  EXPECT_EQ(origin(engine, p_for("cpu:x86-64")), CacheOrigin::bundle);
  EXPECT_EQ(origin(engine, p_for("cpu:x86-64")), CacheOrigin::memory);
  EXPECT_EQ(origin(engine, p_for("cpu:x86-64", 32)), CacheOrigin::miss);
  EXPECT_EQ(origin(Engine(options()), p_for("cpu:x86-64", 32)), CacheOrigin::disk);
  // What the store has is not taken from the bundle.
  EXPECT_EQ(origin(Engine({.cache_dir = scratch_.path("store")}), p_for("cpu:x86-64")), CacheOrigin::miss);
  EXPECT_EQ(origin(Engine(options()), p_for("cpu:x86-64")), CacheOrigin::disk);
}

/// Who made the bundle knew the table only: its kernels serve machines whose processors turned out otherwise.
TEST_F(EngineBundles, HoldBf16InTheTablesForm) {
  const Target host = host_target();
  if (!host.has_bf16_dot()) GTEST_SKIP() << "this processor multiplies bf16 in one way only";
  CompileOptions wanted = p_for("cpu");
  wanted.dtype = DType::bf16;
  auto to = without_compiler();
  to.bundles = {scratch_.write("bf16.wfb", bundle_of({wanted}))};
  bf16_dot_rate({cache::Store::open({.directory = to.cache_dir})}, host_cpu_model(),
                [&] { return host.bf16_dot_pays() ? 1.0 : 2.0; });
  EXPECT_EQ(origin(Engine(to), wanted), CacheOrigin::bundle);
}

/// R10, all tiers at once: each has one kernel that those before it lack, and the bundle has what the store has, too.
TEST_F(EngineBundles, ComeAfterReadOnlyStores) {
  const auto shared = scratch_.path("shared");
  ASSERT_EQ(origin(Engine({.cache_dir = shared}), p_for("cpu:x86-64", 32)), CacheOrigin::miss);
  auto to = options();
  to.read_only_caches = {scratch_.path("nowhere"), shared};
  ASSERT_EQ(origin(Engine({.cache_dir = to.cache_dir}), p_for("cpu:x86-64", 48)), CacheOrigin::miss);
  to.bundles = {scratch_.write("both.wfb", bundle_of({p_for("cpu:x86-64"), p_for("cpu:x86-64", 32)}))};
  const Engine engine(to);
  const auto place = [&](std::int64_t dim) { return engine.compile(kText, p_for("cpu:x86-64", dim))->origin_path(); };
  EXPECT_EQ(place(48).rfind(to.cache_dir, 0), 0U) << place(48);
  EXPECT_EQ(place(32).rfind(shared, 0), 0U) << place(32);
  EXPECT_EQ(place(16), to.bundles[0]);
  EXPECT_EQ(place(64), "") << "compiled";
  const auto stats = engine.cache_stats();
  EXPECT_EQ(stats.store_hits, 1U);
  EXPECT_EQ(stats.read_only_hits, 1U);
  EXPECT_EQ(stats.bundle_hits, 1U);
  EXPECT_EQ(stats.compiled, 1U);
}

TEST_F(EngineBundles, NeedNoCompilerAndNoDisk) {
  auto to = without_compiler();
  to.cache_dir = "/proc/nowhere";
  EXPECT_EQ(origin(Engine(to), p_for("cpu:x86-64")), CacheOrigin::bundle);
  const Engine engine(to);
  const auto missing = engine.compile(kText, p_for("cpu:x86-64", 32));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, ErrorKind::environment);
  EXPECT_NE(missing.error().message.find("'p' (f32, dim 32) for cpu:x86-64"), std::string::npos);
  EXPECT_NE(missing.error().notes.back().find("weft bundle build --add -o " + bundle_ + " FILE.weft --pattern p"),
            std::string::npos)
      << missing.error().notes.back();
}

/// The passes of one pattern are two kernels: neither is taken for the other, wherever it comes from.
TEST_F(EngineBundles, HaveBothPassesOfAPattern) {
  const auto forward = p_for("cpu:x86-64");
  auto backward = forward;
  backward.gradient = true;
  const auto store = scratch_.path("own");
  const auto origins = [&](const EngineOptions& to) {
    const Engine engine(to);
    return std::pair(origin(engine, forward), origin(engine, backward));
  };
  using Both = std::pair<CacheOrigin, CacheOrigin>;
  ASSERT_EQ(origin(Engine({.cache_dir = store}), forward), CacheOrigin::miss);
  EXPECT_EQ(origins({.cache_dir = store}), Both(CacheOrigin::disk, CacheOrigin::miss)) << "cold";
  EXPECT_EQ(origins({.cache_dir = store}), Both(CacheOrigin::disk, CacheOrigin::disk)) << "warm";

  auto to = without_compiler();
  to.no_cache = true;
  EXPECT_FALSE(Engine(to).compile(kText, backward).ok()) << "that bundle has the forward alone";
  to.bundles = {scratch_.write("both.wfb", bundle_of({forward, backward}))};
  EXPECT_EQ(origins(to), Both(CacheOrigin::bundle, CacheOrigin::bundle));
  to.bundles = {scratch_.write("backward.wfb", bundle_of({backward}))};
  EXPECT_FALSE(Engine(to).compile(kText, forward).ok());
  EXPECT_EQ(origin(Engine(to), backward), CacheOrigin::bundle);
  // What the forward writes beside O does not make another backward pass.
  backward.branch_lse = true;
  EXPECT_EQ(origin(Engine(to), backward), CacheOrigin::bundle);
}

TEST_F(EngineBundles, OfGradientsForGpusHaveBothPasses) {
  auto gpu = p_for("sm_61");
  gpu.gradient = true;
  const auto work = Ahead::plan({.name = "p.weft", .text = kText}, gpu);
  ASSERT_TRUE(work.ok()) << work.error().message;
  ASSERT_EQ(work->size(), 2U);
  EXPECT_EQ((*work)[1].binary.regime, ir::Regime::transposed);
}

/// The command is for a shell, whatever the files and values are called.
TEST_F(EngineBundles, CommandsAreQuoted) {
  auto to = without_compiler();
  to.bundles = {scratch_.write("it's a bundle.wfb", bytes_)};
  auto wanted = p_for("cpu:x86-64", 32);
  wanted.source_name = "a file\nof $HOME.weft";
  wanted.params = {{"rates", "[1, 2]"}};
  const auto missing = Engine(to).compile(
      "pattern p(rates: [int] = [1]) { keep causal; keep where(any(r in rates: q % r == 0)); }", wanted);
  ASSERT_FALSE(missing.ok());
  ASSERT_FALSE(missing.error().notes.empty()) << missing.error().message;
  const auto& command = missing.error().notes.back();
  EXPECT_NE(command.find("it'\\''s a bundle.wfb' 'a file\nof $HOME.weft' --pattern p"), std::string::npos) << command;
  EXPECT_NE(command.find(" -D 'rates=[1, 2]'"), std::string::npos) << command;
}

TEST_F(EngineBundles, MayLieInMemory) {
  auto to = without_compiler();
  to.bundles.clear();
  to.linked_bundles = {{.data = bytes_.data(), .size = bytes_.size()}};
  EXPECT_EQ(origin(Engine(to), p_for("cpu:x86-64")), CacheOrigin::bundle);
}

/// A bundle that cannot be used is a warning, and the kernel comes from elsewhere.
TEST_F(EngineBundles, ThatAreNoneAreWarnings) {
  auto newer = bytes_;
  newer[8] = 9;
  auto damaged = bytes_;
  // Whatever of it the kernel is in: all behind the index.
  for (std::size_t i = damaged.size() / 4; i < damaged.size(); ++i) damaged[i] = static_cast<char>(damaged[i] ^ 4);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {scratch_.path("none.wfb"), "no such file"},
      {scratch_.write("newer.wfb", newer), "format 9"},
      {scratch_.write("damaged.wfb", damaged), "damaged"},
      {scratch_.write("cut.wfb", bytes_.substr(0, bytes_.size() - 1)), "states"}};
  for (const auto& [file, what] : cases) {
    EngineOptions to{.no_cache = true, .bundles = {file}};
    const Engine engine(to);
    EXPECT_EQ(origin(engine, p_for("cpu:x86-64")), CacheOrigin::miss) << file;
    const auto warnings = engine.take_warnings();
    ASSERT_EQ(warnings.size(), 1U) << file;
    EXPECT_NE(warnings[0].find(what), std::string::npos) << warnings[0];
    // The next one is asked.
    to.bundles.push_back(bundle_);
    EXPECT_EQ(origin(Engine(to), p_for("cpu:x86-64")), CacheOrigin::bundle) << file;
  }
}

TEST_F(EngineBundles, OnlySignedOnesWhereAKeyIsGiven) {
  auto to = without_compiler();
  to.bundle_key = bundle::private_pem(1, false);
  EXPECT_FALSE(Engine(to).compile(kText, p_for("cpu:x86-64")).ok());
  const auto key = bundle::SigningKey::read(bundle::private_pem(1)).value();
  const auto header = bundle::decode(bytes_, bytes_.size(), {}).value();
  const auto signature = key.sign(bundle::signed_message(header.root)).value();
  scratch_.write(
      "x.wfb", bundle::with_signature(bytes_, header, bundle::Signed{.key = key.public_key(), .signature = signature}));
  EXPECT_EQ(origin(Engine(to), p_for("cpu:x86-64")), CacheOrigin::bundle);
  to.bundle_key = "no key";
  const auto refused = Engine(to).compile(kText, p_for("cpu:x86-64"));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().notes.front().find("no bundle is used"), std::string::npos);
}

/// A kernel for less than this machine is better than none, and better than waiting for a compiler.
TEST_F(EngineBundles, HaveSubstitutes) {
  const auto host = find_destination("cpu").value();
  if (host.target.name == "cpu:x86-64") GTEST_SKIP() << "this machine has nothing to fall back to";
  for (auto to : {options(), without_compiler()}) {
    to.no_cache = true;
    const Engine engine(to);
    const auto kernel = engine.compile(kText, p_for("cpu"));
    ASSERT_TRUE(kernel.ok()) << kernel.error().message;
    EXPECT_EQ(kernel->origin(), CacheOrigin::bundle);
    EXPECT_EQ(kernel->target(), "cpu:x86-64");
  }
  // Where the store has the very kernel, or a compiler must work anyway, this machine's own is taken.
  EXPECT_EQ(Engine(options()).compile(kText, p_for("cpu", 32))->target(), host.target.name);
}

TEST(Substitutes, OfAGpuAreOfItsFamilyAndNotNewer) {
  const auto names = [](const std::string& asked) {
    std::vector<std::string> out;
    for (const auto& target : substitutes_for(asked, *find_destination(asked))) out.push_back(target.name);
    return out;
  };
  EXPECT_EQ(names("sm_89"), (std::vector<std::string>{"sm_86", "sm_80"}));
  EXPECT_EQ(names("sm_80"), std::vector<std::string>{});
  EXPECT_EQ(names("sm_61"), std::vector<std::string>{"sm_60"});
  EXPECT_EQ(names("cpu:x86-64"), std::vector<std::string>{}) << "who names a row wants that row";
}

TEST_F(EngineBundles, RecordIsWrittenOnce) {
  const auto record = scratch_.path("record.txt");
  const Engine engine({.no_cache = true, .record = record});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(engine.compile(kText, p_for("cpu:x86-64")).ok());
  ASSERT_TRUE(engine.compile(kText, p_for("interpreter")).ok());
  std::ifstream in(record);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("\"target\":\"cpu:x86-64\""), std::string::npos) << lines[0];
  const Engine unable({.no_cache = true, .record = "/proc/nowhere/record"});
  ASSERT_TRUE(unable.compile(kText, p_for("cpu:x86-64")).ok());
  EXPECT_NE(unable.take_warnings().at(0).find("cannot record"), std::string::npos);
}

}  // namespace
}  // namespace weft::test
