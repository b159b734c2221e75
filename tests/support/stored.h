#pragma once

#include "runtime/engine/reference.h"

#include <weft/weft.h>

#include <cstddef>
#include <cstdint>
#include <vector>

/// Tensors of the interpreter as callers of the library hold them.
namespace weft::test {

using Bytes = std::vector<std::byte>;

/// A view of data that lies row-major, without gaps.
inline TensorView dense(const void* data, DType dtype, const std::vector<std::int64_t>& extents) {
  TensorView view{.data = data, .dtype = dtype, .rank = static_cast<int>(extents.size()), .extent = {}, .stride = {}};
  std::int64_t step = 1;
  for (std::size_t axis = extents.size(); axis-- > 0; step *= extents[axis]) {
    view.extent[axis] = extents[axis];
    view.stride[axis] = step;
  }
  return view;
}

/// Values as a type stores them.
inline Bytes stored(const ir::Tensor& values, DType dtype) {
  Bytes out(values.data.size() * size_of(dtype));
  const auto view = dense(out.data(), dtype, values.shape);
  from_f64(values,
           {.data = out.data(), .dtype = dtype, .rank = view.rank, .extent = view.extent, .stride = view.stride});
  return out;
}

}  // namespace weft::test
