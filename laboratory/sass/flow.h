#pragma once

#include "laboratory/sass/instruction.h"

#include <vector>

/// Where a kernel's instructions can go, and which of them repeat.
namespace weft::sass {

struct Block {
  int first = 0, last = 0;     ///< instructions, both included
  std::vector<int> next = {};  ///< blocks; where it falls through to comes first
  int dominator = kNone;       ///< the last block that every way here passes through; kNone: the first block, or no way
  int loop = kNone;            ///< the innermost one it is in
};

/// A natural loop: one block that is entered, and all from which there is a way back to it.
struct Loop {
  int header = 0;
  int parent = kNone;
  std::vector<bool> blocks;  ///< which ones belong to it, those of inner loops too

  bool contains(int block) const { return blocks[static_cast<std::size_t>(block)]; }
};

struct Flow {
  std::vector<Block> blocks;
  std::vector<Loop> loops;  ///< inner ones before those around them

  int block_at(int instruction) const;
  /// Is `inner` this loop or inside of it?
  bool encloses(int loop, int inner) const;
};

/// Besides its guard, a branch may have a predicate for an operand.
bool depends_on_operand(const Instruction& branch);

/// Threads of a warp are taken to go the same way: a SYNC is a jump to where the warp meets again.
Flow flow_of(const Code& code);

}  // namespace weft::sass
