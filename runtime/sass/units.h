#pragma once

#include "runtime/sass/instruction.h"

#include <array>
#include <string_view>

namespace weft::sass {

enum class Unit { math, half, special, wide, tensor, shared, global, local, constant, barrier, fence, control };
constexpr std::size_t kUnits = 12;

Unit unit_of(const Instruction& instruction);
const char* to_string(Unit unit);

/// How often what is executed.
struct Mix {
  std::array<double, kUnits> by_unit = {};
  double products = 0;  ///< FFMAs that add a product
  double instructions = 0;
  double bank_conflicts = 0;  ///< clocks

  double of(Unit unit) const { return by_unit[static_cast<std::size_t>(unit)]; }
};

}  // namespace weft::sass
