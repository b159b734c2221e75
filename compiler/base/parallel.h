#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

namespace weft {

/// Calls each(i) for every i below `count`, by at most so many threads that take turns, this one among them; returns
/// when all have returned. Where `each` returns false nothing further is begun. Where the system gives fewer threads,
/// those do it all.
template <typename Each>
void in_parallel(std::size_t count, std::size_t threads, const Each& each) {
  std::atomic<std::size_t> next{0};
  const auto take_turns = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      if (!each(i)) next = count;
    }
  };
  std::vector<std::thread> others;
  try {
    for (std::size_t i = 1; i < std::min(threads, count); ++i) others.emplace_back(take_turns);
  } catch (const std::system_error&) {
    // No more threads to be had.
  }
  take_turns();
  for (auto& thread : others) thread.join();
}

inline std::size_t core_count() { return std::max(1U, std::thread::hardware_concurrency()); }

}  // namespace weft
