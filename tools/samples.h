#pragma once

#include <algorithm>
#include <vector>

/// Figures of repeated measurements, of which there is one at least.
namespace weft::tools {

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

inline double quartile(std::vector<double> values, double at) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(at * static_cast<double>(values.size() - 1) + 0.5)];
}

/// Half of the samples lie within so much of the median, as a share of it.
inline double spread(const std::vector<double>& values) {
  return (quartile(values, 0.75) - quartile(values, 0.25)) / median(values);
}

/// With a wider spread, what two medians differ by is the machine's and not the kernels'.
inline constexpr double kNoisy = 0.15;

}  // namespace weft::tools
