#pragma once

#include "compiler/ring/choose.h"
#include "runtime/engine/front.h"
#include "tools/json.h"
#include "tools/ring_option.h"

#include <string>
#include <vector>

namespace weft::tools {

/// What `explain --ring` says.
struct RingReport {
  ring::Choice choice;
  ring::Report report;
  std::string assumed;  ///< the machine that times are predicted for
  bool closed = true;   ///< needs in closed form; else looked for pair by pair
  double plan_ms = 0;
};

/// Who owns what. User error where the pattern or the sizes cannot be split, as below.
Result<ring::Choice> owners_of(const Planned& planned, const ir::Shape& shape, const std::vector<ir::Tensor>& inputs,
                               const RingOf& ring);
Result<RingReport> ring_report(const Planned& planned, const ir::Shape& shape, const std::vector<ir::Tensor>& inputs,
                               const RingOf& ring);

std::string to_text(const RingReport& ring);
Json to_json(const RingReport& ring);

}  // namespace weft::tools
