#pragma once

#include "codegen/args.h"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace weft::codegen {

/// Of a number from 1 to 2^31; less counts as 1. With e = factor * by - 2^(31 + shift), which is below `by`, number *
/// factor / 2^(31 + shift) is more than number / by by number * e / (by * 2^(31 + shift)): by less than 1 / by, as the
/// number is below 2^31 and `by` at most 2^shift, and so the quotient is the same.
inline weft_divisor divisor_of(std::int64_t by) {
  const auto d = static_cast<std::uint64_t>(std::max<std::int64_t>(by, 1));
  const auto shift = static_cast<std::uint32_t>(std::bit_width(d - 1));
  const auto factor = ((std::uint64_t{1} << (31 + shift)) + d - 1) / d;
  return {.by = static_cast<std::int64_t>(d), .factor = static_cast<std::uint32_t>(factor), .shift = shift};
}

}  // namespace weft::codegen
