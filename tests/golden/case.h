#pragma once

#include "compiler/base/result.h"
#include "compiler/ir/lower.h"
#include "compiler/ir/pattern.h"
#include "compiler/ir/pattern_gradients.h"
#include "compiler/ir/pattern_interpreter.h"
#include "compiler/ir/tensor.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

/// Cases of tests/golden/README.md.
namespace weft::golden {

/// What a case says of gradients.
struct GoldenGradients {
  ir::Tensor d_o;
  ir::Gradients meant;
  /// Of the largest magnitude in each tensor: the case's own, or that of semantics section 10 where it is less.
  double bound = 0;
};

struct GoldenCase {
  std::string name;
  ir::Pattern pattern;
  ir::Shape shape;
  ir::DType dtype = ir::DType::f32;
  ir::InputValues inputs;
  ir::Tensor q, k, v;
  ir::Tensor o;
  std::optional<ir::Tensor> lse;  ///< where the library gives it
  ir::Bounds bounds;              ///< of semantics section 10
  std::optional<GoldenGradients> gradients = {};
};

/// Names of all cases of kind `run`.
std::vector<std::string> case_names();
Result<GoldenCase> load(const std::string& name);

/// Pattern `name` of a file, with its parameters bound.
Result<ir::Pattern> pattern_of(const std::filesystem::path& file, const std::string& name, const ir::Params& params);

/// What is wrong with a result, or empty.
std::string difference(const GoldenCase& golden, const ir::Outcome& found);
/// The same of gradients, which the case must have.
std::string difference(const GoldenCase& golden, const ir::Gradients& found);

}  // namespace weft::golden
