#include "compiler/base/fork_safe.h"

#include <pthread.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace weft {
namespace {

/// All that exist. Never destroyed: mutexes of static duration outlive every other order.
struct ForkHandlers {
  std::mutex mutex;
  std::vector<HeldAcrossForks*> all;

  static ForkHandlers& get() {
    static auto* const handlers = [] {
      auto* made = new ForkHandlers;
      ::pthread_atfork(&ForkHandlers::before, &ForkHandlers::in_parent, &ForkHandlers::in_child);
      return made;
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
      std::this_thread::yield();
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
    for (HeldAcrossForks* held : handlers.all) held->renew();
    std::construct_at(&handlers.mutex);
  }
};

}  // namespace

void HeldAcrossForks::enrol() {
  ForkHandlers& handlers = ForkHandlers::get();
  const std::lock_guard lock(handlers.mutex);
  handlers.all.push_back(this);
}

void HeldAcrossForks::withdraw() {
  ForkHandlers& handlers = ForkHandlers::get();
  const std::lock_guard lock(handlers.mutex);
  handlers.all.erase(std::find(handlers.all.begin(), handlers.all.end(), this));
}

}  // namespace weft
