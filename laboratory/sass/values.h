#pragma once

#include "laboratory/sass/instruction.h"

#include <array>
#include <optional>

namespace weft::sass {

/// What is known of a warp's registers where all its lanes hold the same: enough to follow a loop's counter.
class Values {
 public:
  /// Executes an instruction. What it computes of unknown values, or in a way that is not modelled, is unknown.
  void execute(const Instruction& instruction);

  /// Does the guard hold?
  std::optional<bool> guard(const Instruction& instruction) const;
  /// From here on the guard does, or does not, hold.
  void assume(const Instruction& instruction, bool holds);
  std::optional<std::uint32_t> value(const Operand& operand) const;

 private:
  std::optional<bool> predicate(const Operand& operand) const;
  std::optional<std::uint32_t> result(const Instruction& instruction) const;
  std::optional<bool> comparison(const Instruction& instruction) const;
  void forget_results(const Instruction& instruction);

  std::array<std::optional<std::uint32_t>, kZeroRegister> registers_;
  std::array<std::optional<bool>, kTrue> predicates_;
};

}  // namespace weft::sass
