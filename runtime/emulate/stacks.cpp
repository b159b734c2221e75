#include "runtime/emulate/stacks.h"

#include "compiler/base/fork_safe.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <vector>

namespace weft::emulate {
namespace {

constexpr std::size_t kGuardBytes = 4 << 10;
constexpr std::size_t kHeadBytes = 4 << 10;
constexpr std::size_t kSlotBytes = kGuardBytes + kStackBytes;
constexpr std::size_t kArena = weft_emulated::kArenaBytes;
static_assert(kHeadBytes + kMostThreads * kSlotBytes <= kArena);

struct Pool {
  ForkSafe<> mutex;
  std::vector<std::unique_ptr<Arena>> free;
};

/// Never destroyed: a program may still be running when static objects go.
Pool& pool = *new Pool;

Error refused(const char* what) {
  return environment_error(fmt::format("no stacks for emulation: {}: {}", what, std::strerror(errno)));
}

}  // namespace

void Arena::Return::operator()(Arena* arena) const {
  const std::lock_guard lock(pool.mutex);
  pool.free.emplace_back(arena);
}

Result<Arena::Borrowed> Arena::borrow(int threads) {
  Borrowed out;
  {
    const std::lock_guard lock(pool.mutex);
    if (!pool.free.empty()) {
      out.reset(pool.free.back().release());
      pool.free.pop_back();
    }
  }
  if (!out) {
    std::unique_ptr<Arena> fresh(new Arena);
    WEFT_CHECK(fresh->reserve());
    out.reset(fresh.release());
  }
  WEFT_CHECK(out->open(threads));
  return out;
}

/// Only addresses; pages come as they are touched.
Status Arena::reserve() {
  void* found = mmap(nullptr, 2 * kArena, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) return refused("mmap");
  auto* begin = static_cast<unsigned char*>(found);
  const auto before = -reinterpret_cast<std::uintptr_t>(begin) & (kArena - 1);
  base_ = begin + before;
  if (before > 0) munmap(begin, before);
  munmap(base_ + kArena, kArena - before);
  if (mprotect(base_, kHeadBytes, PROT_READ | PROT_WRITE) != 0) return refused("mprotect");
  return done;
}

Status Arena::open(int threads) {
  for (; ready_ < threads; ++ready_) {
    if (mprotect(stack(ready_), kStackBytes, PROT_READ | PROT_WRITE) != 0) return refused("mprotect");
  }
  return done;
}

unsigned char* Arena::stack(int thread) const {
  return base_ + kHeadBytes + static_cast<std::size_t>(thread) * kSlotBytes + kGuardBytes;
}

Arena::~Arena() {
  if (base_ != nullptr) munmap(base_, kArena);
}

}  // namespace weft::emulate
