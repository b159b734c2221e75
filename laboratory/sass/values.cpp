#include "laboratory/sass/values.h"

#include "laboratory/sass/operands.h"
#include "laboratory/sass/units.h"

#include <algorithm>

namespace weft::sass {
namespace {

using Word = std::optional<std::uint32_t>;

bool is_load(const Instruction& instruction) {
  const Unit unit = unit_of(instruction);
  return unit == Unit::shared || unit == Unit::global || unit == Unit::local || unit == Unit::constant;
}

/// Registers in a row that are written; none of those modelled below writes more than one.
int registers_written(const Instruction& instruction) {
  if (unit_of(instruction) == Unit::tensor) return 4;
  if (is_load(instruction)) return std::max(bytes_each(instruction) / 4, instruction.name() == "LDSM" ? 4 : 1);
  const bool wide =
      unit_of(instruction) == Unit::wide || instruction.has("WIDE") || instruction.has("64") || instruction.has("F64");
  return wide ? 2 : 1;
}

template <typename Compare>
bool compare(std::uint32_t a, std::uint32_t b, bool is_unsigned, Compare holds) {
  return is_unsigned ? holds(a, b) : holds(static_cast<std::int32_t>(a), static_cast<std::int32_t>(b));
}

std::optional<bool> compare(const Instruction& by, std::uint32_t a, std::uint32_t b) {
  const bool u = by.has("U32");
  if (by.has("EQ")) return a == b;
  if (by.has("NE")) return a != b;
  if (by.has("LT")) return compare(a, b, u, [](auto x, auto y) { return x < y; });
  if (by.has("LE")) return compare(a, b, u, [](auto x, auto y) { return x <= y; });
  if (by.has("GT")) return compare(a, b, u, [](auto x, auto y) { return x > y; });
  if (by.has("GE")) return compare(a, b, u, [](auto x, auto y) { return x >= y; });
  return std::nullopt;
}

Word logic(const Instruction& by, std::uint32_t a, std::uint32_t b) {
  if (by.has("AND")) return a & b;
  if (by.has("OR")) return a | b;
  if (by.has("XOR")) return a ^ b;
  if (by.has("PASS_B")) return b;
  return std::nullopt;
}

}  // namespace

Word Values::value(const Operand& operand) const {
  if (operand.half || operand.absolute) return std::nullopt;
  Word out;
  if (operand.kind == Operand::Kind::immediate) {
    out = static_cast<std::uint32_t>(operand.value);
  } else if (operand.kind == Operand::Kind::vector) {
    out = operand.number == kZeroRegister ? Word(0) : registers_[static_cast<std::size_t>(operand.number)];
  }
  if (out && operand.inverted) out = ~*out;
  if (out && operand.negated) out = 0U - *out;
  return out;
}

std::optional<bool> Values::predicate(const Operand& operand) const {
  if (operand.kind != Operand::Kind::predicate) return std::nullopt;
  const auto held =
      operand.number == kTrue ? std::optional<bool>(true) : predicates_[static_cast<std::size_t>(operand.number)];
  return held ? std::optional<bool>(*held != operand.inverted) : std::nullopt;
}

std::optional<bool> Values::guard(const Instruction& instruction) const {
  return predicate(
      {.kind = Operand::Kind::predicate, .number = instruction.guard, .inverted = instruction.guard_inverted});
}

void Values::assume(const Instruction& instruction, bool holds) {
  if (instruction.guard != kTrue)
    predicates_[static_cast<std::size_t>(instruction.guard)] = holds != instruction.guard_inverted;
}

/// `ISETP.GE.AND P0, PT, R7, 0x4, PT`
std::optional<bool> Values::comparison(const Instruction& instruction) const {
  const auto& operands = instruction.operands;
  if (instruction.name() != "ISETP" || operands.size() != 5 || instruction.has("X") || !instruction.has("AND")) {
    return std::nullopt;
  }
  const Word a = value(operands[2]), b = value(operands[3]);
  const auto also = predicate(operands[4]);
  if (also && !*also) return false;
  const auto holds = a && b ? compare(instruction, *a, *b) : std::nullopt;
  return also && holds ? holds : std::nullopt;
}

Word Values::result(const Instruction& instruction) const {
  const auto& operands = instruction.operands;
  const auto name = instruction.name();
  if (operands.size() < 2 || operands[0].kind != Operand::Kind::vector || instruction.has("X")) return std::nullopt;
  const auto known = [&](std::size_t i) { return i < operands.size() ? value(operands[i]) : std::nullopt; };
  const Word a = known(1), b = known(2), c = known(3);
  if (name == "MOV" || name == "MOV32I") return a;
  if (name == "IMAD" && instruction.has("MOV")) return c;
  if (name == "SEL" && operands.size() == 4) {
    const auto first = predicate(operands[3]);
    return first ? (*first ? a : b) : std::nullopt;
  }
  if (!a || !b) return std::nullopt;
  if (name == "IADD" || name == "IADD32I") return *a + *b;
  if (name == "IADD3" && operands.size() == 4 && c && instruction.opcode == "IADD3") return *a + *b + *c;
  if (name == "LOP" || name == "LOP32I") return logic(instruction, *a, *b);
  if (name == "SHL" && *b < 32) return *a << *b;
  if (name == "SHR" && *b < 32 && instruction.has("U32")) return *a >> *b;
  if (name == "ISCADD" && c && *c < 32) return (*a << *c) + *b;
  return std::nullopt;
}

void Values::forget_results(const Instruction& instruction) {
  const auto name = instruction.name();
  const bool calls = (name == "CAL" || name == "CALL") && !instruction.has("NOINC");
  if (calls) registers_.fill(std::nullopt);
  if (calls || name == "R2P") predicates_.fill(std::nullopt);
  bool front = true;  // results come first: predicates, a register, or one and then the other
  for (std::size_t i = 0; i < std::min<std::size_t>(instruction.operands.size(), 2); ++i) {
    const Operand& operand = instruction.operands[i];
    if (operand.kind == Operand::Kind::predicate && operand.number != kTrue) {
      predicates_[static_cast<std::size_t>(operand.number)].reset();
    }
    if (operand.kind == Operand::Kind::vector && front) {
      const int end = std::min(operand.number + registers_written(instruction), kZeroRegister);
      for (int r = operand.number; r < end; ++r) registers_[static_cast<std::size_t>(r)].reset();
    }
    front = front && operand.kind == Operand::Kind::predicate;
  }
}

void Values::execute(const Instruction& instruction) {
  const auto runs = guard(instruction);
  if (runs && !*runs) return;
  const bool certain = runs.has_value();
  const auto holds = certain ? comparison(instruction) : std::nullopt;
  const Word computed = certain ? result(instruction) : std::nullopt;
  forget_results(instruction);
  if (instruction.operands.empty()) return;
  const Operand& to = instruction.operands[0];
  // A second predicate takes the opposite, which no counter needs.
  if (holds && to.kind == Operand::Kind::predicate && to.number != kTrue) {
    predicates_[static_cast<std::size_t>(to.number)] = *holds;
  }
  if (computed && to.kind == Operand::Kind::vector && to.number != kZeroRegister) {
    registers_[static_cast<std::size_t>(to.number)] = *computed;
  }
}

}  // namespace weft::sass
