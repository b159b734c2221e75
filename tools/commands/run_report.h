#pragma once

#include "tools/comparison.h"
#include "tools/gradient_comparison.h"
#include "tools/gradient_operands.h"
#include "tools/operands.h"
#include "tools/pattern_file.h"
#include "tools/ring_run.h"

#include <optional>
#include <string>
#include <vector>

namespace weft::tools {

/// What `weft run` runs.
struct Job {
  PatternFile file;
  Operands operands = {};
  Sizes sizes = {};
  std::vector<ChosenList> lists = {};  ///< that are asked for, or checked
  std::optional<GradientOperands> gradients = {};
};

/// One of its passes.
struct Pass {
  Kernel kernel;
  BuildTimes prepared = {};  ///< what the launch's shape took beside the kernel
  double ms = 0;
};

/// What came of it.
struct RunReport {
  Pass forward;
  std::optional<Pass> backward = {};
  std::optional<Comparison> check = {};
  std::vector<GradientError> gradients = {};  ///< of the backward pass, with `--check`
  std::optional<RingRan> ring = {};           ///< with `--ring`

  bool gradients_ok() const;
  /// Or are they another rank's to print and write?
  bool has_results() const { return !ring || ring->rank == 0; }
};

/// Of `--lists`.
std::string list_file(const Options& options, std::size_t number);

/// For `--prepare`: the passes that could run now.
void print_prepared(const Job& job, const std::vector<Pass>& passes, const Console& console);

/// On standard output, as text or JSON.
void print_report(const Job& job, const RunReport& report, const Options& options, const Console& console);

}  // namespace weft::tools
