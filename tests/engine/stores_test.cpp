/// Where an engine's kernels come from: memory, one's own store, other stores, a compiler; and how often each.

#include "folder.h"
#include "kernels_cache/store.h"
#include "problem.h"
#include "runtime/engine/destination.h"
#include "runtime/engine/front.h"
#include "runtime/engine/tuned.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <thread>

namespace weft::test {
namespace {

namespace fs = std::filesystem;

CompileOptions f32(std::int64_t dim) { return {.dim = dim, .dtype = DType::f32}; }

class StoresTest : public ::testing::Test {
 protected:
  std::string place(const std::string& name) const { return (base_.path() / name).string(); }
  static CacheOrigin origin(const Engine& engine, std::int64_t dim = 32) {
    const auto kernel = engine.compile(kLongnet, f32(dim));
    if (!kernel) throw std::runtime_error(kernel.error().message);
    return kernel->origin();
  }
  /// A store that has the kernel of this dim.
  std::string filled(const std::string& name, std::int64_t dim = 32) const {
    EXPECT_EQ(origin(Engine({.cache_dir = place(name)}), dim), CacheOrigin::miss);
    return place(name);
  }
  /// The only kernel of a store.
  static fs::path entry_of(const std::string& store) {
    for (const auto& item : fs::recursive_directory_iterator(store)) {
      const bool is_kernel = item.path().filename().string().size() == 62;
      if (item.is_regular_file() && is_kernel) return item.path();
    }
    return {};
  }

 private:
  Folder base_;
};

TEST_F(StoresTest, TheFirstThatHasItGivesIt) {
  const auto a = filled("a"), b = filled("b"), c = filled("c", 48);
  const Engine engine({.cache_dir = place("own"), .read_only_caches = {place("absent"), a, b, c}});
  const auto kernel = engine.compile(kLongnet, f32(32));
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel->origin(), CacheOrigin::disk);
  EXPECT_EQ(kernel->origin_path(), a);
  EXPECT_EQ(engine.compile(kLongnet, f32(48))->origin_path(), c);
  EXPECT_EQ(engine.compile(kLongnet, f32(32))->origin(), CacheOrigin::memory);
  EXPECT_EQ(engine.compile(kLongnet, f32(16))->origin_path(), "") << "compiled";
  const auto stats = engine.cache_stats();
  EXPECT_EQ(stats.memory_hits, 1U);
  EXPECT_EQ(stats.store_hits, 0U);
  EXPECT_EQ(stats.read_only_hits, 2U);
  EXPECT_EQ(stats.misses, 1U);
  EXPECT_EQ(stats.compiled, 1U);
  EXPECT_EQ(stats.published, 1U);
  EXPECT_EQ(stats.store_misses, (std::map<std::string, std::uint64_t>{{"absent", 3}}));
  // One's own comes first.
  EXPECT_EQ(origin(Engine({.cache_dir = b}), 16), CacheOrigin::miss);
  const Engine own({.cache_dir = b, .read_only_caches = {a}});
  EXPECT_EQ(own.compile(kLongnet, f32(32))->origin_path(), b);
  EXPECT_EQ(own.cache_stats().store_hits, 1U);
}

TEST_F(StoresTest, ReadOnlyStoresAreNeverChanged) {
  const auto shared = filled("shared");
  const auto entry = entry_of(shared);
  std::ofstream(entry, std::ios::app) << "damage";
  const timespec long_ago[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, entry.c_str(), long_ago, 0), 0);
  const auto size = fs::file_size(entry);
  const Engine engine({.cache_dir = place("own"), .read_only_caches = {shared}});
  EXPECT_EQ(origin(engine), CacheOrigin::miss);
  EXPECT_TRUE(fs::exists(entry)) << "not even a bad entry is moved";
  EXPECT_EQ(fs::file_size(entry), size);
  fs::resize_file(entry, size - 6);
  const auto before = fs::last_write_time(entry);
  const Engine again({.no_cache = true, .read_only_caches = {shared}});
  EXPECT_EQ(origin(again), CacheOrigin::disk) << "the control: whole, it is used";
  EXPECT_EQ(fs::last_write_time(entry), before);
}

TEST_F(StoresTest, AStoreThatCannotBeReadIsPassedOver) {
  const auto good = filled("good"), unsafe = filled("unsafe");
  ASSERT_EQ(::chmod(unsafe.c_str(), 0777), 0);
  std::ofstream(place("a file")) << "x";
  const Engine engine({.cache_dir = place("own"), .read_only_caches = {unsafe, place("a file"), "/dev/null/x", good}});
  EXPECT_EQ(engine.compile(kLongnet, f32(32))->origin_path(), good);
}

