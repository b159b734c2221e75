#include "runtime/engine/binaries.h"

#include "compiler/base/result.h"
#include "kernels_cache/once.h"
#include "runtime/engine/backends.h"
#include "runtime/engine/engine_checks.h"
#include "runtime/engine/memo.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace weft {

namespace {

/// Another compilation helps against that, and against nothing else.
bool is_nonsense(const Status& loaded) { return !loaded && loaded.error().kind == ErrorKind::internal; }

}  // namespace

Binaries::Binaries(const EngineOptions& options, Compilers::For where)
    : no_compile_(options.no_compile),
      wait_(duration_of(options.wait_ms)),
      notice_(options.notice),
      bundles_(options),
      compilers_(options, where),
      warnings_(bundles_.troubles()) {
  stores_.push_back(
      cache::Store::open({.directory = options.cache_dir, .disabled = options.no_cache, .cap = options.cache_bytes}));
  for (const auto& directory : options.read_only_caches) {
    stores_.push_back(cache::Store::open({.directory = directory, .read_only = true}));
  }
}

/// Where there is no compiler there is no key either, and so nothing in the stores; bundles need none.
bool Binaries::find(const Compilation& kernel, Binary& binary, const Result<cache::Key>& key,
                    const cache::Judge& is_that) const {
  const Stopwatch reading;
  for (const auto& store : stores_) {
    if (!key) break;
    auto found = store->get(*key, is_that);
    if (found.outcome == cache::Outcome::corrupt) warn(std::move(found.detail));
    if (!found.entry) continue;
    binary.entry = std::move(*found.entry);
    binary.origin = CacheOrigin::disk;
    binary.place = store->path();
    binary.times.load_ms = reading.ms();
    return true;
  }
  if (!bundles_.take(kernel.launch, binary, [&](std::string trouble) { warn(std::move(trouble)); })) return false;
  if (const auto sense = is_that(binary.entry); is_nonsense(sense)) {
    warn(fmt::format("the kernel of {} is not used: {}", binary.place, sense.error().message));
    binary.place.clear();
    return false;
  }
  count(counts_.bundles);
  binary.origin = CacheOrigin::bundle;
  binary.times.load_ms = reading.ms();
  return true;
}

Binary Binaries::name_of(const Compilation& kernel, ir::Regime text) const {
  if (kernel.memo && !kernel.emitted(text)) {
    if (auto known = find_binary(stores_, *kernel.memo, text)) return std::move(*known);
  }
  auto named = binary_of(kernel, text);
  if (kernel.memo) named.memo = memo_of(*kernel.memo, text);
  return named;
}

Result<Binary> Binaries::find_or_compile(const Compilation& kernel, const Binary& wanted,
                                         const cache::Judge& loads) const {
  const Stopwatch waiting;
  const cache::Judge is_that = [&](const cache::Entry& entry) -> Status {
    return entry.launch == kernel.launch ? loads(entry) : internal_error("it is to be launched in another way");
  };
  const auto key = compilers_.key_of(kernel.target, wanted);
  const auto landed =
      flights_.join((key ? *key : wanted.request).digest(), [&] { return find_or_make(kernel, wanted, key, is_that); });
  if (!landed.joined || !*landed.value) return *landed.value;
  count_memory_hit();
  Binary binary = **landed.value;
  binary.origin = CacheOrigin::memory;
  binary.times.compile_ms = 0;
  binary.times.load_ms = waiting.ms();
  return binary;
}

Result<Binary> Binaries::find_and_load(const Compilation& kernel, const Binary& wanted,
                                       const cache::Judge& load) const {
  std::optional<Status> last;
  WEFT_TRY(auto binary, find_or_compile(kernel, wanted, [&](const cache::Entry& entry) -> Status {
             last = load(entry);
             return *last;
           }));
  const Stopwatch loading;
  // What was just compiled, or found by another thread, is not loaded yet.
  if (!last || is_nonsense(*last)) last = load(binary.entry);
  WEFT_CHECK(*last);
  binary.times.load_ms += loading.ms();
  return binary;
}

Result<Binary> Binaries::find_or_compile(const Compilation& kernel, const Binary& wanted) const {
  return find_or_compile(kernel, wanted, kernel.backend.check);
}

