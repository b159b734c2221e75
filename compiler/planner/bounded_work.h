#pragma once

#include "compiler/planner/analysis.h"

namespace weft::planner {

/// The work of one head of one phase of a plan whose keys bounds and strides say: in closed form for each tile, of
/// tiles that are counted once a period where they repeat and sampled where there are too many. `together`: query heads
/// that stand in a tile.
Work count_bounded(const ir::Plan& plan, const ir::Phase& phase, const ir::HeadTable& head, const ir::Extent& extent,
                   std::int64_t together);

/// Kept pairs of some rows of one pass, looked at row by row: `count` of them from `first` on, `stride` apart.
double pairs_of_rows(const ir::Plan& plan, const ir::HeadTable& head, std::size_t pass, const ir::Extent& extent,
                     std::int64_t first, std::int64_t count, std::int64_t stride);

}  // namespace weft::planner
