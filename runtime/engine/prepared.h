#pragma once

#include "codegen/source.h"
#include "kernels_cache/key.h"
#include "runtime/engine/front.h"

#include <string>

namespace weft {

/// A plan and its texts: all there is to do before stores are asked and compilers started. It needs neither.
struct Prepared {
  Planned planned;
  std::string plan_text;
  codegen::Source source;  ///< what a compiler is given
  std::string launch;      ///< what the runtime must know beside the binary
  /// Everything that can change what the binary is, but the compiler: bundles are asked by it where there is none,
  /// and with the compiler's identity it becomes the key of the store.
  cache::Key request;
  double emit_ms = 0;
  std::string command = {};  ///< that would add it to a bundle, for the message where nothing may be compiled
};
Prepared prepare(Planned planned);

/// For people, what is compiled in: `bf16, dim 64`, `f32, dim 64, value dim 32, branch lse`.
std::string variant_of(const ir::Bind& bind);

}  // namespace weft
