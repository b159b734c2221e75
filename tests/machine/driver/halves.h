#pragma once

#include "tests/machine/driver/warp.h"

/// Values of 16 bits as f32, and back to the nearest.
namespace weft::machine {

float from_half(Word bits);
Word to_half(float value);
inline float from_bfloat(Word bits) { return std::bit_cast<float>(bits << 16); }
Word to_bfloat(float value);

}  // namespace weft::machine
