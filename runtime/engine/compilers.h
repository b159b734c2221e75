#pragma once

#include "compiler/target/target.h"
#include "kernels_cache/entry.h"
#include "runtime/engine/prepared.h"
#include "runtime/nvrtc/compile.h"

#include <weft/weft.h>

#include <string>

namespace weft {

/// LLVM for CPUs and NVRTC for GPUs, as one. Thread-safe; nothing is opened before something is compiled.
class Compilers {
 public:
  explicit Compilers(const EngineOptions& options);

  /// What of the target's compiler goes into a key. Environment error where there is none.
  Result<std::string> identity(const Target& target) const;

  /// A kernel's key in stores.
  Result<cache::Key> key_of(const Prepared& kernel) const;

  /// What a compiler makes of a kernel's text, without launch and build time, which are the caller's.
  Result<cache::Entry> compile(const Prepared& kernel) const;

 private:
  std::string llvm_, nvrtc_;
  nvrtc::Limits limits_;
};

/// What an engine tells NVRTC about the pattern of this name.
nvrtc::Options nvrtc_options(const EngineOptions& options, const std::string& name);

}  // namespace weft
