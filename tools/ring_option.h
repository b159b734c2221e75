#pragma once

#include "compiler/base/result.h"
#include "compiler/ir/pattern.h"
#include "tools/options.h"

#include <optional>

namespace weft::tools {

/// A ring of known size.
struct RingOf {
  std::int64_t ranks = 1;
  ir::RingLayout layout = ir::RingLayout::automatic;
};

/// What `--ring R[:LAYOUT]` and the pattern's own `ring` say together; nothing without the option. User error where the
/// two contradict each other.
Result<std::optional<RingOf>> ring_of(const Options& options, const ir::Pattern& pattern);

/// What is wrong with the option by itself; empty: nothing.
std::string wrong_ring(const Options& options);

}  // namespace weft::tools
