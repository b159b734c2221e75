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

std::string launch_of_cpu(const ir::Plan&, const codegen::Names& names) {
  return fmt::format("abi {}\nsymbol {}\n", kWeftArgsAbi, names.symbol);
}

std::string launch_of_gpu(const ir::Plan& plan, const codegen::Names& names) {
  const auto shared = codegen::cuda::shared_memory(plan);
  auto text = fmt::format("abi {}\nsymbol {}\nthreads {}\nshared_fixed {}\nshared_per_term {}\n", kWeftArgsAbi,
                          names.symbol, plan.choices.threads, shared.fixed, shared.per_term);
  if (!names.prepass.empty()) {
    text += fmt::format("prepass {}\nprepass_threads {}\nprepass_shared {}\n", names.prepass, ir::kPrepassThreads,
                        shared.prepass);
  }
  if (!names.merge.empty()) text += fmt::format("merge {}\n", names.merge);
  if (!names.sizes.empty()) text += fmt::format("sizes {}\n", names.sizes);
  if (!names.terms.empty()) text += fmt::format("terms {}\n", names.terms);
  for (const auto regime : ir::regimes_of(plan)) {
    if (&ir::plan_of(plan, regime) == &plan) continue;
    const ir::Plan& beside = ir::plan_of(plan, regime);
    text += fmt::format("{} threads {} shared_fixed {}\n", ir::to_string(regime), beside.choices.threads,
                        codegen::cuda::shared_memory(beside).fixed);
  }
  return text;
}

/// Of one regime.
codegen::Source emit_for_gpu(const ir::Plan& plan, const Target& target, ir::Regime regime) {
  return codegen::cuda::emit(ir::plan_of(plan, regime), target);
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
     .emit = emit_for_gpu,
     .identity = &Compilers::identity_of_nvrtc,
     .build = &Compilers::build_for_gpu,
     .check = check_cubin,
     .load = load_cuda},
    {.name = "emulate",
     .options = nullptr,
     .names = codegen::cuda::names,
     .launch = launch_of_gpu,
     .emit = emit_for_gpu,
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
