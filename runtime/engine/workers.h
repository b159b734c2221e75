#pragma once

#include <functional>
#include <memory>

namespace weft {

/// The threads of an engine.
class Workers {
 public:
  /// 0: one per core this process may use.
  explicit Workers(int threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int threads() const { return threads_; }

  /// Calls `work(slot)` for slots 0 .. slots - 1, as many at once as there are threads; returns when all have.
  void run(int slots, const std::function<void(int)>& work) const;

 private:
  struct Arena;
  int threads_;
  std::unique_ptr<Arena> arena_;
};

}  // namespace weft
