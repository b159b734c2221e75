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

/// On emulated GPUs compiling costs, a second each: sm_61 and another take turns with what both are to compute, but
/// with
/// --all, where each computes everything. All else is computed on every CPU.
inline bool takes_turn_on(std::string_view target, std::size_t number) {
  if (tries_all() || !target.starts_with("emulate")) return true;
  return takes_turn(number, target.ends_with("sm_61") ? 0 : 1, 2);
}

}  // namespace weft::test
