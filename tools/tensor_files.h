#pragma once

#include "compiler/base/result.h"
#include "tools/arrays.h"
#include "tools/npy.h"

#include <optional>
#include <string>

/// Tensors in .npy files, as the command takes and gives them.
namespace weft::tools {

/// q, k, v and their gradients: f2, f4, f8; bf16 as V2, or as u2 where `asked` says bf16. User error otherwise, that
/// names the file and, by `name`, what it should hold, says what was found, and how NumPy makes it right.
Result<Array> read_activations(const std::string& path, const std::string& name, std::optional<DType> asked,
                               npy::Values values = npy::Values::at_once);

/// An input of a pattern: i4, u1 or f4 as `wanted`.
Result<Array> read_input(const std::string& path, const std::string& name, DType wanted);

/// The line of Python that gives a file's values another type.
std::string cure(const std::string& path, DType wanted);

/// Whole or not at all. bf16 is written as u2.
Status write_array(const std::string& path, const Array& array);

}  // namespace weft::tools
