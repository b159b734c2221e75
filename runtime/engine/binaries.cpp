#include "runtime/engine/binaries.h"

#include "compiler/base/result.h"
#include "kernels_cache/once.h"
#include "runtime/cuda/module.h"
#include "runtime/engine/engine_checks.h"
#include "runtime/engine/memo.h"
#include "runtime/object/elf.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace weft {

namespace {

/// Another compilation helps against that, and against nothing else.
bool is_nonsense(const Status& loaded) { return !loaded && loaded.error().kind == ErrorKind::internal; }

}  // namespace

Built built(std::shared_ptr<const Kernel::State> state, const Binaries::Found& binary, double emit_ms) {
  return {.state = std::move(state),
          .origin = binary.origin,
          .times = {.emit_ms = emit_ms + binary.emit_ms, .compile_ms = binary.compile_ms, .load_ms = binary.load_ms}};
}

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

Binaries::Wanted::Wanted(const Prepared& what, const cache::Judge& how)
    : kernel(what), loads(how), is_that([this](const cache::Entry& entry) -> Status {
        if (entry.launch != kernel.launch) return internal_error("it is to be launched in another way");
        return loads(entry);
      }) {}

/// Where there is no compiler there is no key either, and so nothing in the stores; bundles need none.
std::optional<Binaries::Found> Binaries::find(const Wanted& wanted, const Result<cache::Key>& key) const {
  const Prepared& kernel = wanted.kernel;
  const Stopwatch reading;
  for (const auto& store : stores_) {
    if (!key) break;
    auto found = store->get(*key, wanted.is_that);
    if (found.outcome == cache::Outcome::corrupt) warn(std::move(found.detail));
    if (!found.entry) continue;
    return Found{
        .entry = std::move(*found.entry), .origin = CacheOrigin::disk, .place = store->path(), .load_ms = reading.ms()};
  }
  auto taken = bundles_.take(kernel, [&](std::string trouble) { warn(std::move(trouble)); });
  if (const auto sense = taken ? wanted.is_that(taken->entry) : done; is_nonsense(sense)) {
    warn(fmt::format("the kernel of {} is not used: {}", taken->bundle, sense.error().message));
    taken.reset();
  }
  if (taken) {
    count(counts_.bundles);
    return Found{.entry = std::move(taken->entry),
                 .origin = CacheOrigin::bundle,
                 .place = std::move(taken->bundle),
                 .load_ms = reading.ms()};
  }
  return std::nullopt;
}

Result<Binaries::Found> Binaries::find_or_compile(const Prepared& kernel, const cache::Judge& loads) const {
  const Stopwatch waiting;
  const Wanted wanted(kernel, loads);
  const auto key = compilers_.key_of(kernel);
  const auto landed = flights_.join((key ? *key : kernel.request).digest(), [&] { return find_or_make(wanted, key); });
  if (!landed.joined || !*landed.value) return *landed.value;
  count_memory_hit();
  Found found = **landed.value;
  found.origin = CacheOrigin::memory;
  found.compile_ms = 0;
  found.load_ms = waiting.ms();
  return found;
}

Result<Binaries::Found> Binaries::find_and_load(const Prepared& kernel, const cache::Judge& load) const {
  std::optional<Status> last;
  WEFT_TRY(auto found, find_or_compile(kernel, [&](const cache::Entry& entry) -> Status {
             last = load(entry);
             return *last;
           }));
  const Stopwatch loading;
  // What was just compiled, or found by another thread, is not loaded yet.
  if (!last || is_nonsense(*last)) last = load(found.entry);
  WEFT_CHECK(*last);
  found.load_ms += loading.ms();
  return found;
}

Result<Binaries::Found> Binaries::find_or_compile(const Prepared& kernel) const {
  return find_or_compile(kernel, [&](const cache::Entry& entry) -> Status {
    const auto& target = kernel.planned.target;
    if (target.kind != TargetKind::cuda) WEFT_CHECK(object::read_elf_object(entry.binary, "it"));
    if (target.kind == TargetKind::cuda && !cuda::is_cubin(entry.binary)) return internal_error("it is no cubin");
    return done;
  });
}

Result<Binaries::Found> Binaries::find_or_make(const Wanted& wanted, const Result<cache::Key>& key) const {
  const Prepared& kernel = wanted.kernel;
  if (auto found = find(wanted, key)) {
    if (found->origin == CacheOrigin::disk) note(kernel);
    return std::move(*found);
  }
  count(counts_.misses);
  if (no_compile_) return missing(kernel, key);
  if (!key) return key.error();
  return kernel.texts->emitted(kernel.regime) ? make(wanted, *key) : emit_and_make(wanted);
}

/// A note led here, and the kernel is gone. What is compiled, and the key it gets, follow from the plan alone.
Result<Binaries::Found> Binaries::emit_and_make(const Wanted& wanted) const {
  auto emitted = prepare(wanted.kernel.planned);
  emitted.memo = wanted.kernel.memo;
  WEFT_TRY(const auto key, compilers_.key_of(emitted));
  WEFT_TRY(auto made, make(Wanted(emitted, wanted.loads), key));
  if (made.origin == CacheOrigin::disk) note(emitted);  // it was there under its own key
  made.emit_ms = emitted.emit_ms;
  return made;
}

void Binaries::note(const Prepared& kernel) const {
  const bool is_news = kernel.memo && kernel.texts->emitted(kernel.regime);
  if (is_news && stores_.front()->can_publish()) keep_memo(*stores_.front(), kernel);
}

Result<Binaries::Found> Binaries::make(const Wanted& wanted, const cache::Key& key) const {
  const Prepared& kernel = wanted.kernel;
  const Stopwatch making;
  const auto compile = [&]() -> Result<cache::Entry> {
    const Stopwatch compiling;
    count(counts_.compiled);
    WEFT_TRY(auto entry, compilers_.compile(kernel));
    entry.launch = kernel.launch;
    entry.build_us = static_cast<std::uint64_t>(compiling.ms() * 1000);
    return entry;
  };
  WEFT_TRY(auto made,
           cache::make_once(*stores_.front(), key,
                            {.make = compile,
                             .usable = [&](const cache::Entry& entry) { return !is_nonsense(wanted.is_that(entry)); },
                             .notice = notice_,
                             .longest_wait = wait_}));
  if (made.warning) warn(made.warning->message);
  if (made.published) note(kernel);
  if (made.by_another) {
    return Found{.entry = std::move(made.entry),
                 .origin = CacheOrigin::disk,
                 .place = stores_.front()->path(),
                 .load_ms = making.ms()};
  }
  const double compile_ms = static_cast<double>(made.entry.build_us) / 1000;
  return Found{.entry = std::move(made.entry), .compile_ms = compile_ms};
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

bool Binaries::has(const Prepared& kernel) const {
  if (bundles_.has(kernel)) return true;
  const auto key = compilers_.key_of(kernel);
  if (!key) return false;
  return std::any_of(stores_.begin(), stores_.end(),
                     [&](const auto& store) { return store->look_again(*key).entry.has_value(); });
}

Error Binaries::missing(const Prepared& kernel, const Result<cache::Key>& key) const {
  const auto& planned = kernel.planned;
  auto error = environment_error(fmt::format("the kernel '{}' ({}) for {} is not stored, and compiling is forbidden",
                                             planned.front.pattern.name, variant_of(kernel), planned.target.name));
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
