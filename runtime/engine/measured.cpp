#include "runtime/engine/measured.h"

#include "compiler/target/bf16_dot.h"

#include <fmt/format.h>

#include <atomic>
#include <charconv>

namespace weft {
namespace {

/// No unit is further than that from one product in the time of another.
constexpr double kLeast = 0.1, kMost = 10;

std::optional<double> rate_in(const std::string& text) {
  double rate = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), rate);
  const bool whole = failure == std::errc() && end == text.data() + text.size();
  return whole && rate >= kLeast && rate <= kMost ? std::optional(rate) : std::nullopt;
}

std::optional<double> find_rate(cache::Store& store, const cache::Key& key) {
  const auto found = store.look_again(key);
  return found.entry ? rate_in(found.entry->value) : std::nullopt;
}

/// All threads go by the first that was measured; no lock that a fork could leave closed.
std::optional<double> measured_once() {
  static std::atomic<double> known{0};
  if (known.load() == 0) {
    double unknown = 0;
    known.compare_exchange_strong(unknown, measure_bf16_dot_rate().value_or(0));
  }
  const double rate = known.load();
  return rate > 0 ? std::optional(rate) : std::nullopt;
}

}  // namespace

cache::Key bf16_dot_key(const std::string& processor) {
  cache::Key key(cache::EntryKind::measurement);
  key.add("kind", "rate of vdpbf16ps").add("processor", processor);
  return key;
}

std::optional<double> bf16_dot_rate(const Stores& stores, const std::string& processor,
                                    const std::function<std::optional<double>()>& measure) {
  const auto key = bf16_dot_key(processor);
  for (const auto& store : stores) {
    if (const auto rate = find_rate(*store, key)) return rate;
  }
  const auto rate = measure();
  if (rate && !stores.empty()) {
    // That it cannot be kept is said where the kernel cannot.
    stores.front()->put(
        key, {.value = fmt::format("{}", *rate),
              .words = fmt::format("vdpbf16ps does {:.2f} times the products of f32 on {}", *rate, processor)});
  }
  return rate;
}

Target as_measured(const Stores& stores, const Target& target, std::optional<ir::DType> dtype) {
  Target out = target;
  if (dtype != ir::DType::bf16 || !target.has_bf16_dot() || !host_can_execute(target)) return out;
  if (const auto rate = bf16_dot_rate(stores, host_cpu_model(), measured_once)) {
    out.bf16_dot_rate = *rate;
    out.bf16_dot_measured = true;
  }
  return out;
}

}  // namespace weft
