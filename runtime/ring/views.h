#pragma once

#include <weft/weft.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace weft {

/// What was written, to be read.
inline TensorView operand(const OutputView& view) {
  return {.data = view.data, .dtype = view.dtype, .rank = view.rank, .extent = view.extent, .stride = view.stride};
}

template <typename Pointer>
std::size_t numbers_of(const View<Pointer>& view) {
  std::size_t out = 1;
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(view.rank); ++axis)
    out *= static_cast<std::size_t>(view.extent[axis]);
  return out;
}

/// The same extents, row-major at `data`.
template <typename Pointer>
View<Pointer> dense_like(View<Pointer> view, Pointer data) {
  std::int64_t stride = 1;
  for (auto axis = static_cast<std::size_t>(view.rank); axis-- > 0; stride *= view.extent[axis])
    view.stride[axis] = stride;
  view.data = data;
  return view;
}

/// Rows of a view of this rank's, from local row `first` on.
template <typename Pointer>
View<Pointer> rows_of(View<Pointer> view, std::size_t axis, std::int64_t first, std::int64_t count) {
  using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const std::byte, std::byte>;
  if (view.data == nullptr) return view;
  const auto bytes = first * view.stride[axis] * static_cast<std::int64_t>(size_of(view.dtype));
  view.data = static_cast<Byte*>(view.data) + bytes;
  view.extent[axis] = count;
  return view;
}

/// Of the LSEs of branches, [branches, B, H, n], that of one, as there is one of a row: [B, H, n]. Without data:
/// nothing.
template <typename Pointer>
View<Pointer> of_branch(View<Pointer> view, std::int64_t branch) {
  using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const std::byte, std::byte>;
  if (view.data == nullptr) return {};
  view.data = static_cast<Byte*>(view.data) + branch * view.stride[0] * static_cast<std::int64_t>(size_of(view.dtype));
  --view.rank;
  std::copy(view.extent.begin() + 1, view.extent.end(), view.extent.begin());
  std::copy(view.stride.begin() + 1, view.stride.end(), view.stride.begin());
  return view;
}

}  // namespace weft