Result<Binary> Binaries::find_or_make(const Compilation& kernel, Binary binary, const Result<cache::Key>& key,
                                      const cache::Judge& is_that) const {
  if (find(kernel, binary, key, is_that)) {
    if (binary.origin == CacheOrigin::disk) note(kernel, binary);
    return binary;
  }
  count(counts_.misses);
  if (no_compile_) return missing(kernel, binary, key);
  if (!key) return key.error();
  if (kernel.emitted(binary.regime)) return make(kernel, std::move(binary), *key, is_that);
  // A note led here, and the kernel is gone. What is compiled, and the key it gets, follow from the plan alone.
  auto emitted = binary_of(kernel, binary.regime);
  binary.request = std::move(emitted.request);
  binary.times.emit_ms = emitted.times.emit_ms;
  WEFT_TRY(const auto own_key, compilers_.key_of(kernel.target, binary));
  WEFT_TRY(auto made, make(kernel, std::move(binary), own_key, is_that));
  if (made.origin == CacheOrigin::disk) note(kernel, made);  // it was there under its own key
  return made;
}

void Binaries::note(const Compilation& kernel, const Binary& binary) const {
  const bool is_news = binary.memo && kernel.emitted(binary.regime);
  if (is_news && stores_.front()->can_publish()) keep_memo(*stores_.front(), kernel, binary);
}

Result<Binary> Binaries::make(const Compilation& kernel, Binary binary, const cache::Key& key,
                              const cache::Judge& is_that) const {
  const Stopwatch making;
  const auto compile = [&]() -> Result<cache::Entry> {
    const Stopwatch compiling;
    count(counts_.compiled);
    WEFT_TRY(auto entry, compilers_.build(kernel, binary.regime));
    entry.launch = kernel.launch;
    entry.build_us = static_cast<std::uint64_t>(compiling.ms() * 1000);
    return entry;
  };
  WEFT_TRY(auto made, cache::make_once(*stores_.front(), key,
                                       {.make = compile,
                                        .usable = [&](const auto& entry) { return !is_nonsense(is_that(entry)); },
                                        .notice = notice_,
                                        .longest_wait = wait_}));
  if (made.warning) warn(made.warning->message);
  if (made.published) note(kernel, binary);
  binary.entry = std::move(made.entry);
  if (made.by_another) {
    binary.origin = CacheOrigin::disk;
    binary.place = stores_.front()->path();
    binary.times.load_ms = making.ms();
  } else {
    binary.times.compile_ms = static_cast<double>(binary.entry.build_us) / 1000;
  }
  return binary;
}

CacheStats Binaries::stats() const {
  CacheStats out{.memory_hits = counts_.memory,
                 .bundle_hits = counts_.bundles,
                 .misses = counts_.misses,
                 .compiled = counts_.compiled};
  const auto own = stores_.front()->stats();
  out.store_hits = own.hits();
  for (std::size_t i = 1; i < stores_.size(); ++i) out.read_only_hits += stores_[i]->stats().hits();
  for (std::size_t i = 0; i < cache::kOutcomes; ++i) {
    const auto outcome = static_cast<cache::Outcome>(i);
    if (outcome == cache::Outcome::hit || own.lookups[i] == 0) continue;
    out.store_misses[cache::name_of(outcome)] = own.lookups[i];
  }
  out.published = own.puts;
  out.not_published = own.failed_puts;
  return out;
}

bool Binaries::has_stores() const {
  return std::any_of(stores_.begin(), stores_.end(), [](const auto& store) { return !store->path().empty(); });
}

bool Binaries::has(const Target& target, const Binary& binary) const {
  if (bundles_.has(binary)) return true;
  const auto key = compilers_.key_of(target, binary);
  if (!key) return false;
  return std::any_of(stores_.begin(), stores_.end(),
                     [&](const auto& store) { return store->look_again(*key).entry.has_value(); });
}

Error Binaries::missing(const Compilation& kernel, const Binary& binary, const Result<cache::Key>& key) const {
  auto error =
      environment_error(fmt::format("the kernel '{}' ({}) for {} is not stored, and compiling is forbidden",
                                    kernel.pattern.name, variant_of(kernel.bind, binary.regime), kernel.target.name));
  const auto note = [&](const std::vector<std::string>& lines) {
    error.notes.insert(error.notes.end(), lines.begin(), lines.end());
  };
  note(bundles_.troubles());
  note(bundles_.contents());
  if (key) note({stores_.front()->explain_miss(*key)});
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
