#pragma once

#include "tests/golden/case.h"
#include "tests/support/backward.h"

#include <string>

namespace weft::golden {

/// A case's gradients by the public face, of its dO, which it must have.
Result<ir::Gradients> gradients_by(const test::BackwardKernel& kernel, const GoldenCase& golden);
Result<ir::Gradients> gradients_on(const GoldenCase& golden, const std::string& target);

}  // namespace weft::golden
