#include "compiler/ir/merge.h"

#include <algorithm>
#include <cmath>

namespace weft::ir {
namespace {

struct Weights {
  double into = 0, part = 0;  ///< of the two outputs; both 0 where neither side has keys
  double lse = 0;
};

Weights weights_of(double l1, double l2) {
  const double m = std::max(l1, l2);
  if (std::isinf(m) && m < 0) return {0, 0, m};
  const double a = std::exp(l1 - m), c = std::exp(l2 - m);
  return {a / (a + c), c / (a + c), m + std::log(a + c)};
}

}  // namespace

void merge(Outcome& into, const Outcome& part) {
  const auto& extents = into.o.shape;
  for (std::int64_t b = 0; b < extents[0]; ++b) {
    for (std::int64_t row = 0; row < extents[1]; ++row) {
      for (std::int64_t h = 0; h < extents[2]; ++h) {
        const auto at = static_cast<std::size_t>((b * extents[2] + h) * extents[1] + row);
        Weights w = {1, 1, 0};
        if (!into.lse.data.empty()) {
          w = weights_of(into.lse.data[at], part.lse.data[at]);
          into.lse.data[at] = w.lse;
        }
        for (std::int64_t i = 0; i < extents[3]; ++i) {
          double& o = into.o.at(b, row, h, i);
          o = w.into * o + w.part * part.o.at(b, row, h, i);
        }
      }
    }
  }
  into.max_abs_score = std::max(into.max_abs_score, part.max_abs_score);
}

}  // namespace weft::ir
