#pragma once

#include <atomic>
#include <functional>

namespace weft {

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
