#include "runtime/engine/ahead.h"

#include "runtime/engine/destination.h"
#include "runtime/engine/engine_checks.h"

#include <fmt/format.h>

namespace weft {

namespace {

/// No kernel takes so long; it is there because a limit, whichever, is what puts NVRTC into a worker process.
constexpr std::int64_t kDeadline_ms = 10 * 60 * 1000;

EngineOptions with_limit(EngineOptions options) {
  if (options.deadline_ms == 0) options.deadline_ms = kDeadline_ms;
  return options;
}

std::string full_variant(const Prepared& kernel, const CompileOptions& options) {
  auto out = variant_of(kernel);
  for (const auto& [name, value] : options.params) out += fmt::format(", {}={}", name, value);
  return out;
}

}  // namespace

Ahead::Ahead(EngineOptions options)
    : options_(with_limit(std::move(options))),
      binaries_(options_, Compilers::For::any_machine),
      compilers_(options_, Compilers::For::any_machine) {}

Result<std::vector<Ahead::Work>> Ahead::plan(const Source& source, const CompileOptions& options) {
  WEFT_TRY(const auto destination, find_destination(options.target));
  if (destination.kind != Destination::Kind::cpu && destination.kind != Destination::Kind::cuda) {
    return user_error(fmt::format("bundles have kernels for CPUs and GPUs, not for {}", options.target));
  }
  WEFT_TRY(auto front, read_pattern(source, options));
  WEFT_CHECK(check_gradient(options, destination));
  WEFT_TRY(auto planned, plan_pattern(std::move(front), options, destination.target));
  const auto kernel = prepare(std::move(planned));
  std::vector<Work> out;
  for (const auto regime : ir::regimes_of(kernel.planned.plan)) {
    auto one = regime == kernel.regime ? kernel : of_regime(kernel, regime);
    auto variant = full_variant(one, options);
    out.push_back({.kernel = std::move(one), .variant = std::move(variant)});
  }
  return out;
}

Result<Ahead::Made> Ahead::make(const Work& work) const {
  const auto& target = work.kernel.planned.target;
  WEFT_TRY(auto compiler, compilers_.identity(target));
  WEFT_TRY(auto found, binaries_.find_or_compile(work.kernel));
  bundle::Kernel kernel{.target = target.name,
                        .request = work.kernel.request.text(),
                        .compiler = std::move(compiler),
                        .launch = work.kernel.launch,
                        .binary = std::move(found.entry.binary),
                        .source = work.kernel.source(),
                        .registers = found.entry.registers,
                        .spill_bytes = found.entry.spill_bytes};
  return Made{.kernel = named_for(work, std::move(kernel)), .compiled = found.origin == CacheOrigin::miss};
}

bundle::Kernel Ahead::named_for(const Work& work, bundle::Kernel kernel) {
  kernel.name = work.kernel.planned.front.pattern.name;
  kernel.variant = work.variant;
  kernel.plan = work.kernel.texts->plan();
  return kernel;
}

}  // namespace weft
