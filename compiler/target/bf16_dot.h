#pragma once

#include <optional>

namespace weft {

/// Products that vdpbf16ps does on this processor in the time of one by vfmadd on f32, vectors of 512 bits both: about
/// 2 where pairs go at the full rate, about 1 where at half of it. Measured now, on the calling thread, in about a
/// millisecond, and compiled by nobody. Nothing where the processor lacks the instruction.
std::optional<double> measure_bf16_dot_rate();

}  // namespace weft
