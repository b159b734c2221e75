#include "laboratory/sass/operands.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace weft::sass {
namespace {

std::optional<int> decimal(std::string_view text) {
  int value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Signs and bars around an operand.
void take_signs(std::string_view& text, Operand& out) {
  while (!text.empty()) {
    if (text.front() == '-') {
      out.negated = !out.negated;
    } else if (text.front() == '!' || text.front() == '~') {
      out.inverted = !out.inverted;
    } else if (text.front() == '|') {
      out.absolute = true;
      text.remove_suffix(text.size() > 1 && text.back() == '|' ? 1 : 0);
    } else if (text.front() != '+') {
      return;
    }
    text.remove_prefix(1);
  }
}

bool parse_register(std::string_view text, Operand& out) {
  const auto dot = std::min(text.find('.'), text.size());
  std::string_view name = text.substr(0, dot), modifiers = text.substr(dot);
  out.reused = modifiers.find(".reuse") != std::string_view::npos;
  if (out.reused) modifiers.remove_suffix(std::string_view(".reuse").size());
  out.half = !modifiers.empty();
  if (name.ends_with('|')) name.remove_suffix(1);
  if (name.size() < 2) return false;
  const bool predicate = name.front() == 'P';
  if (!predicate && name.front() != 'R') return false;
  out.kind = predicate ? Operand::Kind::predicate : Operand::Kind::vector;
  if (name == "RZ" || name == "PT") {
    out.number = predicate ? kTrue : kZeroRegister;
    return true;
  }
  const auto number = decimal(name.substr(1));
  if (number) out.number = *number;
  return number.has_value();
}

bool parse_immediate(std::string_view text, Operand& out) {
  const bool hexadecimal = text.starts_with("0x");
  if (hexadecimal) text.remove_prefix(2);
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), out.value, hexadecimal ? 16 : 10);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return false;
  out.kind = Operand::Kind::immediate;
  if (out.negated) out.value = -out.value;
  out.negated = false;
  return true;
}

/// `UP0`, which a whole warp has in common. What it holds is not followed.
bool parse_uniform(std::string_view text, Operand& out) {
  if (!text.starts_with("UP")) return false;
  out.kind = Operand::Kind::uniform_predicate;
  out.number = text == "UPT" ? kTrue : decimal(text.substr(2)).value_or(0);
  return true;
}

/// `SB5`
bool parse_barrier(std::string_view text, Operand& out) {
  const auto number = text.starts_with("SB") ? decimal(text.substr(2)) : std::nullopt;
  if (!number) return false;
  out.kind = Operand::Kind::barrier;
  out.number = *number;
  return true;
}

}  // namespace

bool Instruction::has(std::string_view modifier) const {
  std::string_view rest = std::string_view(opcode).substr(std::min(opcode.find('.'), opcode.size()));
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const auto end = std::min(rest.find('.'), rest.size());
    if (rest.substr(0, end) == modifier) return true;
    rest.remove_prefix(end);
  }
  return false;
}

Operand parse_operand(std::string_view text) {
  Operand out;
  out.text = text;
  take_signs(text, out);
  if (parse_register(text, out) || parse_uniform(text, out) || parse_barrier(text, out) || parse_immediate(text, out)) {
    return out;
  }
  out.kind = Operand::Kind::other;
  return out;
}

int bytes_each(const Instruction& instruction) {
  if (instruction.has("128")) return 16;
  if (instruction.has("64")) return 8;
  return 4;
}

std::size_t first_source(const Instruction& instruction) {
  // A predicate is written together with a second one, or with a register.
  const bool predicate = !instruction.operands.empty() && instruction.operands[0].kind == Operand::Kind::predicate;
  return predicate ? 2 : 1;
}

/// Is the register there already? What is marked is kept.
bool Collector::take(std::size_t slot, const Operand& operand) {
  auto& [older, newer] = kept_[slot];
  const bool kept = older == operand.number || newer == operand.number;
  if (older == operand.number) older = kNone;
  if (newer == operand.number) newer = std::exchange(older, kNone);
  if (operand.reused) older = std::exchange(newer, operand.number);
  return kept;
}

int Collector::conflicts(const Instruction& instruction) {
  constexpr int kBanks = 4;
  int read[kBanks][kSlots] = {}, count[kBanks] = {}, most = 1;
  const std::size_t first = first_source(instruction);
  // Slots are counted as encoded: a constant keeps the place of a register.
  for (std::size_t slot = 0; slot < kSlots && first + slot < instruction.operands.size(); ++slot) {
    const Operand& operand = instruction.operands[first + slot];
    if (operand.kind != Operand::Kind::vector || operand.number == kZeroRegister || take(slot, operand)) continue;
    const int bank = operand.number % kBanks;
    int* const end = read[bank] + count[bank];
    if (std::find(read[bank], end, operand.number) != end) continue;
    *end = operand.number;
    most = std::max(most, ++count[bank]);
  }
  return most - 1;
}

bool adds_product(const Instruction& instruction) {
  const auto& operands = instruction.operands;
  if (instruction.name() != "FFMA" || operands.size() != 4) return false;
  const auto is_factor = [](const Operand& o) { return o.is_plain_register() && o.number != kZeroRegister; };
  return is_factor(operands[0]) && is_factor(operands[1]) && is_factor(operands[2]) && operands[3].is_plain_register();
}

double tensor_products(const Instruction& instruction) {
  constexpr double kLanes = 32;
  const auto name = instruction.name();
  if (name != "HMMA" && name != "IMMA") return 0;
  // M, N and K, without marks between them.
  for (const auto& [shape, products] :
       {std::pair{"16816", 16. * 8 * 16}, std::pair{"1688", 16. * 8 * 8}, std::pair{"16832", 16. * 8 * 32}}) {
    if (instruction.has(shape)) return products / kLanes;
  }
  return 0;
}

}  // namespace weft::sass
