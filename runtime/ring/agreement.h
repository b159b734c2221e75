#pragma once

#include "runtime/ring/link.h"

#include <span>
#include <string>
#include <vector>

namespace weft {

/// What every rank must say alike; `value` counts up to its 48th character, so that longer ones stand as digests.
struct Agreed {
  std::string what;
  std::string value;
};

/// Collective. What each rank says, as many bytes as `mine`: of one rank behind that of the one before.
Result<std::vector<char>> said_by_all(Link& link, std::span<const char> mine);

/// `ranks 0 to 5, 7`
std::string names_of(const std::vector<int>& ranks);

/// Collective. User error that names the first thing on which ranks disagree, and who says what. The names of things
/// are the same everywhere.
Status agree(Link& link, const std::vector<Agreed>& things);

}  // namespace weft
