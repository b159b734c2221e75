#pragma once

#include "compiler/base/fork_safe.h"
#include "compiler/target/target.h"
#include "kernels_cache/entry.h"
#include "runtime/engine/compilation.h"
#include "runtime/nvrtc/compile.h"
#include "runtime/nvrtc/search.h"

#include <weft/weft.h>

#include <optional>
#include <string>

namespace weft {

/// LLVM for CPUs and NVRTC for GPUs, as one. Thread-safe; nothing is opened before something is compiled.
class Compilers {
 public:
  /// Where kernels will run: here, by an NVRTC that this machine's driver keeps up with, or on machines that nobody
  /// knows.
  enum class For { this_machine, any_machine };
  explicit Compilers(const EngineOptions& options, For where = For::this_machine);

  /// What of the target's compiler goes into a key. Environment error where there is none.
  Result<std::string> identity(const Target& target) const;

  /// A binary's key in stores.
  Result<cache::Key> key_of(const Target& target, const Binary& binary) const;

  /// What a compiler makes of a kernel's text, without launch and build time, which are the caller's.
  Result<cache::Entry> build(const Compilation& kernel, ir::Regime regime) const;

  /// The driver does not take what the compiler of this identity made. Is there another for the target? That is its
  /// compiler from here on.
  bool pass_over(const Target& target, const std::string& identity) const;

  // Rows of backends.cpp.
  Result<std::string> identity_of_llvm(const Target& target) const;
  /// As EngineOptions has it.
  const std::string& llvm() const { return llvm_; }
  Result<std::string> identity_of_nvrtc(const Target& target) const;
  Result<cache::Entry> build_for_cpu(const Compilation& kernel, ir::Regime regime) const;
  Result<cache::Entry> build_for_gpu(const Compilation& kernel, ir::Regime regime) const;

 private:
  nvrtc::Runnable runnable() const;

  std::string llvm_, nvrtc_;
  nvrtc::Limits limits_;
  For where_;
  mutable ForkSafe<> mutex_;
  mutable std::optional<nvrtc::Runnable> runnable_;  ///< empty until the driver is asked
};

/// What an engine tells NVRTC about the pattern of this name.
nvrtc::Options nvrtc_options(const EngineOptions& options, const std::string& name);

}  // namespace weft
