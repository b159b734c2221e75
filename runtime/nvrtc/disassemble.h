#pragma once

#include "compiler/base/result.h"
#include "compiler/target/target.h"

#include <string>
#include <vector>

/// A cubin as the machine's instructions, through NVIDIA's nvdisasm, for readers: nothing that runs depends on it.
namespace weft::nvrtc {

/// Every nvdisasm: WEFT_NVDISASM alone where it is set; else those on PATH, of $CUDA_HOME, $CUDA_PATH and
/// $CONDA_PREFIX, of /usr/local/cuda*, of Python's packages (nvidia-cuda-nvdisasm; triton, which carries one), and of
/// Weft's data folders, where NVRTC is looked for, too.
std::vector<std::string> disassemblers();

/// Beside each instruction its bits, which have what the assembler tells the scheduler.
enum class Encodings { hidden, shown };

/// The text of the first of them that reads the cubin, which is one for `target`: each release drops old
/// architectures. Environment error, with the command that mends it and what each said, where none does.
Result<std::string> disassemble(const std::string& cubin, const Target& target,
                                Encodings encodings = Encodings::hidden);

}  // namespace weft::nvrtc
