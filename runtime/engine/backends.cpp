#include "runtime/engine/backends.h"

#include "codegen/args.h"
#include "codegen/cpu/emit.h"
#include "codegen/cuda/emit.h"
#include "runtime/cuda/module.h"
#include "runtime/llvm/compile.h"
#include "runtime/nvrtc/compile.h"
#include "runtime/object/elf.h"

#include <fmt/format.h>

namespace weft {

namespace {

std::string llvm_options() { return llvm::Options{}.text(); }
std::string nvrtc_options() { return nvrtc::Options{}.text(); }

std::string launch_of_cpu(const ir::Plan& plan) {
  return fmt::format("abi {}\nsymbol {}\n", kWeftArgsAbi, codegen::cpu::names(plan, ir::Regime::many_queries).symbol);
}

/// Of all texts: what one is launched with goes by the plan, too.
std::string launch_of_gpu(const ir::Plan& plan) {
  auto text = fmt::format("abi {}\n", kWeftArgsAbi);
  for (const auto regime : ir::regimes_of(plan)) {
    const auto names = codegen::cuda::names(plan, regime);
    const auto shared = codegen::cuda::shared_memory(plan, regime);
    text += fmt::format("{}: symbol {} threads {} shared_fixed {} shared_per_term {}\n", ir::to_string(regime),
                        names.symbol, ir::plan_of(plan, regime).choices.threads, shared.fixed, shared.per_term);
    for (const auto& further : names.further()) text += fmt::format("also {}\n", further);
    if (shared.prepass > 0) text += fmt::format("prepass threads {} shared {}\n", ir::kPrepassThreads, shared.prepass);
  }
  return text;
}

Status check_object(const cache::Entry& entry) {
  WEFT_CHECK(object::read_elf_object(entry.binary, "it"));
  return done;
}

Status check_cubin(const cache::Entry& entry) {
  const bool loads = cuda::is_cubin(entry.binary) || cuda::is_ptx(entry.binary);
  return loads ? Status(done) : internal_error("it is no cubin");
}

/// In the order of Destination::Kind. What is emulated is not stored: what the host's compiler makes is not passive
/// data.
constexpr Backend kBackends[] = {
    {.name = "interpreter",
     .options = nullptr,
     .names = nullptr,
     .launch = nullptr,
     .emit = nullptr,
     .identity = nullptr,
     .build = nullptr,
     .check = nullptr,
     .load = load_interpreter},
    {.name = "cpu",
     .options = llvm_options,
     .names = codegen::cpu::names,
     .launch = launch_of_cpu,
     .emit = codegen::cpu::emit,
     .identity = &Compilers::identity_of_llvm,
     .build = &Compilers::build_for_cpu,
     .check = check_object,
     .load = load_cpu},
    {.name = "cuda",
     .options = nvrtc_options,
     .names = codegen::cuda::names,
     .launch = launch_of_gpu,
     .emit = codegen::cuda::emit,
     .identity = &Compilers::identity_of_nvrtc,
     .build = &Compilers::build_for_gpu,
     .check = check_cubin,
     .load = load_cuda},
    {.name = "emulate",
     .options = nullptr,
     .names = codegen::cuda::names,
     .launch = launch_of_gpu,
     .emit = codegen::cuda::emit,
     .identity = nullptr,
     .build = nullptr,
     .check = nullptr,
     .load = load_emulated},
};

}  // namespace

const Backend& backend_of(Destination::Kind kind) { return kBackends[static_cast<std::size_t>(kind)]; }

const Backend& backend_of(const Target& target) {
  switch (target.kind) {
    case TargetKind::interpreter:
      return backend_of(Destination::Kind::interpreter);
    case TargetKind::cpu:
      return backend_of(Destination::Kind::cpu);
    case TargetKind::cuda:
      break;
  }
  return backend_of(Destination::Kind::cuda);
}

}  // namespace weft
