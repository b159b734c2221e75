#pragma once

#include "compiler/ir/pattern.h"
#include "compiler/ir/tensor.h"
#include "tools/bytes.h"

#include <weft/tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// Tensors that the command owns: read from files, or made up.
namespace weft::tools {

/// Row-major values.
struct Array {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  Bytes bytes;

  Array() = default;
  Array(DType type, std::vector<std::int64_t> extents);
  TensorView view() const;
  OutputView output();
};

/// `[2, 512, 8, 64]`
std::string shape_text(const std::vector<std::int64_t>& shape);

/// Normal random numbers, the same for the same seed and stream on every machine.
Array random_normal(DType dtype, std::vector<std::int64_t> shape, std::uint64_t seed, std::uint64_t stream);

/// An input that was not given: f32 normal; u8 0 or 1; i32[batch] lengths in 1..n; other i32 non-decreasing from
/// 0 along the last axis.
Array random_input(const ir::Input& input, const ir::Shape& shape, std::uint64_t seed, std::uint64_t stream);

}  // namespace weft::tools
