#pragma once

#include "compiler/base/fork_safe.h"

#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

namespace weft {

/// Buffers that launches without a workspace of their own share: after the first launches of a size nothing is
/// allocated any more. Holds as many buffers as there were launches at once.
class ScratchPool {
 public:
  static constexpr std::size_t kAlignment = 64;

  struct Free {
    void operator()(std::byte* bytes) const { ::operator delete[](bytes, std::align_val_t{kAlignment}); }
  };
  struct Buffer {
    std::unique_ptr<std::byte[], Free> bytes;
    std::size_t size = 0;
  };

  /// At least `size` bytes, aligned to 64; null where memory is out.
  Buffer take(std::size_t size) {
    {
      std::lock_guard lock(mutex_);
      for (auto it = free_.begin(); it != free_.end(); ++it) {
        if (it->size < size) continue;
        auto found = std::move(*it);
        free_.erase(it);
        return found;
      }
      if (!free_.empty()) free_.pop_back();  // too small for what is wanted now: do not keep both
    }
    auto* bytes = static_cast<std::byte*>(::operator new[](size, std::align_val_t{kAlignment}, std::nothrow));
    return {.bytes = std::unique_ptr<std::byte[], Free>(bytes), .size = bytes == nullptr ? 0 : size};
  }

  void give_back(Buffer buffer) {
    std::lock_guard lock(mutex_);
    try {
      free_.push_back(std::move(buffer));
    } catch (const std::bad_alloc&) {
      // It is freed instead.
    }
  }

 private:
  ForkSafe<> mutex_;
  std::vector<Buffer> free_;
};

}  // namespace weft
