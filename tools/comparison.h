#pragma once

#include "compiler/base/result.h"
#include "compiler/ir/pattern.h"
#include "compiler/ir/tensor.h"
#include "tools/console.h"

#include <weft/weft.h>

#include <string>
#include <vector>

namespace weft::tools {

/// A kernel's result against the interpreter's, by the bounds of section 10 of the semantics.
struct Comparison {
  bool ok = false;
  double max_abs_score = 0;
  double largest_sum = 1;
  double max_error = 0, bound = 0;          ///< of O
  double lse_max_error = 0, lse_bound = 0;  ///< 0 where there is no LSE
  std::int64_t rows = 0;                    ///< of each head that were compared
  bool sampled = false;
  std::size_t lists = 0;             ///< of chosen keys that were looked at; the interpreter took these choices
  std::vector<std::string> strange;  ///< of Q, K and V: the first number that is NaN or infinite, and how many are
  ir::Clamped clamped = {};          ///< reads beyond the ends of inputs and lists, on these rows
  std::string wrong_choice;          ///< the first that semantics section 8 does not allow
};

/// Distance that no bound admits where one of them is NaN, or an infinity that the other is not.
double distance(double a, double b);
/// In f64.
ir::Tensor values_of(const OutputView& view);
/// The largest magnitude of the numbers that are finite.
double largest(const ir::Tensor& tensor);

/// The rows of a launch that are compared: all, or above 2^28 pairs × heads 64 seeded ones of each head.
struct CheckedRows {
  std::vector<std::int64_t> rows;
  bool sampled = false;
};
CheckedRows checked_rows(const ir::Shape& shape, std::uint64_t seed);

/// By the choices of keys that stand in the lists of `args`, which must be right; of checked_rows().
Result<Comparison> compare_with_interpreter(const ir::Pattern& pattern, const RunArgs& args, DType dtype,
                                            std::uint64_t seed, const Console& console);

}  // namespace weft::tools
