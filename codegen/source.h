#pragma once

#include "compiler/ir/steps.h"

#include <string>

namespace weft::codegen {

/// The kernels in a text.
struct Names {
  std::string symbol;
  std::string merge = {};         ///< of what merges chunks of keys; empty where keys are never cut
  std::string prepass = {};       ///< of what runs before it; empty where nothing does, or the host does it
  std::string input_tables = {};  ///< of gradients of inputs: what begins and ends their sums
  std::string sizes = {};         ///< of what finds out what entries are where their sizes stand in the GPU's memory
  std::string terms = {};         ///< of gradients: what finds out of each query what its pairs want of it
};

/// The kernel that a step runs; empty where the text has none that does.
const std::string& name_of(const Names& names, ir::Step::Kernel kernel);

/// A plan spelled for one target: text for its compiler, and the names of the kernels in it.
struct Source : Names {
  std::string text;
};

}  // namespace weft::codegen
