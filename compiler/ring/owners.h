#pragma once

#include "compiler/ir/pattern.h"
#include "compiler/ring/runs.h"

#include <cstdint>
#include <string>
#include <vector>

/// Who owns which tokens (semantics, section 9).
namespace weft::ring {

inline constexpr std::int64_t kMostRanks = 4096;

/// Every token belongs to one rank. A rank's runs are sorted; one that owns nothing has none.
struct OwnerMap {
  std::string name;  ///< `contiguous`, `snake(group 8, rounds 2)`: for reports
  std::int64_t tokens = 0;
  std::vector<Runs> runs;  ///< by rank

  std::int64_t ranks() const { return std::ssize(runs); }
  /// Of the rank with the most.
  std::int64_t most_tokens() const;
};

/// Groups of `group` ranks own consecutive super-cells. Inside one, blocks are dealt out in `rounds` rounds, every
/// second one backwards. A group of 1 is contiguous; a group of all ranks with two rounds is zigzag. Borders stand
/// where section 9 has them, at floor(i n / pieces).
OwnerMap snake(std::int64_t tokens, std::int64_t ranks, std::int64_t group, std::int64_t rounds);

/// Tokens in as many equal chunks as there are entries, each of the rank that its entry says.
OwnerMap chunks(std::int64_t tokens, std::int64_t ranks, const std::vector<std::int64_t>& rank_of);

/// What a layout of the language says; `auto` is for choose.h.
OwnerMap owners(ir::RingLayout layout, std::int64_t tokens, std::int64_t ranks);

}  // namespace weft::ring
