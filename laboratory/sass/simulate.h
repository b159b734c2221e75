#pragma once

#include "laboratory/sass/instruction.h"
#include "laboratory/sass/machine.h"

#include <array>
#include <cstdint>
#include <vector>

namespace weft::sass {

/// Why a scheduler issued nothing of use in a clock.
enum class Slot {
  product,   ///< it issued an FFMA of the products
  other,     ///< it issued something else
  conflict,  ///< registers of one bank
  stall,     ///< fixed latencies
  shared,    ///< a result of shared memory
  global,    ///< a result of global memory
  special,   ///< a result of the special functions
  barrier,   ///< other warps of the block
  pipe,      ///< a unit with too much to do
};
constexpr std::size_t kSlots = 9;
const char* to_string(Slot slot);

struct Launch {
  int blocks = 2;  ///< on an SM at once
  int warps = 4;   ///< of a block
};

struct Simulation {
  double clocks_per_round = 0;  ///< in which every block on the SM runs one round
  double product_share = 0;     ///< FFMAs of the products over clocks of all schedulers: the share of the f32 peak
  double issued_per_clock = 0;  ///< and scheduler
  std::array<double, kSlots> slots = {};  ///< shares of all clocks; they sum up to 1

  double of(Slot slot) const { return slots[static_cast<std::size_t>(slot)]; }
};

/// Runs one SM clock by clock, each warp round after round through the trace, blocks started apart, until rounds
/// take the same time. Instruction fetch, L2 and memory bandwidth are no part of it. All zeros where a warp never gets
/// to the end of a round, because it waits for what nobody releases, or another one never gives way.
Simulation simulate(const Code& code, const std::vector<int>& trace, const Launch& launch, const Machine& machine = {});

}  // namespace weft::sass
