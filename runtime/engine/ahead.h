#pragma once

#include "kernels_cache/bundle/kernel.h"
#include "runtime/engine/binaries.h"
#include "runtime/engine/compilers.h"

#include <weft/weft.h>

#include <memory>
#include <string>
#include <vector>

namespace weft {

/// Compiling ahead of time: kernels for any target, to be kept in a bundle. Nothing is loaded or executed, so neither
/// a GPU nor a CPU of that kind is needed. Thread-safe.
class Ahead {
 public:
  /// Finished kernels are kept in the options' store, from which an interrupted build goes on. CUDA is compiled in
  /// worker processes, always: NVRTC ends the process it runs in when memory runs out.
  explicit Ahead(EngineOptions options);

  /// One binary to make. Those with the same request are the same.
  struct Work {
    std::shared_ptr<const Compilation> kernel;
    Binary binary;
    std::string variant;  ///< for people
  };
  /// Each regime of what is asked for. Errors are as from Engine::compile.
  static Result<std::vector<Work>> plan(const Source& source, const CompileOptions& options);

  struct Made {
    bundle::Kernel kernel;
    bool compiled = false;  ///< else it was finished before
  };
  Result<Made> make(const Work& work) const;

  /// All that a bundle holds of `work`, with the binary of other work of the same request.
  static bundle::Kernel named_for(const Work& work, bundle::Kernel kernel);

  std::vector<std::string> take_warnings() const { return binaries_.take_warnings(); }

 private:
  EngineOptions options_;
  Binaries binaries_;
  Compilers compilers_;
};

}  // namespace weft
