#pragma once

#include "compiler/base/fork_safe.h"

#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace weft::cache {

/// Work that several threads want at once is done by the first; the others wait for what comes of it. Nothing is
/// kept: who comes later does it anew.
template <typename Value>
class Flights {
 public:
  struct Landed {
    std::shared_ptr<const Value> value;
    bool joined = false;  ///< another thread did the work
  };

  /// `work` returns a Value. What it throws is thrown to all who wait for it.
  template <typename Work>
  Landed join(const std::string& name, Work work) {
    std::promise<std::shared_ptr<const Value>> promise;
    if (auto other = find_or_start(name, promise); other.valid()) return {other.get(), true};
    try {
      auto value = std::make_shared<const Value>(work());
      end(name);
      promise.set_value(value);
      return {std::move(value), false};
    } catch (...) {
      end(name);
      promise.set_exception(std::current_exception());
      throw;
    }
  }

 private:
  using Future = std::shared_future<std::shared_ptr<const Value>>;
  struct Flight {
    unsigned long generation;  ///< of processes
    Future future;
  };

  void end(const std::string& name) noexcept {
    const std::lock_guard lock(mutex_);
    flights_.erase(name);
  }

  /// Another thread's flight, or an invalid future after this thread's has been entered.
  Future find_or_start(const std::string& name, std::promise<std::shared_ptr<const Value>>& promise) {
    const std::lock_guard lock(mutex_);
    const auto generation = fork_generation();
    const auto known = flights_.find(name);
    // After a fork, the thread that would land it does not exist here.
    if (known != flights_.end() && known->second.generation == generation) return known->second.future;
    flights_.insert_or_assign(name, Flight{generation, promise.get_future().share()});
    return {};
  }

  ForkSafe<> mutex_;
  std::unordered_map<std::string, Flight> flights_;
};

}  // namespace weft::cache
