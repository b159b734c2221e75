#include "runtime/engine/memo.h"

#include "runtime/engine/backends.h"

#include <fmt/format.h>

#include <optional>

namespace weft {
namespace {

constexpr char kKind[] = "memo 1";

std::string schedule_text(const ir::Pattern& pattern) {
  std::string out;
  for (const auto& hint : pattern.schedule) {
    out += fmt::format("{} {}{};", hint.key, hint.value, hint.tuned ? " tuned" : "");
  }
  return out;
}

/// Not counted: it is the kernel that was asked for.
std::optional<Binary> find_note(const std::vector<std::shared_ptr<cache::Store>>& stores, const cache::Key& key,
                                ir::Regime text, const cache::Judge& is_sensible) {
  for (const auto& store : stores) {
    std::optional<cache::Key> request;
    const auto leads_on = [&](const cache::Entry& note) -> Status {
      WEFT_CHECK(is_sensible(note));
      request = cache::Key::parse(note.source);
      return request ? Status(done) : internal_error("it leads to no kernel");
    };
    if (store->look_again(key, leads_on).entry) return Binary{.regime = text, .request = *request, .memo = key};
  }
  return std::nullopt;
}

}  // namespace

std::optional<cache::Key> memo_key(std::string_view request, const ir::Pattern& pattern, const Target& target,
                                   std::string_view build) {
  if (build.empty()) return std::nullopt;
  cache::Key key(cache::EntryKind::note);
  key.add("kind", kKind)
      .add("build", build)
      .add("target", target.name)
      .add("bf16_dot_rate", fmt::format("{:.1f}", target.bf16_dot_rate))
      .add("schedule", schedule_text(pattern))
      .add_digest_of("request", request);
  return key;
}

cache::Key memo_of(const cache::Key& request, ir::Regime text) {
  cache::Key key = request;
  key.add("text", ir::to_string(text));
  return key;
}

std::optional<Binary> find_binary(const std::vector<std::shared_ptr<cache::Store>>& stores, const cache::Key& request,
                                  ir::Regime text) {
  return find_note(stores, memo_of(request, text), text, [](const cache::Entry&) { return done; });
}

std::optional<Memo> find_memo(const std::vector<std::shared_ptr<cache::Store>>& stores, const cache::Key& request,
                              const ir::Bind& bind) {
  for (const auto text : {ir::Regime::many_queries, ir::Regime::decoding, ir::Regime::few_queries}) {
    std::optional<Result<ir::Plan>> plan;
    const auto is_sensible = [&](const cache::Entry& note) -> Status {
      plan.emplace(ir::parse_plan(note.plan));
      if (!*plan || (*plan)->bind != bind || !ir::verify(**plan).empty()) return internal_error("its plan is none");
      return done;
    };
    if (auto binary = find_note(stores, memo_of(request, text), text, is_sensible))
      return Memo{std::move(**plan), std::move(*binary)};
  }
  return std::nullopt;
}

void keep_memo(cache::Store& store, const Compilation& kernel, const Binary& binary) {
  const auto& plan_text = kernel.plan_text();
  auto again = ir::parse_plan(plan_text);
  if (!again || ir::print(*again) != plan_text) return;
  if (kernel.backend.emit(*again, kernel.target, binary.regime).text != kernel.source(binary.regime).text) return;
  (void)store.put(*binary.memo, {.source = binary.request.text(), .plan = plan_text});
}

}  // namespace weft
