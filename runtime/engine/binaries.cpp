#include "runtime/engine/binaries.h"

#include "compiler/base/result.h"

#include <chrono>

namespace weft {

std::int64_t Stopwatch::now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double Stopwatch::ms() const { return static_cast<double>(now() - start_) / 1e6; }

Built built(std::shared_ptr<const Kernel::State> state, const Binaries::Found& binary, double emit_ms) {
  return {.state = std::move(state),
          .origin = binary.origin,
          .times = {.emit_ms = emit_ms, .compile_ms = binary.compile_ms, .load_ms = binary.load_ms}};
}

Binaries::Binaries(const EngineOptions& options)
    : no_compile_(options.no_compile),
      store_(cache::Store::open({.directory = options.cache_dir, .disabled = options.no_cache})) {}

Result<Binaries::Found> Binaries::find_or_compile(const cache::Key& key, const std::string& launch,
                                                  const std::function<Result<cache::Entry>()>& compile) const {
  const Stopwatch reading;
  if (auto found = store_->get(key); found.entry && found.entry->launch == launch) {
    return Found{.entry = std::move(*found.entry), .origin = CacheOrigin::disk, .load_ms = reading.ms()};
  }
  if (no_compile_) {
    auto error = environment_error("the kernel is not stored, and compiling is forbidden");
    error.notes.push_back(store_->explain_miss(key));
    return error;
  }
  const Stopwatch compiling;
  WEFT_TRY(auto entry, compile());
  Found made{.entry = std::move(entry), .compile_ms = compiling.ms()};
  made.entry.launch = launch;
  made.entry.build_us = static_cast<std::uint64_t>(made.compile_ms * 1000);
  if (auto put = store_->put(key, made.entry); put.warning) warn(put.warning->message);
  return made;
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
