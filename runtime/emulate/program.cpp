#include "runtime/emulate/program.h"

#include "runtime/emulate/compiler.h"
#include "runtime/emulate/scheduler.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

namespace weft::emulate {
namespace {

namespace fs = std::filesystem;

/// Removed with all that is in it.
class ScratchFolder {
 public:
  static Result<ScratchFolder> make() {
    std::error_code failure;
    std::string path = (fs::temp_directory_path(failure) / "weft-emulate-XXXXXX").string();
    if (failure || mkdtemp(path.data()) == nullptr) return environment_error("no scratch folder can be made");
    return ScratchFolder(std::move(path));
  }
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

/// Builds happen side by side, but each text only once.
struct Slot {
  std::mutex mutex;
  std::shared_ptr<const Program> program;
};

std::shared_ptr<Slot> slot_of(const std::string& digest) {
  static std::mutex mutex;
  static auto* slots = new std::map<std::string, std::shared_ptr<Slot>>;  // outlives all who may still run
  const std::lock_guard lock(mutex);
  auto& slot = (*slots)[digest];
  if (!slot) slot = std::make_shared<Slot>();
  return slot;
}

struct Loaded {
  void* library = nullptr;
  void (*entry)(const void*) = nullptr;
  std::int64_t args_bytes = 0;
};

Result<Loaded> load(const std::string& object) {
  Loaded out;
  out.library = dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (out.library == nullptr) return internal_error(fmt::format("the emulated kernel cannot be loaded: {}", dlerror()));
  out.entry = reinterpret_cast<void (*)(const void*)>(dlsym(out.library, kEntry));
  const auto* bytes = static_cast<const unsigned long long*>(dlsym(out.library, kArgsBytes));
  if (out.entry == nullptr || bytes == nullptr) {
    dlclose(out.library);
    return internal_error("the emulated kernel has no entry");
  }
  out.args_bytes = static_cast<std::int64_t>(*bytes);
  return out;
}

/// Compiles into `directory`, or loads what another process has left there. Other processes may do the same: the
/// object appears under its name whole or not at all.
Result<Loaded> build_object(const Compiler& compiler, const Request& request, const std::string& digest,
                            const std::string& directory) {
  const fs::path kept = directory.empty() ? fs::path() : fs::path(directory) / (digest + ".so");
  std::error_code failure;
  if (!directory.empty() && fs::exists(kept, failure)) {
    if (auto loaded = load(kept.string()); loaded.ok()) return loaded;
  }
  WEFT_TRY(const ScratchFolder scratch, ScratchFolder::make());
  const std::string object = scratch.path() + "/kernel.so";
  WEFT_CHECK(compile(compiler, request, scratch.path(), object));
  if (!directory.empty()) {
    const fs::path near = kept.string() + "." + fs::path(scratch.path()).filename().string();
    fs::create_directories(directory, failure);
    if (fs::copy_file(object, near, failure)) fs::rename(near, kept, failure);
  }
  return load(object);
}

Error bad_launch(const std::string& why) { return internal_error("the emulated launch makes no sense: " + why); }

Status check(const Launch& launch, std::int64_t args_bytes) {
  if (launch.blocks < 0 || launch.blocks > INT32_MAX) return bad_launch(fmt::format("{} blocks", launch.blocks));
  if (launch.threads < 1 || launch.threads > kMostThreads) {
    return bad_launch(fmt::format("{} threads a block", launch.threads));
  }
  constexpr std::int64_t kMostShared = 256 << 10;
  if (launch.shared_bytes < 0 || launch.shared_bytes > kMostShared) {
    return bad_launch(fmt::format("{} bytes of shared memory", launch.shared_bytes));
  }
  if (launch.args == nullptr || launch.args_bytes != args_bytes) {
    return bad_launch(fmt::format("an argument of {} bytes, the kernel takes {}", launch.args_bytes, args_bytes));
  }
  return done;
}

std::vector<Region> in_order(std::vector<Region> regions) {
  std::erase_if(regions, [](const Region& r) { return r.begin == nullptr || r.bytes <= 0; });
  std::sort(regions.begin(), regions.end(),
            [](const Region& a, const Region& b) { return std::less<>()(a.begin, b.begin); });
  return regions;
}

/// Where the i-th block to run stands in the grid.
std::vector<std::int64_t> block_order(const Launch& launch) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(launch.blocks));
  std::iota(out.begin(), out.end(), 0);
  if (launch.order == Order::descending) std::reverse(out.begin(), out.end());
  std::mt19937_64 random(launch.seed);
  if (launch.order == Order::random) std::shuffle(out.begin(), out.end(), random);
  return out;
}

}  // namespace

Result<std::shared_ptr<const Program>> Program::build(const std::string& text, const std::string& symbol,
                                                      const Options& options) {
  WEFT_TRY(const Compiler compiler, find_compiler(options.compiler));
  const Request request{.text = text, .symbol = symbol, .count = options.count, .check_plain = options.check_plain};
  const std::string digest = request.digest(compiler);
  const std::shared_ptr<Slot> slot = slot_of(digest);
  const std::lock_guard lock(slot->mutex);
  if (!slot->program) {
    WEFT_TRY(const Loaded loaded, build_object(compiler, request, digest, options.directory));
    std::shared_ptr<Program> fresh(new Program);
    fresh->library_ = loaded.library;
    fresh->entry_ = loaded.entry;
    fresh->args_bytes_ = loaded.args_bytes;
    fresh->count_ = options.count;
    slot->program = std::move(fresh);
  }
  return slot->program;
}

Program::~Program() {
  if (library_ != nullptr) dlclose(library_);
}

Result<Report> Program::launch(const Launch& given) const {
  WEFT_CHECK(check(given, args_bytes_));
  Launch launch = given;
  launch.memory = in_order(launch.memory);
  const std::vector<std::int64_t> order = block_order(launch);
  const auto workers =
      static_cast<std::size_t>(std::clamp<std::int64_t>(launch.workers, 1, std::max<std::int64_t>(launch.blocks, 1)));
  std::vector<std::unique_ptr<Scheduler>> schedulers;
  for (std::size_t i = 0; i < workers; ++i) {
    WEFT_TRY(auto scheduler, Scheduler::make(entry_, launch, count_));
    schedulers.push_back(std::move(scheduler));
  }
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> over = false;
  const auto work = [&](Scheduler& scheduler) {
    for (std::size_t i; !over && (i = next++) < order.size();) {
      if (!scheduler.run(order[i])) over = true;
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < workers; ++i) threads.emplace_back(work, std::ref(*schedulers[i]));
  work(*schedulers.front());
  for (std::thread& thread : threads) thread.join();
  Report report;
  for (const auto& scheduler : schedulers) report += scheduler->report();
  return report;
}

}  // namespace weft::emulate
