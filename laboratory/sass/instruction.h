#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Machine code of NVIDIA's GPUs as values: what nvdisasm prints, decoded.
namespace weft::sass {

constexpr int kNone = -1;
constexpr int kZeroRegister = 255;  ///< RZ
constexpr int kTrue = 7;            ///< PT

/// What the assembler tells the scheduler about one instruction. Six barriers count what is under way: one may be
/// held until the result is written, one until the operands are read.
struct Control {
  int stall = 0;        ///< clocks to the warp's next instruction; 0 lets that one start with this
  bool yields = false;  ///< another warp should come next
  int write_barrier = kNone;
  int read_barrier = kNone;
  unsigned waits = 0;  ///< barriers that must be free before this starts, one bit each
  unsigned reuse = 0;  ///< operand slots whose value the collector keeps for the next instruction
};

struct Operand {
  enum class Kind { vector, predicate, uniform_predicate, barrier, immediate, other };
  Kind kind = Kind::other;
  int number = 0;  ///< of a register or barrier: RZ is kZeroRegister, PT kTrue
  bool inverted = false, negated = false, absolute = false, reused = false;
  std::int64_t value = 0;  ///< of an immediate
  bool half = false;       ///< only a part of the register counts: R1.H1, or R1.CC with a carry
  std::string text = {};   ///< as printed

  bool is_register(int wanted) const { return kind == Kind::vector && number == wanted; }
  /// The register's value, and nothing done to it.
  bool is_plain_register() const { return kind == Kind::vector && !inverted && !negated && !absolute && !half; }
};

struct Instruction {
  int address = 0;
  std::string opcode;  ///< with its modifiers: `LDS.U.128`
  int guard = kTrue;   ///< runs where this predicate holds …
  bool guard_inverted = false;
  bool guard_uniform = false;  ///< it is UP<guard>, which a warp has once
  std::vector<Operand> operands;
  std::vector<int> targets;  ///< indices of instructions it may jump to; also the place that SSY names
  std::string meeting;       ///< Volta's BSSY and BSYNC: the register that holds the place where a warp meets again
  Control control;

  /// `LDS` of `LDS.U.128`
  std::string_view name() const { return std::string_view(opcode).substr(0, opcode.find('.')); }
  /// Does `.modifier` stand among the modifiers?
  bool has(std::string_view modifier) const;
  bool is_conditional() const { return guard != kTrue || guard_inverted; }
};

/// One kernel or function of a listing.
struct Code {
  std::string name;
  int registers = 0;  ///< of a thread; 0: the listing does not say
  bool wide = false;  ///< 128 bits an instruction, as from Volta on; before, every fourth word is for control
  std::vector<Instruction> instructions;
};

}  // namespace weft::sass
