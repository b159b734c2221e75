#include "runtime/engine/prepared.h"

#include "codegen/args.h"
#include "codegen/cpu/emit.h"
#include "codegen/cuda/emit.h"
#include "runtime/engine/stopwatch.h"
#include "runtime/llvm/compile.h"
#include "runtime/nvrtc/compile.h"

#include <fmt/format.h>

#include <tuple>

namespace weft {

namespace {

std::string cpu_launch(const codegen::Source& source) {
  return fmt::format("abi {}\nsymbol {}\n", kWeftArgsAbi, source.symbol);
}

std::string cuda_launch(const codegen::Source& source, const codegen::cuda::Geometry& geometry) {
  auto text = fmt::format("abi {}\nsymbol {}\nthreads {}\nshared_fixed {}\nshared_per_term {}\n", kWeftArgsAbi,
                          source.symbol, geometry.threads, geometry.shared_fixed, geometry.shared_per_term);
  if (!source.prepass.empty()) {
    text += fmt::format("prepass {}\nprepass_threads {}\nprepass_shared {}\n", source.prepass, geometry.prepass_threads,
                        geometry.prepass_shared);
  }
  if (!source.merge.empty()) text += fmt::format("merge {}\n", source.merge);
  return text;
}

cache::Key request_of(const Target& target, const std::string& launch, const codegen::Source& source) {
  const bool cuda = target.kind == TargetKind::cuda;
  cache::Key request;
  request.add("backend", cuda ? "cuda" : "cpu").add("abi", std::to_string(kWeftArgsAbi)).add("target", target.name);
  if (!cuda) request.add("cpu", target.llvm_cpu).add("features", target.llvm_features);
  request.add("options", cuda ? nvrtc::Options{}.text() : llvm::Options{}.text())
      .add("launch", launch)
      .add_digest_of("source", source.text);
  return request;
}

}  // namespace

Prepared prepare(Planned planned) {
  const Stopwatch emitting;
  const auto& [plan, target] = std::tie(planned.plan, planned.target);
  const bool cuda = target.kind == TargetKind::cuda;
  auto source = cuda ? codegen::cuda::emit(plan, target) : codegen::cpu::emit(plan, target);
  auto launch = cuda ? cuda_launch(source, codegen::cuda::geometry(plan)) : cpu_launch(source);
  auto request = request_of(target, launch, source);
  auto plan_text = ir::print(plan);
  return {.planned = std::move(planned),
          .plan_text = std::move(plan_text),
          .source = std::move(source),
          .launch = std::move(launch),
          .request = std::move(request),
          .emit_ms = emitting.ms()};
}

std::string variant_of(const ir::Bind& bind) {
  auto out = fmt::format("{}, dim {}", ir::to_string(bind.dtype), bind.d);
  if (bind.d_v != bind.d) out += fmt::format(", value dim {}", bind.d_v);
  if (bind.branch_lse) out += ", branch lse";
  if (bind.paged) out += ", paged";
  return out;
}

}  // namespace weft
