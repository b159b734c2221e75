#pragma once

#include "compiler/base/result.h"
#include "compiler/ir/pattern.h"
#include "tools/comparison.h"
#include "tools/console.h"

#include <weft/weft.h>

#include <optional>
#include <string>
#include <vector>

namespace weft::tools {

/// One gradient against the interpreter's.
struct GradientError {
  std::string tensor;  ///< `dq`, `dk`, `dv`, or an input's name
  double max_error = 0, bound = 0;
  bool ok() const { return max_error <= bound; }
};

/// A backward pass against the interpreter's, by the bounds of section 10 of the semantics: those of its gradients that
/// are wanted. `rows`: no others give anything, as dO is 0 in them; none: all. `forward`: what bounds depend on. Keys
/// are chosen as the lists of `args` say, which are the forward's.
Result<std::vector<GradientError>> compare_gradients(const ir::Pattern& pattern, const RunArgs& args, DType dtype,
                                                     const Comparison& forward,
                                                     const std::optional<std::vector<std::int64_t>>& rows,
                                                     const Console& console);

}  // namespace weft::tools
