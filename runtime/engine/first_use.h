#pragma once

#include "compiler/base/fork_safe.h"
#include "compiler/base/result.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

namespace weft {

/// What is made when a launch first needs it. Of threads that make it at once one's is kept, and the next launch tries
/// again where it failed.
template <typename T>
class FirstUse {
 public:
  template <typename Make>
  Result<const T*> get(const Make& make) const {
    if (const T* known = find()) return known;
    // Not while the mutex is held: it may take long. Compilers make the same thing once for all threads (Binaries).
    Result<T> made = make();
    if (!made) return std::move(made).error();
    const std::lock_guard lock(mutex_);
    if (!kept_) {
      kept_ = std::make_unique<const T>(std::move(made).value());
      known_.store(kept_.get(), std::memory_order_release);
    }
    return kept_.get();
  }
  /// Null before.
  const T* find() const { return known_.load(std::memory_order_acquire); }

 private:
  mutable ForkSafe<> mutex_;
  mutable std::unique_ptr<const T> kept_;
  mutable std::atomic<const T*> known_{nullptr};
};

}  // namespace weft
