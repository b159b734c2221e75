/// How long the kernel store and bundles take, beside what docs/caching.md promises.

#include "kernels_cache/store.h"
#include "bench/corpus.h"
#include "kernels_cache/bundle/reader.h"
#include "kernels_cache/bundle/writer.h"
#include "runtime/engine/front.h"

#include <weft/weft.h>

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <thread>
#include <vector>

namespace weft::bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kText =
    "pattern p { branches dilated(segments: [16, 32, 64], rates: [1, 2, 4]); keep causal; }\n";
constexpr int kMany = 100'000;

double microseconds(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

/// One row: the distribution of a time, and whether the share of it that is meant keeps its limit.
class Report {
 public:
  Report() { fmt::print("{:<44} {:>8} {:>10} {:>10} {:>10} {:>12}\n", "us", "times", "p50", "p99", "most", "limit"); }

  void row(const std::string& what, std::vector<double> times, double share, double limit) {
    std::sort(times.begin(), times.end());
    const auto at = [&](double part) {
      return times[static_cast<std::size_t>(part * static_cast<double>(times.size() - 1))];
    };
    const bool kept = at(share) <= limit;
    fmt::print("{:<44} {:>8} {:>10.2f} {:>10.2f} {:>10.2f} {:>4} < {:<7.0f}{}\n", what, times.size(), at(0.5), at(0.99),
               times.back(),
               share == 0.5 ? "p50"
               : share < 1  ? "p99"
                            : "most",
               limit, kept ? "" : "  not kept");
    all_kept_ = all_kept_ && kept;
  }
  void count(const std::string& what, std::uint64_t found, std::uint64_t expected) {
    fmt::print("{:<44} {:>8} (expected {})\n", what, found, expected);
    all_kept_ = all_kept_ && found == expected;
  }
  int status() const { return all_kept_ ? 0 : 1; }

 private:
  bool all_kept_ = true;
};

CompileOptions f32(std::int64_t dim) { return {.dim = dim, .dtype = DType::f32}; }

/// A clock is read around a hundred hits: it costs a good part of one.
void memory_hits(Report& report, const std::string& place) {
  const Engine engine({.cache_dir = place});
  if (!engine.compile(kText, f32(64))) std::abort();
  std::vector<double> times;
  for (int i = 0; i < 2000; ++i) {
    times.push_back(microseconds([&] {
                      for (int k = 0; k < 100; ++k) (void)engine.compile(kText, f32(64));
                    }) /
                    100);
  }
  report.row("hit in memory", std::move(times), 0.5, 1);
}

void threads_on_one_key(Report& report, const std::string& place) {
  const Engine engine({.cache_dir = place});
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) threads.emplace_back([&] { (void)engine.compile(kText, f32(80)); });
  for (auto& thread : threads) thread.join();
  report.count("compilations by 16 threads that want one", engine.cache_stats().compiled, 1);
}

cache::Key key(int i) { return cache::Key().add("number", std::to_string(i)).add("target", "cpu:x86-64-v3"); }

