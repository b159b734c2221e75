#include "compiler/base/guarded.h"
#include "runtime/engine/chosen_lists.h"
#include "runtime/engine/kernel_state.h"

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
          .dtype = state.dtype,
          .any_float = state.any_float,
          .branch_lse = state.branch_lse,
          .paged = state.paged,
          .on_host = state.executor->reads_host_memory(),
          .gradient = state.gradient};
}

std::shared_ptr<Kernel::State> make_state(Front front, const ir::Bind& bind, std::string target,
                                          std::shared_ptr<const Texts> texts) {
  auto state = std::make_shared<Kernel::State>();
  state->dtype = from_ir(bind.dtype);
  state->branch_lse = bind.branch_lse;
  state->gradient = bind.gradient;
  state->paged = bind.paged;
  state->pattern_text = ir::print(front.pattern);
  state->texts = std::move(texts);
  state->target = std::move(target);
  state->pattern = std::move(front.pattern);
  state->warnings = std::move(front.warnings);
  return state;
}

Status Kernel::run(const RunArgs& args) const {
  return guarded([&]() -> Status {
    WEFT_TRY(const auto launch, check_launch(contract_of(*state_), args));
    return state_->executor->run(state_->pattern, launch, args);
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
    return state_->executor->prepare(sizes);
  });
}

Result<std::vector<ChosenList>> Kernel::lists(const RunShape& shape, std::span<const std::int64_t> offset) const {
  return guarded([&]() -> Result<std::vector<ChosenList>> {
    WEFT_TRY(const auto sizes, check_shape(shape, offset));
    return chosen_lists(state_->pattern, sizes);
  });
}

const std::string& Kernel::pattern_text() const { return state_->pattern_text; }
const std::string& Kernel::plan_text() const {
  return text_or_none([&]() -> auto& { return state_->texts ? state_->texts->plan() : kNoText; });
}
const std::string& Kernel::source_text() const {
  return text_or_none([&]() -> auto& { return state_->texts ? state_->texts->source().text : kNoText; });
}
const std::string& Kernel::target() const { return state_->target; }
const std::vector<Diagnostic>& Kernel::warnings() const { return state_->warnings; }

std::optional<int> Kernel::registers() const { return state_->registers; }
std::optional<int> Kernel::spill_bytes() const { return state_->spill_bytes; }
std::optional<std::int64_t> Kernel::shared_bytes(std::int64_t heads) const {
  const auto bytes =
      guarded([&]() -> Result<std::optional<std::int64_t>> { return state_->executor->shared_bytes(heads); });
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

const std::string& Kernel::origin_path() const { return state_->origin_path; }

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
