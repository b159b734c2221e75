#include "compiler/base/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace weft {

void in_parallel(std::size_t count, std::size_t threads, const std::function<bool(std::size_t)>& each) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr thrown;
  const auto take_turns = [&]() noexcept {
    try {
      for (std::size_t i = next++; i < count; i = next++) {
        if (!each(i)) next = count;
      }
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!thrown) thrown = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  try {
    others.reserve(std::min(threads, count));  // a vector that grew and threw would take running threads with it
    for (std::size_t i = 1; i < std::min(threads, count); ++i) others.emplace_back(take_turns);
  } catch (const std::exception&) {
    // No more threads to be had, or no memory for them.
  }
  take_turns();
  for (auto& thread : others) thread.join();
  if (thrown) std::rethrow_exception(thrown);
}

std::size_t core_count() {
  // Larger until it holds all cores of the machine: the call refuses masks that are too small.
  for (std::size_t cores = 1024; cores <= 1U << 20; cores *= 2) {
    std::vector<cpu_set_t> mask(cores / 8 / sizeof(cpu_set_t));
    const std::size_t bytes = mask.size() * sizeof(cpu_set_t);
    if (::sched_getaffinity(0, bytes, mask.data()) == 0) {
      return static_cast<std::size_t>(std::max(1, CPU_COUNT_S(bytes, mask.data())));
    }
  }
  return std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace weft
