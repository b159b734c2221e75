#pragma once

#include "runtime/sass/instruction.h"

#include <optional>
#include <string_view>

namespace weft::sass {

/// One operand as nvdisasm prints it: `-|R3|.reuse`, `!P0`, `0x10`, `c[0x0][0x20]`, `[R4+0x20]`.
Operand parse_operand(std::string_view text);

/// How many bytes each thread of a load or store moves: 4 for `LDS`, 16 for `LDS.U.128`.
int bytes_each(const Instruction& instruction);

/// Extra clocks the register file needs before the instruction has its operands: each of the four banks gives one
/// register a clock. What `previous`, the warp's instruction before, marked for reuse is there already.
int bank_conflicts(const Instruction& instruction, const Instruction* previous);

/// An FFMA of registers as they are, as a product of matrices has them: a sum may move from register to register, but
/// no factor of it is a constant and nothing is subtracted.
bool adds_product(const Instruction& instruction);

/// How many products a tensor core's instruction adds, for each thread of the warp; 0 for other instructions.
double tensor_products(const Instruction& instruction);

}  // namespace weft::sass
