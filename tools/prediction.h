#pragma once

#include "compiler/target/target.h"
#include "tools/workload.h"

#include <cstdint>
#include <string>

namespace weft::tools {

/// The roofline of a machine that was not measured: `weft bench` measures it.
struct Prediction {
  double ms = 0, share_of_peak = 0;
  std::string from;  ///< what was assumed
};

/// For a CPU target this machine, for a GPU target the card that its row names.
Prediction predict(const Workload& load, const Target& target);

/// Blocks of a kernel that an SM has room for at once; 0 where not even one fits.
int blocks_per_sm(const Target& target, int threads, int registers, std::int64_t shared_bytes);

}  // namespace weft::tools
