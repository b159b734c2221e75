#pragma once

#include "compiler/target/target.h"
#include "laboratory/explain/workload.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft::explain {

/// What a machine that was not measured should need: `weft bench` measures it.
struct Prediction {
  double ms = 0;
  double share_of_peak = 0;   ///< useful FLOPs over what the machine could do in that time
  double executed_share = 0;  ///< the same of all FLOPs that are computed
  double loop_share = 1;      ///< of the peak, that full blocks are taken to reach
  std::string from;  ///< `sass`: the kernel's machine code says how fast its loop is; `model`: the kernel's class
  std::string assumed;
  /// Of gradients on GPUs the passes, each of which has a kernel, with shares of the peak of what its kernel multiplies
  /// with. The first shares above are those of all.
  struct Pass {
    std::string of;  ///< the tensors that it is there for
    double ms = 0, executed_share = 0, loop_share = 0;
    std::string from;
  };
  std::vector<Pass> passes = {};
};

struct Compiled;

/// For a CPU target this machine, whose peak is measured for it (`llvm` as in Library::open; 0.1 s) and, for few
/// queries, what it reads of memory; for a GPU target the card that its row names. `heads_first`: of tensors [B, H, n,
/// d], not [B, n, H, d].
/// Of `kernels` there is one for each text that a launch needs, as ir::regimes_of has them. Of gradients on CPUs there
/// is no model.
std::optional<Prediction> predict(const Workload& load, const Planned& planned, const std::vector<Compiled>& kernels,
                                  const ir::Shape& shape, bool heads_first, const std::string& llvm);

/// … for a GPU.
Prediction predict_gpu(const Workload& load, const Planned& planned, const std::vector<Compiled>& kernels,
                       const ir::Shape& shape);

/// Blocks of a kernel that an SM has room for at once; 0 where not even one fits.
int blocks_per_sm(const Target& target, int threads, int registers, std::int64_t shared_bytes);

}  // namespace weft::explain
