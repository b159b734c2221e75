#pragma once

#include "compiler/base/result.h"
#include "laboratory/sass/instruction.h"

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace weft::machine {

constexpr int kBanks = 4;

/// One kernel of a cubin.
struct Program {
  sass::Code code;
  std::map<int, int> at;                      ///< address -> index of an instruction
  std::array<std::string, kBanks> constants;  ///< bank 0 has the size that a launch needs, and no values
  int sm = 0;
  int shared_bytes = 0;  ///< that it declares itself, and from sm_90 on what the hardware keeps before it
  int most_shared = 48 << 10;
  std::vector<std::uint64_t> executed;  ///< by all launches, of each instruction
};

using Programs = std::map<std::string, std::unique_ptr<Program>, std::less<>>;

/// What is in a cubin, read by nvdisasm.
Result<Programs> read_cubin(const std::string& cubin);

/// How long the ELF file at this address is; 0: it is none.
std::size_t cubin_bytes(const void* image);

}  // namespace weft::machine
