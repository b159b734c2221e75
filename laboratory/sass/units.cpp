#include "laboratory/sass/units.h"

#include <utility>

namespace weft::sass {
namespace {

constexpr std::pair<std::string_view, Unit> kOpcodes[] = {
#define WEFT_OPCODE(name, unit) {name, Unit::unit},
#include "laboratory/sass/opcodes.def"
};

}  // namespace

Unit unit_of(const Instruction& instruction) {
  const std::string_view name = instruction.name();
  for (const auto& [known, unit] : kOpcodes) {
    if (known == name) return unit;
  }
  return Unit::math;
}

const char* to_string(Unit unit) {
  constexpr const char* kNames[kUnits] = {
      "f32 and integers", "half rate", "special functions", "f64",      "tensor cores", "shared",
      "global",           "local",     "constants",         "barriers", "fences",       "control"};
  return kNames[static_cast<std::size_t>(unit)];
}

}  // namespace weft::sass
