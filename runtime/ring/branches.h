#pragma once

#include <weft/weft.h>

#include <algorithm>
#include <cstddef>
#include <type_traits>

namespace weft {

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
