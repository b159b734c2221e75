#include "compiler/base/fork_safe.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <new>
#include <thread>
#include <vector>

namespace weft {
namespace {

std::atomic<unsigned long> generation{0};

/// All that exist. Never destroyed: mutexes of static duration outlive every other order.
struct ForkHandlers {
  std::mutex mutex;
  std::vector<HeldAcrossForks*> all;

  static ForkHandlers& get() {
    static auto* const handlers = [] {
      auto made = std::make_unique<ForkHandlers>();
      if (::pthread_atfork(&ForkHandlers::before, &ForkHandlers::in_parent, &ForkHandlers::in_child) != 0) {
        throw std::bad_alloc();  // the only failure there is
      }
      return made.release();
    }();
    return *handlers;
  }

  /// All or none: whoever holds one may be waiting for another.
  bool hold_all() {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i]->try_hold()) continue;
      while (i > 0) all[--i]->let_go();
      return false;
    }
    return true;
  }

  static void before() {
    ForkHandlers& handlers = get();
    handlers.mutex.lock();
    while (!handlers.hold_all()) {
      handlers.mutex.unlock();
      std::this_thread::sleep_for(std::chrono::microseconds(20));  // may be for a compilation
      handlers.mutex.lock();
    }
  }

  static void in_parent() {
    ForkHandlers& handlers = get();
    for (HeldAcrossForks* held : handlers.all) held->let_go();
    handlers.mutex.unlock();
  }

  static void in_child() {
    ForkHandlers& handlers = get();
    generation.fetch_add(1, std::memory_order_relaxed);
    for (HeldAcrossForks* held : handlers.all) held->renew();
    std::construct_at(&handlers.mutex);
  }
};

}  // namespace

unsigned long fork_generation() {
  (void)ForkHandlers::get();
  return generation.load(std::memory_order_relaxed);
}

void HeldAcrossForks::enrol(Turn turn) {
  ForkHandlers& handlers = ForkHandlers::get();
  const std::lock_guard lock(handlers.mutex);
  handlers.all.insert(turn == Turn::first ? handlers.all.begin() : handlers.all.end(), this);
}

void HeldAcrossForks::withdraw() {
  ForkHandlers& handlers = ForkHandlers::get();
  const std::lock_guard lock(handlers.mutex);
  handlers.all.erase(std::find(handlers.all.begin(), handlers.all.end(), this));
}

void EndsBeforeForks::lock() {
  std::unique_lock lock(state_.mutex);
  state_.reopened.wait(lock, [&] { return !state_.fork_waits; });
  ++state_.going_on;
}

void EndsBeforeForks::unlock() {
  const std::lock_guard lock(state_.mutex);
  --state_.going_on;
}

/// Where it fails it stays closed, or threads that compile without a pause would hold up a fork for ever. That is safe
/// because it is tried before all mutexes: one that is held by a thread that waits here makes the fork let go of this.
bool EndsBeforeForks::try_hold() {
  const std::lock_guard lock(state_.mutex);
  state_.fork_waits = true;
  return state_.going_on == 0;
}

/// Also where another mutex was not free: its holder may be waiting here.
void EndsBeforeForks::let_go() {
  const std::lock_guard lock(state_.mutex);
  state_.fork_waits = false;
  state_.reopened.notify_all();
}

void EndsBeforeForks::renew() { std::construct_at(&state_); }

}  // namespace weft
