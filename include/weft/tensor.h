#pragma once

#include <weft/api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace weft {

/// Element types. q, k, v and out: f32, f16, bf16 (f64 on the interpreter); inputs: i32, u8, f32.
enum class DType : std::uint8_t { f32, f16, bf16, f64, i32, u8 };

WEFT_API const char* to_string(DType type);
WEFT_API std::size_t size_of(DType type);

inline constexpr int kMaxRank = 4;

/// Somebody else's memory, seen as a tensor of up to four axes. Extents and strides count elements, not bytes.
/// A pattern takes any strides whose last one is 1, so `[B, H, n, d]` is a view of `[B, n, H, d]` with two
/// strides swapped, and any alignment that is a multiple of the element's size.
template <typename Pointer>
struct View {
  Pointer data = nullptr;
  DType dtype = DType::f32;
  int rank = 4;
  std::array<std::int64_t, kMaxRank> extent = {};
  std::array<std::int64_t, kMaxRank> stride = {};
};
using TensorView = View<const void*>;
using OutputView = View<void*>;

/// A dense row-major view. Extents beyond the fourth are ignored.
template <typename Pointer>
View<Pointer> dense(Pointer data, DType dtype, std::initializer_list<std::int64_t> extents) {
  View<Pointer> view{.data = data, .dtype = dtype, .rank = 0};
  for (auto extent : extents) {
    if (view.rank < kMaxRank) view.extent[static_cast<std::size_t>(view.rank++)] = extent;
  }
  std::int64_t stride = 1;
  for (int axis = view.rank - 1; axis >= 0; --axis) {
    const auto at = static_cast<std::size_t>(axis);
    view.stride[at] = stride;
    if (__builtin_mul_overflow(stride, view.extent[at], &stride)) stride = 0;  // refused when launched
  }
  return view;
}
inline TensorView dense_view(const void* data, DType dtype, std::initializer_list<std::int64_t> extents) {
  return dense<const void*>(data, dtype, extents);
}
inline OutputView dense_output(void* data, DType dtype, std::initializer_list<std::int64_t> extents) {
  return dense<void*>(data, dtype, extents);
}

}  // namespace weft
