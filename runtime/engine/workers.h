#pragma once

#include <atomic>
#include <cstddef>
#include <functional>

namespace weft {

/// The threads of one launch, and the scratch that each has to itself.
struct Threads {
  int count = 1;
  std::size_t bytes = 0;         ///< of each
  std::byte* scratch = nullptr;  ///< of the first
  std::byte* of(int slot) const { return scratch + bytes * static_cast<std::size_t>(slot); }
  std::byte* behind() const { return of(count); }
};

/// The threads of an engine. Made when they are first wanted, and again in a forked process, where those of its parent
/// do not exist: hence no library's, which would wait for them. Signals go to the caller's threads.
class Workers {
 public:
  /// 0: one per core this process may use.
  explicit Workers(int threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int threads() const { return threads_; }

  /// Calls `work(slot)` for slots 0 .. slots - 1, as many at once as there are threads, this one among them; returns
  /// when all have. Where the system gives fewer threads, those do it all. What a call throws is thrown here.
  void run(int slots, const std::function<void(int)>& work) const;

 private:
  class Pool;
  Pool* pool() const;

  int threads_;
  mutable std::atomic<Pool*> pool_{nullptr};
};

}  // namespace weft
