#pragma once

#include "compiler/ir/pattern.h"
#include "compiler/ir/pattern_interpreter.h"
#include "compiler/ir/tensor.h"

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

/// Sets whose keys are chosen for a whole row at once, `random` and `top`, and choices that somebody else made:
/// semantics section 8 lets kernels choose differently within a tolerance, so a check takes their choice and asks
/// whether it is right.
namespace weft::ir {

/// One such set, and the tokens of one position where it stands: of a block, inside `blocks`.
struct ChosenSet {
  SetPtr set;
  std::int64_t block = 1;
};
bool same(const ChosenSet& a, const ChosenSet& b);
/// `blocks(64, top(8, by: pooled, causal: true))`
std::string print(const ChosenSet& chosen, const Pattern& pattern);

/// Those of a pattern, each once, in the order of print(pattern).
std::vector<ChosenSet> chosen_sets(const Pattern& pattern);

/// What an unused place holds.
inline constexpr std::int32_t kNoKey = std::numeric_limits<std::int32_t>::max();

/// Keys chosen for rows; with blocks, numbers of key blocks for blocks of rows.
struct ChosenKeys {
  ChosenSet of;
  std::int64_t first_row = 0;               ///< number of the block of rows that stands first
  std::array<std::int64_t, 4> extent = {};  ///< batch entries (1: the same for all), heads, blocks of rows, places
  std::vector<std::int32_t> numbers = {};   ///< row-major; numbers ascend, kNoKey behind the last
  std::int64_t first_head = 0;              ///< number of the head that stands first

  bool has(std::int64_t row) const { return row >= first_row && row < first_row + extent[2]; }
  /// The places of a row that it has.
  const std::int32_t* places(std::int64_t b, std::int64_t h, std::int64_t row) const {
    const std::int64_t entry = extent[0] > 1 ? b : 0;
    return &numbers[static_cast<std::size_t>(((entry * extent[1] + h - first_head) * extent[2] + row - first_row) *
                                             extent[3])];
  }
};

/// Fills `keys.numbers` with what the semantics choose; all else of `keys` is set.
void choose_keys(const Pattern& pattern, const Shape& shape, const InputValues& inputs, const Tensor& q,
                 const Tensor& k, ChosenKeys& keys);

/// Is a choice right (semantics sections 7 and 8) for the blocks that hold any of `rows`, which are row numbers? Empty:
/// it is; else the first block that is wrong, and why.
std::string wrong_choice(const Pattern& pattern, const Shape& shape, const InputValues& inputs, const Tensor& q,
                         const Tensor& k, const ChosenKeys& keys, const std::vector<std::int64_t>& rows);

}  // namespace weft::ir
