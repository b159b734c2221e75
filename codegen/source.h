#pragma once

#include "compiler/ir/steps.h"

#include <array>
#include <string>
#include <vector>

namespace weft::codegen {

/// The kernels in a text.
struct Names {
  std::string symbol;  ///< of what computes tiles, on a CPU of what gives the micro-kernels
  /// By Step::Kernel, that which runs such steps; empty where the text has none.
  std::array<std::string, ir::Step::kKernels> of_steps = {};

  const std::string& of(ir::Step::Kernel kernel) const { return of_steps[static_cast<std::size_t>(kernel)]; }
  /// Those beside `symbol`.
  std::vector<std::string> further() const {
    std::vector<std::string> out;
    for (const auto& name : of_steps) {
      if (!name.empty() && name != symbol) out.push_back(name);
    }
    return out;
  }
};

/// A plan spelled for one target: text for its compiler, and the names of the kernels in it.
struct Source : Names {
  std::string text;
};

}  // namespace weft::codegen
