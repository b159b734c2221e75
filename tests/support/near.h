#pragma once

#include "compiler/base/float16.h"

#include <weft/weft.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

/// How far results are apart.
namespace weft::test {

inline std::vector<float> numbers_of(const std::vector<std::byte>& bytes, DType dtype) {
  std::vector<float> out(bytes.size() / size_of(dtype));
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (dtype == DType::f32) {
      std::memcpy(&out[i], &bytes[4 * i], 4);
      continue;
    }
    std::uint16_t half = 0;
    std::memcpy(&half, &bytes[2 * i], 2);
    out[i] = dtype == DType::f16 ? half_to_float(half) : bf16_to_float(half);
  }
  return out;
}

/// The largest difference, relative to 1 and the number itself.
inline double apart(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;  // both may be minus infinity
    const double x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    const double off = std::abs(x - y) / std::max(1.0, std::abs(x));
    most = std::isnan(off) ? std::numeric_limits<double>::infinity() : std::max(most, off);
  }
  return most;
}

}  // namespace weft::test
