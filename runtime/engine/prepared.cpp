#include "runtime/engine/prepared.h"

#include "codegen/args.h"
#include "codegen/cpu/emit.h"
#include "codegen/cuda/emit.h"
#include "runtime/engine/stopwatch.h"
#include "runtime/llvm/compile.h"
#include "runtime/nvrtc/compile.h"

#include <fmt/format.h>

namespace weft {

namespace {

bool is_cuda(const Planned& planned) { return planned.target.kind == TargetKind::cuda; }

codegen::Names names_of(const Planned& planned) {
  return is_cuda(planned) ? codegen::cuda::names(planned.plan) : codegen::cpu::names(planned.plan);
}

std::string cpu_launch(const codegen::Names& names) {
  return fmt::format("abi {}\nsymbol {}\n", kWeftArgsAbi, names.symbol);
}

std::string cuda_launch(const codegen::Names& names, const codegen::cuda::Geometry& geometry) {
  auto text = fmt::format("abi {}\nsymbol {}\nthreads {}\nshared_fixed {}\nshared_per_term {}\n", kWeftArgsAbi,
                          names.symbol, geometry.threads, geometry.shared_fixed, geometry.shared_per_term);
  if (!names.prepass.empty()) {
    text += fmt::format("prepass {}\nprepass_threads {}\nprepass_shared {}\n", names.prepass, geometry.prepass_threads,
                        geometry.prepass_shared);
  }
  if (!names.merge.empty()) text += fmt::format("merge {}\n", names.merge);
  return text;
}

cache::Key request_of(const Target& target, ir::Regime regime, const std::string& launch, const std::string& source) {
  const bool cuda = target.kind == TargetKind::cuda;
  cache::Key request;
  request.add("backend", cuda ? "cuda" : "cpu").add("abi", std::to_string(kWeftArgsAbi)).add("target", target.name);
  if (!cuda) request.add("cpu", target.llvm_cpu).add("features", target.llvm_features);
  request.add("options", cuda ? nvrtc::Options{}.text() : llvm::Options{}.text())
      .add("regime", ir::to_string(regime))
      .add("launch", launch)
      .add_digest_of("source", source);
  return request;
}

}  // namespace

Prepared prepare(Planned planned) {
  const Stopwatch emitting;
  auto texts = std::make_shared<const Texts>(planned.plan, planned.target);
  auto names = names_of(planned);
  auto launch = is_cuda(planned) ? cuda_launch(names, codegen::cuda::geometry(planned.plan)) : cpu_launch(names);
  auto request = request_of(planned.target, ir::Regime::many_queries, launch, texts->source().text);
  return {.planned = std::move(planned),
          .texts = std::move(texts),
          .names = std::move(names),
          .launch = std::move(launch),
          .request = std::move(request),
          .emit_ms = emitting.ms()};
}

Prepared of_regime(const Prepared& kernel, ir::Regime regime) {
  const Stopwatch emitting;
  Prepared out = kernel;
  out.regime = regime;
  out.request = request_of(out.planned.target, regime, out.launch, out.source());
  out.memo.reset();
  out.emit_ms = emitting.ms();
  return out;
}

Prepared recalled(Planned planned, cache::Key request, std::string launch) {
  auto texts = std::make_shared<const Texts>(planned.plan, planned.target);
  auto names = names_of(planned);
  return {.planned = std::move(planned),
          .texts = std::move(texts),
          .names = std::move(names),
          .launch = std::move(launch),
          .request = std::move(request)};
}

std::string variant_of(const Prepared& kernel) {
  const ir::Bind& bind = kernel.planned.bind;
  auto out = fmt::format("{}, dim {}", ir::to_string(bind.dtype), bind.d);
  if (bind.d_v != bind.d) out += fmt::format(", value dim {}", bind.d_v);
  if (bind.branch_lse) out += ", branch lse";
  if (bind.paged) out += ", paged";
  if (bind.gradient) out += ", gradient";
  if (kernel.regime != ir::Regime::many_queries) out += fmt::format(", {}", ir::to_string(kernel.regime));
  return out;
}

}  // namespace weft
