#pragma once

#include <optional>
#include <span>

namespace weft {

/// Seconds that a loop of either instruction took, one behind the other.
struct Bf16DotTurn {
  double single, pairs;
};

/// The rate that turns say, taken in any weather: of the quarter that was least disturbed (both loops together took the
/// least time) the median of each turn's own rate. So a neighbour on the same core for less than three quarters of the
/// time, and a clock that changes, say nothing. Nothing of a clock that stood still.
std::optional<double> bf16_dot_rate_of(std::span<const Bf16DotTurn> turns);

/// Products that vdpbf16ps does on this processor in the time of one by vfmadd on f32, vectors of 512 bits both: about
/// 2 where pairs go at the full rate, about 1 where at half of it. Measured now, on the calling thread, in some ten
/// milliseconds, and compiled by nobody. Nothing where the processor lacks the instruction.
std::optional<double> measure_bf16_dot_rate();

}  // namespace weft
