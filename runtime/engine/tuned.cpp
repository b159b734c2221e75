#include "runtime/engine/tuned.h"

#include "runtime/engine/measured.h"

#include "compiler/ir/plan.h"

#include <fmt/format.h>

#include <sstream>

namespace weft {

cache::Key tuned_key(const ir::Pattern& pattern, const ir::Bind& bind, const Target& target) {
  cache::Key key(cache::EntryKind::measurement);
  key.add("kind", "tuned schedule")
      .add("version", version())
      .add("target", target.name)
      .add("processor", host_cpu_model())
      .add("bind", fmt::format("d {} d_v {} {} branch_lse {} paged {}{}", bind.d, bind.d_v, ir::to_string(bind.dtype),
                               bind.branch_lse, bind.paged, bind.gradient ? " gradient" : ""))
      .add_digest_of("pattern", ir::print(pattern));
  return key;
}

std::optional<Tuned> find_tuned(cache::Store& store, const cache::Key& key) {
  // Not counted: a pattern that nobody tuned is no miss.
  const auto found = store.look_again(key);
  if (!found.entry) return std::nullopt;
  Tuned out{.schedule = {}, .measured = found.entry->words};
  std::istringstream lines(found.entry->value);
  ir::ScheduleHint hint{.key = {}, .value = 0, .range = {}, .tuned = true};
  while (lines >> hint.key >> hint.value) out.schedule.push_back(hint);
  return out;
}

cache::PutResult keep_tuned(cache::Store& store, const cache::Key& key, const Tuned& tuned) {
  std::string value;
  for (const auto& hint : tuned.schedule) value += fmt::format("{} {}\n", hint.key, hint.value);
  return store.put(key, {.value = std::move(value), .words = tuned.measured});
}

void take_tuned(const std::vector<std::shared_ptr<cache::Store>>& stores, ir::Pattern& pattern,
                const CompileOptions& options, const Target& target) {
  if (target.kind != TargetKind::cpu || !pattern.schedule.empty()) return;
  const auto bind = bind_of(pattern, options);
  if (!bind) return;  // planning says what is missing
  const auto key = tuned_key(pattern, *bind, target);
  for (const auto& store : stores) {
    if (auto tuned = find_tuned(*store, key)) {
      pattern.schedule = std::move(tuned->schedule);
      return;
    }
  }
}

Result<Planned> plan_as_engines_do(const Source& source, const CompileOptions& options,
                                   const std::vector<std::shared_ptr<cache::Store>>& stores, const Target& target) {
  WEFT_TRY(auto front, read_pattern(source, options));
  take_tuned(stores, front.pattern, options, target);
  const auto known = as_measured(stores, target, front.pattern.dtype);
  return plan_pattern(std::move(front), options, known);
}

}  // namespace weft
