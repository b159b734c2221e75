#pragma once

#include "compiler/ir/plan.h"

#include <cstdint>
#include <optional>

namespace weft::planner {

/// Rows that a range keeps, where what it asks of rows alone repeats: by `period` rows, each in whole runs of `run`
/// rows from multiples of it.
struct RowPeriod {
  std::int64_t period = 0;
  std::int64_t run = 0;
};

/// Found by asking, so that it does not matter how conditions are written; `heads`: of a launch. What ends of sequences
/// change is not seen: tiles of such rows are right, and no faster than others.
std::optional<RowPeriod> row_period(const ir::Plan& plan, const ir::KeyRange& range, ir::Stationary stationary,
                                    std::int64_t heads);

}  // namespace weft::planner
