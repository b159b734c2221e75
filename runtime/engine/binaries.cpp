#include "runtime/engine/binaries.h"

#include "compiler/base/result.h"

#include <fmt/format.h>

namespace weft {

Built built(std::shared_ptr<const Kernel::State> state, const Binaries::Found& binary, double emit_ms) {
  return {.state = std::move(state),
          .origin = binary.origin,
          .times = {.emit_ms = emit_ms, .compile_ms = binary.compile_ms, .load_ms = binary.load_ms}};
}

Binaries::Binaries(const EngineOptions& options)
    : no_compile_(options.no_compile),
      store_(cache::Store::open({.directory = options.cache_dir, .disabled = options.no_cache})),
      bundles_(options),
      compilers_(options),
      warnings_(bundles_.troubles()) {}

/// Where there is no compiler there is no key either, and so nothing in the store; bundles need none.
std::optional<Binaries::Found> Binaries::find(const Prepared& kernel, const Result<cache::Key>& key) const {
  const Stopwatch reading;
  if (key) {
    if (auto found = store_->get(*key); found.entry && found.entry->launch == kernel.launch) {
      return Found{.entry = std::move(*found.entry), .origin = CacheOrigin::disk, .load_ms = reading.ms()};
    }
  }
  if (auto entry = bundles_.take(kernel, [&](std::string trouble) { warn(std::move(trouble)); })) {
    return Found{.entry = std::move(*entry), .origin = CacheOrigin::bundle, .load_ms = reading.ms()};
  }
  return std::nullopt;
}

Result<Binaries::Found> Binaries::find_or_compile(const Prepared& kernel) const {
  const auto key = compilers_.key_of(kernel);
  if (auto found = find(kernel, key)) return std::move(*found);
  if (no_compile_) return missing(kernel, key);
  if (!key) return key.error();
  const Stopwatch compiling;
  WEFT_TRY(auto entry, compilers_.compile(kernel));
  Found made{.entry = std::move(entry), .compile_ms = compiling.ms()};
  made.entry.launch = kernel.launch;
  made.entry.build_us = static_cast<std::uint64_t>(made.compile_ms * 1000);
  if (auto put = store_->put(*key, made.entry); put.warning) warn(put.warning->message);
  return made;
}

bool Binaries::has(const Prepared& kernel) const {
  if (bundles_.has(kernel)) return true;
  const auto key = compilers_.key_of(kernel);
  return key.ok() && store_->get(*key).entry.has_value();
}

Error Binaries::missing(const Prepared& kernel, const Result<cache::Key>& key) const {
  const auto& planned = kernel.planned;
  auto error =
      environment_error(fmt::format("the kernel '{}' ({}) for {} is not stored, and compiling is forbidden",
                                    planned.front.pattern.name, variant_of(planned.bind), planned.target.name));
  const auto note = [&](const std::vector<std::string>& lines) {
    error.notes.insert(error.notes.end(), lines.begin(), lines.end());
  };
  note(bundles_.troubles());
  note(bundles_.contents());
  if (key) note({store_->explain_miss(*key)});
  if (!kernel.command.empty()) note({"this adds it: " + kernel.command});
  return error;
}

void Binaries::warn(std::string text) const {
  const std::lock_guard lock(mutex_);
  for (const auto& known : warnings_) {
    if (known == text) return;
  }
  warnings_.push_back(std::move(text));
}

std::vector<std::string> Binaries::take_warnings() const {
  const std::lock_guard lock(mutex_);
  return std::exchange(warnings_, {});
}

}  // namespace weft
