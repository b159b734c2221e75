#pragma once

#include "tools/operands.h"
#include "tools/pattern_file.h"

#include <vector>

namespace weft::tools {

/// What a backward pass has beside the operands of its forward, owned.
struct GradientOperands {
  Array d_out;
  Array dq, dk, dv;             ///< without bytes: not wanted
  std::vector<Array> d_inputs;  ///< in the order of Pattern::inputs, the same

  /// Those of the forward, which must have run, with these. Views stay valid until the next call.
  RunArgs args(RunArgs forward, const Operands& operands);
  /// Poisons the gradients: what is not written shows.
  void poison();
  std::int64_t bytes() const;
  /// Leaves of dO what it has in these rows of the whole sequence, and zeros elsewhere.
  void keep_rows(const std::vector<std::int64_t>& rows, const Operands& operands);

 private:
  std::vector<NamedOutput> views_;
};

/// What is wrong with the gradients that a command line asks for, whatever the pattern is; empty: nothing.
std::string wrong_gradients(const Options& options);

/// dO as `--grad` says, of the rows that the operands have, and room for what is wanted: the gradients that the options
/// name, or all there are where they name none or want a check. User errors: a dO that does not fit O, and names that
/// are no f32 inputs.
Result<GradientOperands> gradient_operands(const Operands& operands, const Options& options,
                                           const ir::Pattern& pattern);

/// For measurements: runs the forward of `compile`, which leaves O and LSE in the operands, and draws a dO for all
/// gradients that there are.
Result<GradientOperands> gradients_after_forward(const Engine& engine, const PatternFile& file, CompileOptions compile,
                                                 Operands& operands, const Options& options);

/// To the files that the options name.
Status write_gradients(const GradientOperands& gradients, const Operands& operands, const Options& options);

}  // namespace weft::tools
