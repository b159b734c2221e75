#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

/// The driver as a program that has opened it sees it: what its GPU is, and what it has run.
namespace weft::machine {

struct Launched {
  std::string kernel;
  std::map<std::string, std::uint64_t> executed;  ///< warp instructions by name without modifiers
  std::vector<std::uint64_t> of_blocks;           ///< all of them, of each block of the grid
  int warps = 0;                                  ///< of a block
};

struct Machine {
  std::mutex mutex;
  int sm = 80;                     ///< or WEFT_MACHINE_SM
  unsigned seed = 0;               ///< or WEFT_MACHINE_SEED; not 0: warps and lanes run in an order drawn by it
  std::vector<Launched> launches;  ///< since somebody cleared it
  std::string fault;               ///< what was wrong with the last launch that failed
};

}  // namespace weft::machine

extern "C" {
/// The one of this library.
__attribute__((visibility("default"))) weft::machine::Machine* weft_machine();
}
