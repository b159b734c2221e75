#pragma once

#include "compiler/ring/report.h"

namespace weft::ring {

struct Choice {
  OwnerMap map;
  Report report;
  std::vector<std::string> reasons;  ///< for people
};

/// What `auto` is: of contiguous, zigzag and snakes the map whose slowest rank is predicted fastest. The same on every
/// rank.
Choice choose(const Relation& relation, std::int64_t ranks, const Machine& machine);

}  // namespace weft::ring
