#pragma once

#include "compiler/ring/rounds.h"
#include "laboratory/explain/json.h"
#include "runtime/engine/front.h"

#include <cstdint>
#include <string>
#include <vector>

namespace weft::explain {

/// A ring of known size.
struct RingOf {
  std::int64_t ranks = 1;
  ir::RingLayout layout = ir::RingLayout::automatic;
  ring::Carrier carrier = ring::Carrier::automatic;
  std::size_t memory = 0;  ///< bytes that a rank has for K, V and messages; 0: what they take
};

/// What the caller, in words that begin with `said`, and the pattern's own `ring` say together. An empty layout leaves
/// it to the pattern, else `auto`; an empty carrier is `auto`. User error where the two contradict each other, and of
/// no such ring.
Result<RingOf> ring_of(std::int64_t ranks, const std::string& layout, const std::string& carrier,
                       const ir::Pattern& pattern, const std::string& said);

/// What such a ring does.
struct RingReport {
  ring::Choice choice;
  ring::Report report;
  std::string assumed;  ///< the machine that times are predicted for
  /// How needs and pairs were found: `closed` form, `walked` pair by pair, or `even`: all ranks compute all rows, of
  /// some heads, and pairs are taken to be spread evenly.
  std::string needs;
  double plan_ms = 0;
};

/// Who owns what. User error where the pattern or the sizes cannot be split, as below.
Result<ring::Choice> owners_of(const Planned& planned, const ir::Shape& shape, const std::vector<ir::Tensor>& inputs,
                               const RingOf& ring);
Result<RingReport> ring_report(const Planned& planned, const ir::Shape& shape, const std::vector<ir::Tensor>& inputs,
                               const RingOf& ring);

std::string to_text(const RingReport& ring);
Json to_json(const RingReport& ring);

}  // namespace weft::explain