TEST_F(StoresTest, AnOlderStoreIsPassedOver) {
  const auto old = filled("old");
  const auto kernels = fmt::format("{}/kernels-{}", old, cache::kFormat);
  const auto older = fmt::format("{}/kernels-{}", old, cache::kFormat - 1);
  fs::rename(kernels, older);
  const Engine engine({.cache_dir = place("own"), .read_only_caches = {old}});
  EXPECT_EQ(origin(engine), CacheOrigin::miss);
  EXPECT_TRUE(fs::exists(older));
  fs::rename(older, kernels);
  EXPECT_EQ(origin(Engine({.cache_dir = place("other"), .read_only_caches = {old}})), CacheOrigin::disk);
}

TEST_F(StoresTest, SixteenThreadsCompileOneKernelOnce) {
  const Engine engine({.cache_dir = place("own")});
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) threads.emplace_back([&] { EXPECT_TRUE(engine.compile(kLongnet, f32(32)).ok()); });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(engine.cache_stats().compiled, 1U);
  EXPECT_EQ(engine.cache_stats().memory_hits + engine.cache_stats().store_hits, 15U);
  // The control: as many kernels are as many compilations.
  for (int i = 1; i <= 3; ++i) EXPECT_TRUE(engine.compile(kLongnet, f32(32 + 8 * i)).ok());
  EXPECT_EQ(engine.cache_stats().compiled, 4U);
}

TEST_F(StoresTest, ManyThreadsCompileEachOfManyKernelsOnce) {
  constexpr int kKernels = 10, kThreads = 32;
  const Engine engine({.no_cache = true});
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < kKernels; ++k)
        EXPECT_TRUE(engine.compile(kCausal, f32(8 + 8 * ((k + i / 3) % kKernels))).ok());
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(engine.cache_stats().compiled, 10U);
  EXPECT_EQ(engine.cache_stats().memory_hits, 310U);
}

TEST_F(StoresTest, AKernelThatNobodyAskedForMakesRoom) {
  const Engine engine({.no_cache = true, .most_kernels = 2});
  const auto first = engine.compile(kCausal, f32(8));
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(engine.compile(kCausal, f32(16)).ok());
  EXPECT_EQ(engine.compile(kCausal, f32(8))->origin(), CacheOrigin::memory);
  EXPECT_EQ(engine.compile(kCausal, f32(24))->origin(), CacheOrigin::miss)
      << "and 16 goes, which was not asked for since";
  EXPECT_EQ(engine.compile(kCausal, f32(8))->origin(), CacheOrigin::memory);
  EXPECT_EQ(engine.compile(kCausal, f32(16))->origin(), CacheOrigin::miss);
  EXPECT_EQ(engine.compile(kCausal, f32(32))->origin(), CacheOrigin::miss);
  Problem problem(1, 32, 1, 8);
  EXPECT_TRUE(first->run(problem.args()).ok()) << "who holds a kernel keeps it";
  // The control: without a limit all stay.
  const Engine all({.no_cache = true});
  for (const int dim : {8, 16, 24}) EXPECT_TRUE(all.compile(kCausal, f32(dim)).ok());
  for (const int dim : {8, 16, 24}) EXPECT_EQ(all.compile(kCausal, f32(dim))->origin(), CacheOrigin::memory);
}

/// Replaces what is in the only kernel of a store by `spoil`, with right digests.
void spoil_kernel(const std::string& store_path, const std::function<void(cache::Entry&)>& spoil) {
  const auto store = cache::Store::open({.directory = store_path});
  const auto listing = store->list();
  ASSERT_EQ(listing.size(), 1U);
  auto decoded = store->read(listing[0].digest);
  ASSERT_TRUE(decoded.ok());
  spoil(decoded->entry);
  ASSERT_TRUE(store->put(*cache::Key::parse(decoded->key_text), decoded->entry).published);
}

