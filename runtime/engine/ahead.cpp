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
  WEFT_CHECK(check_gradient(options));
  WEFT_TRY(auto planned, plan_pattern(std::move(front), options, destination.target));
  const auto kernel = std::make_shared<const Compilation>(std::move(planned));
  std::vector<Work> out;
  for (const auto regime : ir::regimes_of(kernel->plan)) {
    auto variant = variant_of(kernel->bind, regime);
    for (const auto& [name, value] : options.params) variant += fmt::format(", {}={}", name, value);
    out.push_back({.kernel = kernel, .binary = binary_of(*kernel, regime), .variant = std::move(variant)});
  }
  return out;
}

Result<Ahead::Made> Ahead::make(const Work& work) const {
  const auto& target = work.kernel->target;
  WEFT_TRY(auto compiler, compilers_.identity(target));
  WEFT_TRY(auto binary, binaries_.find_or_compile(*work.kernel, work.binary));
  bundle::Kernel kernel{.target = target.name,
                        .request = binary.request.text(),
                        .compiler = std::move(compiler),
                        .launch = work.kernel->launch,
                        .binary = std::move(binary.entry.binary),
                        .source = work.kernel->source(binary.regime).text,
                        .registers = binary.entry.registers,
                        .spill_bytes = binary.entry.spill_bytes};
  return Made{.kernel = named_for(work, std::move(kernel)), .compiled = binary.origin == CacheOrigin::miss};
}

bundle::Kernel Ahead::named_for(const Work& work, bundle::Kernel kernel) {
  kernel.name = work.kernel->pattern.name;
  kernel.variant = work.variant;
  kernel.plan = work.kernel->plan_text();
  return kernel;
}

}  // namespace weft
