#pragma once

#include "compiler/planner/analysis.h"

namespace weft::planner {

/// Does a tile list a partial zone's keys in runs, of which each of its rows keeps an interval?
bool lists_in_runs(const ir::Plan& plan, const ir::PassTable& pass, const ir::Zone& zone, const ir::TileRows& rows);

/// The work of one head of one phase of a plan with conditions on pairs, which have no closed form: exact for short
/// sequences, taken from a sample of tiles and keys where there are more than so many pairs. `together`: query heads
/// that stand in a tile.
Work count_conditional(const ir::Plan& plan, const ir::Phase& phase, const ir::HeadTable& head,
                       const ir::Extent& extent, std::int64_t together, std::int64_t most_pairs);

}  // namespace weft::planner
