#pragma once

#include "compiler/base/result.h"
#include "laboratory/sass/flow.h"
#include "laboratory/sass/units.h"

#include <map>
#include <optional>
#include <vector>

namespace weft::sass {

/// One round of a loop as a warp runs it when nothing is special: the way with the most products, and of those the
/// one with the least else.
struct Path {
  std::vector<int> trace;    ///< instructions in the order they run
  std::vector<int> rounds;   ///< of each loop of the flow: how often its header was passed
  std::vector<int> guessed;  ///< loops whose rounds neither their counter nor the caller tells
  int preferred = 0;         ///< branches that no known value decides
};

/// Rounds of loops that the caller knows, by the address of their first instruction.
using KnownRounds = std::map<int, int>;

/// User error where the loop has no way back to its beginning, or a round of it never ends.
Result<Path> hot_path(const Code& code, const Flow& flow, int loop, const KnownRounds& known = {});

/// The loop over blocks of keys: of those whose round has products and exponentials, the innermost with the most
/// products. Without exponentials, as in a plain matrix product, the innermost loop with the most products; kNone
/// where nothing is multiplied.
int main_loop(const Code& code, const Flow& flow, const KnownRounds& known = {});

Mix mix_of(const Code& code, const std::vector<int>& trace);

}  // namespace weft::sass
