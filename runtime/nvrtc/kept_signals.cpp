#include "runtime/nvrtc/kept_signals.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
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

/// Shared by all compilations of the process, as handlers are.
class Watch {
 public:
  void begin(const void* library) {
    const std::lock_guard lock(mutex_);
    {
      const std::lock_guard listed(of_libraries_);
      if (std::find(libraries_.begin(), libraries_.end(), library) == libraries_.end()) libraries_.push_back(library);
    }
    if (count_++ > 0) return;
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      sigaction(kSignals[i], nullptr, &before_[i]);
    }
    watching_ = true;
    try {
      thread_ = std::thread([this] {
        while (watching_) {
          put_back();
          std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
      });
    } catch (const std::system_error&) {  // then it is as it would be without
    }
  }
  void end() {
    const std::lock_guard lock(mutex_);
    if (--count_ > 0) return;
    watching_ = false;
    if (thread_.joinable()) thread_.join();
    put_back();
  }

 private:
  void put_back() {
    const std::lock_guard listed(of_libraries_);
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      struct sigaction now = {};
      if (sigaction(kSignals[i], nullptr, &now) != 0) continue;
      const void* const whose = library_of(reinterpret_cast<const void*>(now.sa_handler));
      const bool is_theirs =
          whose != nullptr && std::find(libraries_.begin(), libraries_.end(), whose) != libraries_.end();
      if (is_theirs) sigaction(kSignals[i], &before_[i], nullptr);
    }
  }

  std::mutex mutex_, of_libraries_;
  std::vector<const void*> libraries_;  ///< all that ever compiled
  int count_ = 0;
  std::array<struct sigaction, kSignals.size()> before_ = {};
  std::atomic<bool> watching_ = false;
  std::thread thread_;
};

Watch& watch() {
  static auto* const kWatch = new Watch;  // a compilation may be the last thing that a process does
  return *kWatch;
}

}  // namespace

KeptSignals::KeptSignals(const void* within) : library_(library_of(within)) {
  if (library_ != nullptr) watch().begin(library_);
}

KeptSignals::~KeptSignals() {
  if (library_ != nullptr) watch().end();
}

}  // namespace weft::nvrtc
