#pragma once

#include "compiler/ir/plan.h"

#include <string>
#include <vector>

namespace weft::ir {

/// What a range keeps, as conditions on q and k in the notation of the language, such as `q / 64 * 64 <= k <= q` and
/// `k % 4096 % 2 == h % 2`; none where it keeps every pair. For people: nothing reads it back.
std::vector<std::string> conditions_of(const Plan& plan, const KeyRange& range, Stationary stationary);

}  // namespace weft::ir
