#include "runtime/engine/compilers.h"

#include "runtime/cuda/driver.h"
#include "runtime/engine/backends.h"
#include "runtime/engine/engine_checks.h"
#include "runtime/llvm/compile.h"
#include "runtime/llvm/library.h"
#include "runtime/llvm/search.h"
#include "runtime/nvrtc/search.h"

#include <mutex>

namespace weft {

namespace {

nvrtc::Limits limits_of(const EngineOptions& options) {
  return {.deadline = duration_of(options.deadline_ms),
          .memory_bytes = static_cast<std::uint64_t>(options.memory_bytes)};
}

}  // namespace

nvrtc::Options nvrtc_options(const EngineOptions& options, const std::string& name) {
  return {.pattern = name, .limits = limits_of(options)};
}

Compilers::Compilers(const EngineOptions& options, For where)
    : llvm_(options.llvm), nvrtc_(options.nvrtc), limits_(limits_of(options)), where_(where) {}

nvrtc::Runnable Compilers::runnable() const {
  if (where_ == For::any_machine) return {};
  const std::lock_guard lock(mutex_);
  if (!runnable_) {
    const auto driver = cuda::Driver::open();
    runnable_.emplace().newest_major = driver ? (*driver)->version() / 1000 : 0;
  }
  return *runnable_;
}

bool Compilers::pass_over(const Target& target, const std::string& identity) const {
  // The same compiler may be found at several places, and makes the same of a text at each.
  while (true) {
    const auto now = nvrtc::locate(target, nvrtc_, runnable());
    if (!now) return false;
    if ((*now)->identity() != identity) return true;
    const std::lock_guard lock(mutex_);
    if (!runnable_) return false;
    runnable_->refused.push_back((*now)->path());
  }
}

Result<std::string> Compilers::identity(const Target& target) const {
  return (this->*backend_of(target).identity)(target);
}

Result<cache::Entry> Compilers::build(const Compilation& kernel, ir::Regime regime) const {
  return (this->*kernel.backend.build)(kernel, regime);
}

Result<cache::Key> Compilers::key_of(const Target& target, const Binary& binary) const {
  WEFT_TRY(const auto compiler, identity(target));
  auto key = binary.request;
  key.add("compiler", compiler);
  return key;
}

Result<std::string> Compilers::identity_of_llvm(const Target&) const { return llvm::identity(llvm_); }

Result<std::string> Compilers::identity_of_nvrtc(const Target& target) const {
  return nvrtc::identity(target, nvrtc_, runnable());
}

Result<cache::Entry> Compilers::build_for_cpu(const Compilation& kernel, ir::Regime regime) const {
  WEFT_TRY(const auto library, llvm::Library::open(llvm_));
  WEFT_TRY(auto object, llvm::compile(*library, kernel.source(regime).text, kernel.target));
  return cache::Entry{.binary = std::move(object), .plan = kernel.plan_text()};
}

Result<cache::Entry> Compilers::build_for_gpu(const Compilation& kernel, ir::Regime regime) const {
  WEFT_TRY(const auto library, nvrtc::locate(kernel.target, nvrtc_, runnable()));
  WEFT_TRY(auto compiled, nvrtc::compile(*library, kernel.source(regime).text, kernel.target,
                                         {.pattern = kernel.plan.name, .limits = limits_}));
  const auto registers = compiled.registers(), spilled = compiled.spill_bytes();
  cache::Entry entry{.binary = std::move(compiled.cubin), .plan = kernel.plan_text()};
  if (kernel.target.is_ptx) return entry;  // the driver has not compiled it yet
  entry.registers = static_cast<std::uint32_t>(registers);
  entry.spill_bytes = static_cast<std::uint32_t>(spilled);
  return entry;
}

}  // namespace weft
