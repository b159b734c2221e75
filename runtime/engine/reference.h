#pragma once

#include "compiler/base/result.h"
#include "compiler/ir/chosen_keys.h"
#include "compiler/ir/pattern_gradients.h"
#include "compiler/ir/pattern_interpreter.h"
#include "runtime/engine/launch_checks.h"

#include <weft/weft.h>

#include <optional>
#include <string>
#include <vector>

/// The f64 interpreter behind the same tensors as a kernel: the target `interpreter`, and what `--check`
/// compares with.
namespace weft {

/// The view's values in f64, densely; integers are exact.
ir::Tensor to_f64(const TensorView& view);
/// Rounded once to the view's type. Extents agree.
void from_f64(const ir::Tensor& tensor, const OutputView& view);

/// The operands of a launch in f64, ready to be evaluated row by row.
class Reference {
 public:
  Reference(const ir::Pattern& pattern, const Launch& launch, const RunArgs& args);

  const ir::Tensor& q() const { return q_; }
  const ir::Tensor& k() const { return k_; }
  const ir::Tensor& v() const { return v_; }

  Result<ir::Outcome> all() const;
  /// Only these row numbers, of every batch entry and head; the others stay 0. `chosen`: as of ir::interpret_rows.
  Result<ir::Outcome> rows(const std::vector<std::int64_t>& rows,
                           const std::vector<ir::ChosenKeys>* chosen = nullptr) const;
  /// dO, dLSE and dQ have the rows of the launch. `chosen`, `rows`: as of ir::interpret_gradients.
  Result<ir::Gradients> gradients(ir::Tensor d_o, std::optional<ir::Tensor> d_lse = {},
                                  const std::vector<ir::ChosenKeys>* chosen = nullptr,
                                  const std::vector<std::int64_t>* rows = nullptr) const;
  /// ir::wrong_choice of these operands.
  std::string wrong_choice(const ir::ChosenKeys& keys, const std::vector<std::int64_t>& rows) const;
  /// Fills the lists of the launch.
  void choose(const Launch& launch) const;

 private:
  const ir::Pattern& pattern_;
  ir::Shape shape_;
  ir::InputValues inputs_;
  ir::Tensor q_, k_, v_;
};

/// Writes O, LSE and per-branch LSE as far as they are asked for.
Status run_interpreter(const ir::Pattern& pattern, const Launch& launch, const RunArgs& args);
/// Writes the gradients that are asked for.
Status interpret_backward(const ir::Pattern& pattern, const Launch& launch, const RunArgs& args);

}  // namespace weft
