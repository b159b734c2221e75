#pragma once

#include "laboratory/sass/instruction.h"

#include <array>
#include <string_view>

namespace weft::sass {

/// One operand as nvdisasm prints it: `-|R3|.reuse`, `!P0`, `0x10`, `c[0x0][0x20]`, `[R4+0x20]`.
Operand parse_operand(std::string_view text);

/// How many bytes each thread of a load or store moves: 4 for `LDS`, 16 for `LDS.U.128`.
int bytes_each(const Instruction& instruction);

/// Which operand is the first that an instruction reads: those before it are registers that it writes.
std::size_t first_source(const Instruction& instruction);

/// A warp's way from the register file to arithmetic. Each of four banks gives one register a clock. Each of three
/// operand slots keeps two registers: those marked for reuse, until they are read without the mark or two others come.
/// (Nobody says so; but of ptxas's marks this leaves none without a use, and one register to a slot leaves every
/// tenth.)
class Collector {
 public:
  /// Extra clocks that the next instruction waits for its operands.
  int conflicts(const Instruction& instruction);

 private:
  static constexpr int kSlots = 3;
  bool take(std::size_t slot, const Operand& operand);

  std::array<std::array<int, 2>, kSlots> kept_ = {{{kNone, kNone}, {kNone, kNone}, {kNone, kNone}}};  ///< oldest first
};

/// An FFMA of registers as they are, as a product of matrices has them: a sum may move from register to register, but
/// no factor of it is a constant and nothing is subtracted.
bool adds_product(const Instruction& instruction);

/// How many products a tensor core's instruction adds, for each thread of the warp; 0 for other instructions.
double tensor_products(const Instruction& instruction);

}  // namespace weft::sass
