#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::nvrtc {

/// What one kernel takes of a multiprocessor.
struct KernelUse {
  std::string name;
  int registers = 0;     ///< a thread
  int spill_bytes = 0;   ///< a thread stores and loads, those of the functions it calls included
  int shared_bytes = 0;  ///< a block, declared with a size; what a launch adds is not in it
};

/// The kernels that the assembler's verbose messages in an NVRTC log speak of. Spilled bytes stand nowhere else: the
/// notes of the ELF file know registers, shared memory and stack only. Empty where there is no such message.
std::vector<KernelUse> read_ptxas_log(std::string_view log);

}  // namespace weft::nvrtc
