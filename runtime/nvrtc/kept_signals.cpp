#include "runtime/nvrtc/kept_signals.h"

#include "compiler/base/fork_safe.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace weft::nvrtc {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM};

/// Where the library that holds this address begins.
const void* library_of(const void* address) {
  Dl_info info = {};
  return address != nullptr && dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

/// One for all compilations of the process, as handlers are.
class Watch {
 public:
  void begin(const void* library) {
    {
      const std::lock_guard lock(mutex_);
      if (std::find(libraries_.begin(), libraries_.end(), library) == libraries_.end()) libraries_.push_back(library);
    }
    if (count_++ > 0) return;
    look();
    over_ = false;
    try {
      thread_ = std::thread([this] {
        while (!over_) {
          look();
          std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
      });
    } catch (const std::system_error&) {  // then it is as it would be without
    }
  }
  void end() {
    if (--count_ > 0) return;
    over_ = true;
    if (thread_.joinable()) thread_.join();
    look();
  }
  bool is_of_this_process() const { return generation_ == fork_generation(); }

 private:
  /// Remembers the program's handlers, and puts them back where a library's are in their place.
  void look() {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      struct sigaction now = {};
      if (sigaction(kSignals[i], nullptr, &now) != 0) continue;
      const void* const whose = library_of(reinterpret_cast<const void*>(now.sa_handler));
      if (whose == nullptr || std::find(libraries_.begin(), libraries_.end(), whose) == libraries_.end())
        programs_[i] = now;
      else
        sigaction(kSignals[i], &programs_[i], nullptr);
    }
  }

  const unsigned long generation_ = fork_generation();
  std::mutex mutex_;                    ///< of what the thread reads
  std::vector<const void*> libraries_;  ///< all that ever compiled
  std::array<struct sigaction, kSignals.size()> programs_ = {};
  int count_ = 0;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

ForkSafe<> mutex;
/// Never destroyed: a compilation may be the last thing that a process does, and a child has the thread of its parent's
/// only in name.
Watch* watch = nullptr;

}  // namespace

KeptSignals::KeptSignals(const void* within) : library_(library_of(within)) {
  if (library_ == nullptr) return;
  const std::lock_guard lock(mutex);
  if (watch == nullptr || !watch->is_of_this_process()) watch = new Watch;
  watch->begin(library_);
}

KeptSignals::~KeptSignals() {
  if (library_ == nullptr) return;
  const std::lock_guard lock(mutex);
  watch->end();
}

}  // namespace weft::nvrtc
