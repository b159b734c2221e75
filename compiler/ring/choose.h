#pragma once

#include "compiler/ring/report.h"

namespace weft::ring {

struct Choice {
  OwnerMap map;
  std::vector<std::string> reasons = {};  ///< for people
};

/// Who owns what under a layout of the language. `auto` is, of contiguous, snakes (zigzag among them) and chunks, the
/// map whose slowest
/// rank is predicted fastest: the same on every rank.
Choice choose(const Relation& relation, ir::RingLayout layout, std::int64_t ranks, const Machine& machine);

}  // namespace weft::ring
