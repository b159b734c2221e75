#pragma once

#include "kernels_cache/store.h"
#include "runtime/engine/front.h"

#include <optional>
#include <string>
#include <vector>

/// What `weft tune` measured to be best on this machine's processor, kept in the kernel store: one schedule for a
/// pattern with everything that is compiled in. Engines and commands plan with it where the pattern's text has no
/// schedule.
namespace weft {

/// A schedule with what was measured, for people.
struct Tuned {
  std::vector<ir::ScheduleHint> schedule;
  std::string measured;
};

/// What the key of a tuned schedule says: pattern, types and sizes, target, processor, version of Weft.
cache::Key tuned_key(const ir::Pattern& pattern, const ir::Bind& bind, const Target& target);

std::optional<Tuned> find_tuned(cache::Store& store, const cache::Key& key);
cache::PutResult keep_tuned(cache::Store& store, const cache::Key& key, const Tuned& tuned);

/// Puts a tuned schedule into a pattern for the CPU that has none. Nothing where none of the stores knows one.
void take_tuned(const std::vector<std::shared_ptr<cache::Store>>& stores, ir::Pattern& pattern,
                const CompileOptions& options, const Target& target);

/// What an engine with these stores comes to: with a tuned schedule, and with what was measured of this machine.
Result<Planned> plan_as_engines_do(const Source& source, const CompileOptions& options,
                                   const std::vector<std::shared_ptr<cache::Store>>& stores, const Target& target);

}  // namespace weft
