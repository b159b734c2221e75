#pragma once

#include "compiler/ir/expr.h"
#include "compiler/ir/pattern.h"

#include <cstdint>
#include <vector>

/// Which values an integer expression can take, so that kernels compute in 32 bits what fits there.
namespace weft::codegen::cuda {

/// Positions and lengths of a launch are at most this, which the launch checks for kernels with expressions
/// (runtime/engine/gpu_executor.cpp): sums and differences of two positions and a head are then an `int`.
inline constexpr std::int64_t kFarthestPosition = std::int64_t{1} << 29;

struct Interval {
  std::int64_t lo = INT64_MIN, hi = INT64_MAX;
  bool may_wrap = false;  ///< the operation itself can leave 64 bits: then its value is anything

  bool is_natural() const { return lo >= 0; }
  bool fits_int() const { return lo >= INT32_MIN && hi <= INT32_MAX; }
  bool operator==(const Interval&) const = default;
};

Interval interval_of(ir::Variable v);
Interval interval_of(ir::InputType t);

/// Of one operation on integers, from those of its operands; `select` takes the two values only.
Interval interval_of(ir::Op op, const std::vector<Interval>& args);

}  // namespace weft::codegen::cuda
