#pragma once

#include "compiler/base/result.h"
#include "compiler/ir/lower.h"
#include "compiler/ir/pattern.h"
#include "compiler/ir/pattern_interpreter.h"
#include "compiler/ir/tensor.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

/// Cases of tests/golden/README.md.
namespace weft::golden {

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
};

/// Names of all cases of kind `run`.
std::vector<std::string> case_names();
Result<GoldenCase> load(const std::string& name);

/// Pattern `name` of a file, with its parameters bound.
Result<ir::Pattern> pattern_of(const std::filesystem::path& file, const std::string& name, const ir::Params& params);

/// What is wrong with a result, or empty.
std::string difference(const GoldenCase& golden, const ir::Outcome& found);

}  // namespace weft::golden
