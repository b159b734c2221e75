#pragma once

#include "compiler/base/result.h"
#include "compiler/ring/choose.h"

namespace weft::ring {

/// What `choose` says, for ranks that have `memory` bytes for K, V and what travels of them; 0: as much as it takes.
/// Where that is not enough for the rank that needs most, keys are cut into rounds. User error where there is no room
/// for the smallest round, or where heads or queries have to travel, or rows stand apart.
Result<Choice> choose_within(std::size_t memory, const Relation& relation, ir::RingLayout layout, std::int64_t ranks,
                             const Machine& machine, Carrier carrier = Carrier::automatic);

}  // namespace weft::ring
