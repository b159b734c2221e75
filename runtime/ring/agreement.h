#pragma once

#include "runtime/ring/link.h"

#include <string>
#include <vector>

namespace weft {

/// What every rank must say alike; `value` counts up to its 48th character, so that longer ones stand as digests.
struct Agreed {
  std::string what;
  std::string value;
};

/// Collective. User error that names the first thing on which ranks disagree, and who says what. The names of things
/// are the same everywhere.
Status agree(Link& link, const std::vector<Agreed>& things);

}  // namespace weft
