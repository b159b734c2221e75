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
  double max_error = 0, bound = 0;          ///< of O
  double lse_max_error = 0, lse_bound = 0;  ///< 0 where there is no LSE
  std::int64_t rows = 0;                    ///< of each head that were compared
  bool sampled = false;
  std::size_t lists = 0;             ///< of chosen keys that were looked at; the interpreter took these choices
  std::vector<std::string> strange;  ///< of Q, K and V: the first number that is NaN or infinite, and how many are
  ir::Clamped clamped = {};          ///< reads beyond the ends of inputs and lists, on these rows
  std::string wrong_choice;          ///< the first that semantics section 8 does not allow
};

/// By the choices of keys that stand in the lists of `args`, which must be right. Above 2^28 pairs × heads: 64 seeded
/// rows of each head.
Result<Comparison> compare_with_interpreter(const ir::Pattern& pattern, const RunArgs& args, DType dtype,
                                            std::uint64_t seed, const Console& console);

}  // namespace weft::tools