TEST_F(StoresTest, AWholeEntryThatMakesNoSenseIsReplaced) {
  const std::function<void(cache::Entry&)> spoils[] = {
      [](cache::Entry& e) { e.binary = "no object"; }, [](cache::Entry& e) { e.binary.clear(); },
      [](cache::Entry& e) { e.binary.resize(e.binary.size() / 2); },
      [](cache::Entry& e) {
        for (auto at = e.binary.find("weft_"); at != std::string::npos; at = e.binary.find("weft_", at))
          e.binary[at] = 'l';
      },
      [](cache::Entry& e) { e.launch = "abi 4711\n"; }};
  int number = 0;
  for (const auto& spoil : spoils) {
    const auto store = filled("store" + std::to_string(number++));
    spoil_kernel(store, spoil);
    const Engine shared({.cache_dir = place("own" + std::to_string(number)), .read_only_caches = {store}});
    EXPECT_EQ(origin(shared), CacheOrigin::miss);
    EXPECT_EQ(shared.take_warnings().size(), 1U);
    const Engine engine({.cache_dir = store});
    EXPECT_EQ(origin(engine), CacheOrigin::miss);
    const auto warnings = engine.take_warnings();
    ASSERT_EQ(warnings.size(), 1U);
    EXPECT_NE(warnings[0].find("is not used"), std::string::npos) << warnings[0];
    EXPECT_EQ(engine.cache_stats().store_misses.at("corrupt"), 1U);
    const Engine next({.cache_dir = store});
    EXPECT_EQ(origin(next), CacheOrigin::disk) << "it was replaced";
    EXPECT_TRUE(next.take_warnings().empty());
  }
}

TEST_F(StoresTest, ATunedScheduleThatMakesNoSenseIsPassedOver) {
  const auto store = filled("own");
  const auto pattern = read_pattern({.name = {}, .text = kLongnet}, f32(32));
  ASSERT_TRUE(pattern.ok());
  const auto target = *find_destination("cpu");
  const auto key = tuned_key(pattern->pattern, *bind_of(pattern->pattern, f32(32)), target.target);
  for (const auto value : {std::int64_t{0}, std::int64_t{-16}, std::numeric_limits<std::int64_t>::max()}) {
    (void)keep_tuned(*cache::Store::open({.directory = store}), key,
                     {.schedule = {{.key = "tile_q", .value = value, .range = {}, .tuned = true},
                                   {.key = "nonsense", .value = value, .range = {}, .tuned = true}},
                      .measured = {}});
    const auto kernel = Engine({.cache_dir = store}).compile(kLongnet, f32(32));
    EXPECT_TRUE(kernel.ok()) << kernel.error().message;
  }
}

TEST_F(StoresTest, AForbiddenCompilationSaysWhatDiffers) {
  filled("own", 48);
  const Engine engine({.cache_dir = place("own"), .no_compile = true});
  const auto kernel = engine.compile(kLongnet, f32(32));
  ASSERT_FALSE(kernel.ok());
  EXPECT_EQ(kernel.error().kind, ErrorKind::environment);
  ASSERT_FALSE(kernel.error().notes.empty());
  EXPECT_NE(kernel.error().notes.front().find("source"), std::string::npos) << kernel.error().notes.front();
  EXPECT_EQ(engine.cache_stats().misses, 1U);
  EXPECT_EQ(engine.cache_stats().compiled, 0U);
}

TEST_F(StoresTest, ASmallStoreKeepsToItsSize) {
  const Engine engine({.cache_dir = place("own"), .cache_bytes = 1});
  EXPECT_EQ(origin(engine), CacheOrigin::miss);
  const auto warnings = engine.take_warnings();
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("is not stored"), std::string::npos);
  EXPECT_EQ(engine.cache_stats().not_published, 1U);
}

/// Forks while other threads are in the middle of compiling; every child compiles with the same engine.
TEST_F(StoresTest, ForkedProcessesUseTheEngineWhateverItWasDoing) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's allocator does not survive a fork amid allocations";
#endif
  const Engine engine({.cache_dir = place("own")});
  EXPECT_EQ(origin(engine, 8), CacheOrigin::miss) << "before the fork";
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 4; ++round) (void)engine.compile(kLongnet, f32(16 + 8 * (4 * i + round)));
    });
  }
  std::vector<pid_t> children;
  for (int i = 0; i < 12; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);  // one that hangs fails
      const bool known = engine.compile(kLongnet, f32(8)).ok();
      ::_exit(known && engine.compile(kLongnet, f32(16 + 8 * i)).ok() ? 0 : 1);
    }
    children.push_back(child);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(origin(engine, 8), CacheOrigin::memory) << "and after it";
}

}  // namespace
}  // namespace weft::test
