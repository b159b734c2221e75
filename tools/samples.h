#pragma once

#include <algorithm>
#include <vector>

/// Of repeated measurements; at least one.
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

}  // namespace weft::tools
