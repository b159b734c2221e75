#pragma once

#include "laboratory/sass/instruction.h"

#include <array>
#include <string_view>

namespace weft::sass {

enum class Unit { math, half, special, wide, tensor, shared, global, local, constant, barrier, fence, control };
constexpr std::size_t kUnits = 12;

Unit unit_of(const Instruction& instruction);
/// Does it wait for operands of one bank? Units with queues read theirs in time.
inline bool reads_banks(Unit unit) { return unit == Unit::math || unit == Unit::half; }
const char* to_string(Unit unit);

/// How often what is executed.
struct Mix {
  std::array<double, kUnits> by_unit = {};
  double instructions = 0;
  double product_instructions = 0;  ///< those that add products …
  double products = 0;              ///< … how many, of a thread …
  double tensor_products = 0;       ///< … and on tensor cores
  double bank_conflicts = 0;        ///< clocks

  double of(Unit unit) const { return by_unit[static_cast<std::size_t>(unit)]; }
};

}  // namespace weft::sass
