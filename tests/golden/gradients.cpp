#include "tests/golden/gradients.h"

namespace weft::golden {

Result<ir::Gradients> gradients_by(const test::BackwardKernel& kernel, const GoldenCase& g) {
  return kernel.run({.pattern = g.pattern,
                     .shape = g.shape,
                     .dtype = g.dtype,
                     .q = g.q,
                     .k = g.k,
                     .v = g.v,
                     .inputs = g.inputs,
                     .d_o = g.gradients->d_o});
}

Result<ir::Gradients> gradients_on(const GoldenCase& g, const std::string& target) {
  WEFT_TRY(const auto kernel, test::BackwardKernel::make(g.pattern, g.shape, g.dtype, target));
  return gradients_by(kernel, g);
}

}  // namespace weft::golden
