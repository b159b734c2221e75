#include "compiler/base/guarded.h"
#include "runtime/engine/chosen_lists.h"
#include "runtime/engine/kernel_state.h"
#include "runtime/engine/sizes_at.h"

#include <weft/weft.h>

namespace weft {

namespace {

const std::string kNoText;

/// Texts are made when they are asked for: none where there is no memory for them.
template <typename Make>
const std::string& text_or_none(const Make& make) noexcept {
  const std::string* out = &kNoText;
  (void)guarded([&]() -> Status {
    out = &make();
    return done;
  });
  return *out;
}

}  // namespace

LaunchContract contract_of(const Kernel::State& state) {
  return {.pattern = state.pattern,
          .dtype = from_ir(state.bind.dtype),
          .any_float = state.target.kind == TargetKind::interpreter,
          .branch_lse = state.bind.branch_lse,
          .paged = state.bind.paged,
          .on_host = state.executor->reads_host_memory(),
          .gradient = state.bind.gradient};
}

Status Kernel::run(const RunArgs& args) const {
  return guarded([&]() -> Status {
    const auto contract = contract_of(*state_);
    const auto run = [&](const RunArgs& all) -> Status {
      WEFT_TRY(const auto launch, check_launch(contract, all));
      return state_->executor->run(launch, all);
    };
    if (args.sizes_at.sequences == 0 || state_->executor->reads_sizes()) return run(args);
    WEFT_TRY(const auto on_host, LaunchOnHost::read(contract, args));
    return run(on_host.args());
  });
}

Result<std::size_t> Kernel::workspace(const RunShape& shape, int threads) const {
  return guarded([&]() -> Result<std::size_t> {
    WEFT_CHECK(check_threads(threads));
    WEFT_TRY(const auto sizes, check_shape(shape, {}));
    return state_->executor->workspace(sizes, threads);
  });
}

Result<BuildTimes> Kernel::prepare(const RunShape& shape) const {
  return guarded([&]() -> Result<BuildTimes> {
    WEFT_TRY(const auto sizes, check_shape(shape, {}));
    return state_->executor->prepare(sizes, shape.sizes_at);
  });
}

Result<std::vector<ChosenList>> Kernel::lists(const RunShape& shape, std::span<const std::int64_t> offset) const {
  return guarded([&]() -> Result<std::vector<ChosenList>> {
    WEFT_TRY(const auto sizes, check_shape(shape, offset));
    return chosen_lists(state_->pattern, sizes);
  });
}

const std::string& Kernel::pattern_text() const {
  return text_or_none([&]() -> auto& { return state_->pattern_text(); });
}
const std::string& Kernel::plan_text() const {
  return text_or_none([&]() -> auto& { return state_->plan_text(); });
}
const std::string& Kernel::source_text() const {
  return text_or_none([&]() -> auto& { return state_->source(state_->binary.regime).text; });
}
const std::string& Kernel::target() const { return state_->resolved; }
const std::vector<Diagnostic>& Kernel::warnings() const { return state_->warnings; }

std::optional<int> Kernel::registers() const { return state_->binary.entry.registers; }
std::optional<int> Kernel::spill_bytes() const { return state_->binary.entry.spill_bytes; }
std::optional<std::int64_t> Kernel::shared_bytes(std::int64_t heads) const {
  const auto bytes = guarded([&]() -> Result<std::optional<std::int64_t>> {
    return state_->executor->shared_bytes(state_->binary.regime, heads);
  });
  return bytes ? *bytes : std::nullopt;
}

const char* to_string(DType type) {
  switch (type) {
    case DType::f32:
      return "f32";
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
    case DType::f64:
      return "f64";
    case DType::i32:
      return "i32";
    case DType::u8:
      return "u8";
  }
  return "?";
}

std::size_t size_of(DType type) {
  switch (type) {
    case DType::f16:
    case DType::bf16:
      return 2;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f64:
      return 8;
    case DType::u8:
      return 1;
  }
  return 0;
}

const std::string& Kernel::origin_path() const { return state_->binary.place; }

const char* to_string(CacheOrigin origin) {
  switch (origin) {
    case CacheOrigin::memory:
      return "memory";
    case CacheOrigin::disk:
      return "disk";
    case CacheOrigin::bundle:
      return "bundle";
    case CacheOrigin::miss:
      return "miss";
  }
  return "?";
}

}  // namespace weft
