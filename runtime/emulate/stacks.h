#pragma once

#include "compiler/base/result.h"
#include "runtime/emulate/hooks.h"

#include <cstddef>
#include <memory>

namespace weft::emulate {

inline constexpr int kMostThreads = 1024;
inline constexpr std::size_t kStackBytes = 64 << 10;

/// The stacks of one block's threads, with the block at their head: see weft_emulated::kArenaBytes. Each stack ends
/// at a page that cannot be touched. Arenas go back to a pool: a block costs no system call.
class Arena {
 public:
  struct Return {
    void operator()(Arena* arena) const;
  };
  using Borrowed = std::unique_ptr<Arena, Return>;

  /// With stacks for at least `threads` threads.
  static Result<Borrowed> borrow(int threads);

  weft_emulated::Block* block() const { return reinterpret_cast<weft_emulated::Block*>(base_); }
  unsigned char* stack(int thread) const;  ///< lowest usable byte of kStackBytes

  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

 private:
  Arena() = default;
  Status reserve();
  Status open(int threads);

  unsigned char* base_ = nullptr;
  int ready_ = 0;
};

}  // namespace weft::emulate
