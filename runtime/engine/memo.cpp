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

std::optional<Memo> find_memo(const std::vector<std::shared_ptr<cache::Store>>& stores, const cache::Key& key,
                              const ir::Bind& bind) {
  for (const auto& store : stores) {
    std::optional<Result<ir::Plan>> plan;
    std::optional<cache::Key> request;
    const auto is_sensible = [&](const cache::Entry& note) -> Status {
      plan.emplace(ir::parse_plan(note.plan));
      request = cache::Key::parse(note.source);
      if (!*plan || (*plan)->bind != bind || !ir::verify(**plan).empty()) return internal_error("its plan is none");
      if (!request) return internal_error("it leads to no kernel");
      return done;
    };
    // Not counted: it is the kernel that was asked for.
    if (store->look_again(key, is_sensible).entry) return Memo{std::move(**plan), {.request = *request, .memo = key}};
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
