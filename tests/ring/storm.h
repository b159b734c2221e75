#pragma once

#include <weft/ring.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

/// A transport between threads that delivers late and in another order, and has faults.
namespace weft::test {

struct Storm {
  std::uint64_t seed = 1;
  int most_delay_us = 2000;  ///< of each message, drawn

  /// One fault, of what this rank does in its step number `step`, counted from 0.
  enum class Fault { none, stops, leaves, drops, sends_twice, sends_less } fault = Fault::none;
  int rank = 0;
  std::uint64_t step = 0;
};

/// A rank that stops does not come back before all others have ended.
std::vector<std::unique_ptr<Transport>> stormy_transports(int ranks, const Storm& storm);

}  // namespace weft::test
