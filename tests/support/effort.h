#pragma once

#include <cstddef>
#include <cstdlib>
#include <string_view>

/// How much a test tries of what has no end: `./dev test` some of it, `./dev test --all` (WEFT_TEST_ALL) more.
namespace weft::test {

inline bool tries_all() { return std::getenv("WEFT_TEST_ALL") != nullptr; }

template <typename T>
T effort(T usual, T all) {
  return tries_all() ? all : usual;
}

/// How many times as much is drawn at random: WEFT_RANDOM_TIMES, for whoever looks for what nobody has found.
inline int random_times() {
  const char* times = std::getenv("WEFT_RANDOM_TIMES");
  return times != nullptr ? std::atoi(times) : 1;
}

/// Random programs on a target, so many times as many with --all; not on emulated GPUs, where the host's compiler takes
/// two seconds for each of their kernels.
inline int programs_on(std::string_view target, int usual, int times) {
  return usual * random_times() * effort(1, target.starts_with("emulate") ? 1 : times);
}

/// Where `of` take turns, is item `number` the one's? Together they see all.
inline bool takes_turn(std::size_t number, std::size_t one, std::size_t of) { return number % of == one; }

}  // namespace weft::test
