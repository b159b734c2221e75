#pragma once

#include "tests/machine/driver/memory.h"
#include "tests/machine/driver/program.h"
#include "tests/machine/driver/reader.h"

#include <random>
#include <set>

namespace weft::machine {

/// An instruction with its meaning; control flow is the machine's own.
struct Ready {
  const sass::Instruction* of = nullptr;
  Predicate guard;
  Step step;  ///< empty: control flow, or unknown
  std::uint64_t* executed = nullptr;
};

enum PathMark : std::int32_t {
  kIdle = 1 << 30,     ///< its guard holds for no lane
  kNewLine = 1 << 29,  ///< it loads from a line of global memory that the warp had not loaded from
};

/// One launch of a kernel, on its way.
struct Launch {
  Program* program = nullptr;
  DeviceMemory* memory = nullptr;
  std::array<unsigned, 3> grid = {}, block = {};
  std::size_t shared_bytes = 0;
  std::array<std::string, kBanks> constants;
  std::vector<Ready> code;
  Findings findings;
  std::uint64_t executed = 0;          ///< warp instructions
  std::uint64_t most = 4'000'000'000;  ///< … behind which it is taken not to end: more than any kernel of a test has
  std::vector<std::uint64_t> of_blocks;  ///< the same, of each block of the grid
  /// Where the first warp of one block of the grid goes, instruction by instruction; -1: nobody wants to know.
  std::int64_t followed = -1;
  const Warp* follows = nullptr;
  std::vector<std::int32_t> path;  ///< addresses, and of each a PathMark
  std::set<Wide> lines;            ///< of global memory, that the warp has loaded from
  /// Which warp and which lanes go first, where the hardware is free to choose. Null: the first.
  std::minstd_rand* dice = nullptr;

  const Ready& at(int index) const { return code[static_cast<std::size_t>(index)]; }
  int index_of(int address) const;
  void note_load(const Warp& warp, Wide address);
};

struct Block {
  Launch* launch = nullptr;
  std::array<unsigned, 3> index = {};
  SharedMemory shared;
  std::vector<Warp> warps = {};
};

/// Runs all blocks. Throws a Fault; what else is wrong stands in the launch's findings.
void run(Launch& launch);

/// Runs a warp until all of its lanes have left or wait at the block's barrier.
void run_narrow(Warp& warp, Launch& launch);  ///< Maxwell and Pascal: a stack of places to come back to
void run_wide(Warp& warp, Launch& launch);    ///< Volta and newer: each lane is at a place of its own

/// Counts one more instruction of the warp; the lanes for which its guard holds.
Mask begin(const Warp& warp, const Ready& ready, Launch& launch, Mask active);
/// The lanes come to the block's barrier.
void arrive(Warp& warp, const Ready& ready, const Launch& launch, Mask lanes);
/// `BRX R2 -0x150`: the places that the lanes' registers name, and which lanes go there.
std::map<int, Mask> indexed_branch(const Warp& warp, const Ready& ready, const Launch& launch, Mask lanes);
/// All further predicates among the operands, as in `@P0 BRA !P1, place`.
Mask further_conditions(const Warp& warp, const Ready& ready);
/// Of what only a whole warp may do together.
void expect_whole_warp(Warp& warp, Mask lanes, std::string_view name, int place);

}  // namespace weft::machine
