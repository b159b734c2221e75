#pragma once

#include "codegen/source.h"
#include "kernels_cache/key.h"
#include "runtime/engine/front.h"
#include "runtime/engine/texts.h"

#include <memory>
#include <optional>
#include <string>

namespace weft {

/// A plan and what stores are asked by: all there is to do before that. It needs neither stores nor compilers.
struct Prepared {
  Planned planned;
  std::shared_ptr<const Texts> texts;
  ir::Regime regime = ir::Regime::many_queries;  ///< that it is the text and the binary for
  codegen::Names names;
  std::string launch;  ///< what the runtime must know beside the binary
  /// Everything that can change what the binary is, but the compiler: bundles are asked by it where there is none,
  /// and with the compiler's identity it becomes the key of the store.
  cache::Key request;
  std::optional<cache::Key> memo = {};  ///< to note it under in stores (memo.h)
  double emit_ms = 0;
  std::string command = {};  ///< that would add it to a bundle, for the message where nothing may be compiled

  /// What a compiler is given.
  const std::string& source() const { return texts->source(regime).text; }
};
Prepared prepare(Planned planned);

/// Another regime of the same kernel. No note is taken of it: its text is short.
Prepared of_regime(const Prepared& kernel, ir::Regime regime);

/// The same of a plan whose request and launch an earlier prepare() came to, and without its texts.
Prepared recalled(Planned planned, cache::Key request, std::string launch);

/// For people, what is compiled in: `bf16, dim 64`, `f32, dim 64, value dim 32, branch lse, few queries`.
std::string variant_of(const Prepared& kernel);

}  // namespace weft