void disk_hits(Report& report, const std::string& place) {
  const auto store = cache::Store::open({.directory = place});
  std::string bytes(100'000, '\0');
  std::mt19937 random(1);
  for (char& byte : bytes) byte = static_cast<char>(random());
  if (!store->put(key(0), {.binary = bytes}).published) std::abort();
  std::vector<double> times;
  for (int i = 0; i < 2000; ++i) times.push_back(microseconds([&] { (void)store->get(key(0)); }));
  report.row("hit on disk, verified, 100 KB", std::move(times), 0.5, 200);
}

/// As put() would, but for the syncs: those of a hundred thousand would take an hour.
void fill(const std::string& place) {
  const fs::path root = fs::path(place) / fmt::format("kernels-{}", cache::kFormat);
  const cache::Entry entry{.binary = std::string(4000, 'x')};
  const mode_t old = ::umask(077);
  for (int i = 0; i < kMany; ++i) {
    const std::string digest = key(i).digest();
    fs::create_directories(root / digest.substr(0, 2));
    std::ofstream(root / digest.substr(0, 2) / digest.substr(2), std::ios::binary) << encode(key(i).text(), entry);
  }
  ::umask(old);
}

void many_entries(Report& report, const std::string& place) {
  fill(place);
  std::vector<double> opening, getting, counting;
  std::shared_ptr<cache::Store> store;
  for (int i = 0; i < 200; ++i)
    opening.push_back(microseconds([&] { store = cache::Store::open({.directory = place}); }));
  std::mt19937 random(2);
  for (int i = 0; i < 20'000; ++i) {
    const auto wanted = key(static_cast<int>(random() % kMany));
    getting.push_back(microseconds([&] { (void)store->get(wanted); }));
  }
  for (int i = 0; i < 5; ++i) counting.push_back(microseconds([&] { (void)store->totals(); }));
  const auto all = store->stats();
  report.row("open among 100,000 entries", std::move(opening), 0.99, 1000);
  report.row("hit among 100,000 entries", std::move(getting), 0.99, 1000);
  report.row("stat of 100,000 entries", std::move(counting), 1, 1'000'000);
  report.count("hits among 100,000 entries", all.hits(), 20'000);
}

/// What the text leaves open is 8 heads of 64 columns in f32.
CompileOptions filled_in(const Listed& one) {
  CompileOptions out{.pattern = one.name, .source_name = one.file};
  const auto front = read_pattern({one.file, one.text}, out);
  if (!front || !front->pattern.heads) out.heads = 8;
  if (!front || !front->pattern.dim) out.dim = 64;
  if (!front || !front->pattern.dtype) out.dtype = DType::f32;
  return out;
}

/// The least of a pattern's times, each with an engine that knows nothing but its store: other work only adds.
double start(const EngineOptions& options, const Listed& one) {
  constexpr int kTimes = 50;
  double least = std::numeric_limits<double>::infinity();
  const auto compile = filled_in(one);
  for (int i = 0; i < kTimes; ++i) {
    std::optional<Engine> engine;
    std::optional<Result<Kernel>> kernel;
    least = std::min(least, microseconds([&] {
                       engine.emplace(options);
                       kernel = engine->compile(one.text, compile);
                     }));
    if (!*kernel || (*kernel)->origin() != CacheOrigin::disk) std::abort();
  }
  return least;
}

/// From an engine's options to a kernel that can be launched, for every pattern of the corpus: as it is, and without
/// the notes, where plans and texts are made anew to find the kernel.
void stored_starts(Report& report, const std::string& place) {
  const auto corpus = corpus_texts(WEFT_SOURCE_DIR);
  if (!corpus) std::abort();
  std::vector<Listed> stored;
  for (const auto& one : *corpus) {
    const Engine engine({.cache_dir = place});
    if (engine.compile(one.text, filled_in(one))) stored.push_back(one);  // some need parameters, or only interpret
  }
  std::vector<double> noted, anew;
  for (const auto& one : stored) noted.push_back(start({.cache_dir = place}, one));
  for (const auto& item : fs::recursive_directory_iterator(place)) {
    if (item.path().extension() == cache::names_of(cache::EntryKind::note).ending) fs::remove(item.path());
  }
  // Read only: else the first start would note it.
  EngineOptions reading{.no_cache = true};
  reading.read_only_caches = {place};
  for (const auto& one : stored) anew.push_back(start(reading, one));
  report.row("start of a stored kernel", std::move(noted), 0.5, 200);
  report.row("the same, planned and emitted again", std::move(anew), 0.5, 5000);
}

void open_bundle(Report& report, const std::string& file) {
  constexpr int kKernels = 1000;
  bundle::Writer writer;
  for (int i = 0; i < kKernels; ++i) {
    auto packed = bundle::pack({.name = fmt::format("pattern{}", i),
                                .target = i % 2 == 0 ? "sm_61" : "cpu:x86-64-v3",
                                .request = key(i).text(),
                                .binary = fmt::format("{:>8}", i) + std::string(4000, 'x')});
    if (!packed) std::abort();
    writer.add(std::move(*packed));
  }
  const auto bytes = writer.finish();
  if (!bytes) std::abort();
  std::ofstream(file, std::ios::binary) << *bytes;
  std::vector<double> times;
  std::size_t found = 0;
  for (int i = 0; i < 500; ++i) {
    times.push_back(microseconds([&] {
      const auto opened = bundle::Bundle::open(file);
      found = opened ? (*opened)->size() : 0;
    }));
  }
  report.row("open a bundle of 1,000 kernels", std::move(times), 0.5, 2000);
  report.count("kernels in it", found, kKernels);
}

int run() {
  std::string place = (fs::temp_directory_path() / "weft-bench-XXXXXX").string();
  if (::mkdtemp(place.data()) == nullptr) return 3;
  Report report;
  memory_hits(report, place + "/engine");
  threads_on_one_key(report, place + "/engine");
  disk_hits(report, place + "/one");
  stored_starts(report, place + "/starts");
  open_bundle(report, place + "/kernels.wfb");
  many_entries(report, place + "/many");
  fs::remove_all(place);
  return report.status();
}

}  // namespace
}  // namespace weft::bench

int main() { return weft::bench::run(); }
