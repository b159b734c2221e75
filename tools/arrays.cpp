#include "tools/arrays.h"

#include "compiler/base/float16.h"
#include "runtime/draw/made_up.h"
#include "runtime/engine/front.h"

#include <cmath>
#include <cstring>
#include <numbers>

namespace weft::tools {

namespace {

/// Finaliser of SplitMix64: any counter becomes 64 well-mixed bits.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

class Draws {
 public:
  Draws(std::uint64_t seed, std::uint64_t stream) : base_(mix(seed * 0x9e3779b97f4a7c15ULL + mix(stream + 1))) {}
  std::uint64_t next() { return mix(base_ + ++count_ * 0x9e3779b97f4a7c15ULL); }
  /// In [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  /// Two normal numbers at once (Box and Muller).
  std::pair<float, float> normals() {
    const auto bits = next();
    const double u = (static_cast<double>(bits >> 32) + 0.5) * 0x1p-32;
    const double angle = static_cast<double>(bits & 0xffffffffU) * 0x1p-32 * 2 * std::numbers::pi;
    const double radius = std::sqrt(-2 * std::log(u));
    return {static_cast<float>(radius * std::cos(angle)), static_cast<float>(radius * std::sin(angle))};
  }

 private:
  std::uint64_t base_, count_ = 0;
};

template <typename T>
void put(Array& array, std::size_t i, T value) {
  std::memcpy(array.bytes.data() + i * sizeof(T), &value, sizeof(T));
}

void put_float(Array& array, std::size_t i, float value) {
  switch (array.dtype) {
    case DType::f16:
      return put(array, i, float_to_half(value));
    case DType::bf16:
      return put(array, i, float_to_bf16(value));
    case DType::f64:
      return put(array, i, static_cast<double>(value));
    case DType::f32:
    case DType::i32:
    case DType::u8:
      return put(array, i, value);
  }
}

void fill_lengths(Array& array, std::int64_t n, Draws& draws) {
  const auto count = array.bytes.size() / sizeof(std::int32_t);
  for (std::size_t i = 0; i < count; ++i) {
    put(array, i, static_cast<std::int32_t>(1 + static_cast<std::int64_t>(draws.uniform() * static_cast<double>(n))));
  }
}

/// About eight steps along the last axis, as documents packed into one sequence.
void fill_ascending(Array& array, Draws& draws) {
  const auto count = array.bytes.size() / sizeof(std::int32_t);
  const auto row = array.shape.empty() ? std::size_t{1} : static_cast<std::size_t>(array.shape.back());
  std::int32_t value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (i % row == 0)
      value = 0;
    else if (draws.uniform() * static_cast<double>(row) < 8)
      ++value;
    put(array, i, value);
  }
}

}  // namespace

Array::Array(DType type, std::vector<std::int64_t> extents)
    : dtype(type),
      shape(std::move(extents)),
      bytes(static_cast<std::size_t>(ir::Tensor::count(shape)) * size_of(type)) {}

OutputView Array::output() {
  OutputView view{.data = bytes.data(), .dtype = dtype, .rank = static_cast<int>(shape.size())};
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (i < kMaxRank) {
      view.extent[i] = shape[i];
      view.stride[i] = stride;
    }
    stride *= shape[i];
  }
  return view;
}

TensorView Array::view() const {
  const auto view = const_cast<Array*>(this)->output();
  return {.data = view.data, .dtype = view.dtype, .rank = view.rank, .extent = view.extent, .stride = view.stride};
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (auto extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

Array random_normal(DType dtype, std::vector<std::int64_t> shape, std::uint64_t seed, std::uint64_t stream) {
  Array array(dtype, std::move(shape));
  Draws draws(seed, stream);
  const auto count = array.bytes.size() / size_of(dtype);
  for (std::size_t i = 0; i < count; i += 2) {
    const auto [a, b] = draws.normals();
    put_float(array, i, a);
    if (i + 1 < count) put_float(array, i + 1, b);
  }
  return array;
}

Array random_input(const ir::Input& input, const ir::Shape& shape, std::uint64_t seed, std::uint64_t stream) {
  auto extents = draw::input_shape(input, shape);
  if (input.type == ir::InputType::f32) return random_normal(DType::f32, std::move(extents), seed, stream);
  Array array(from_ir(input.type), std::move(extents));
  Draws draws(seed, stream);
  if (input.type == ir::InputType::u8) {
    for (auto& byte : array.bytes) byte = static_cast<std::byte>(draws.next() & 1U);
  } else if (input.axes.size() == 1 && input.axes[0].kind == ir::Axis::Kind::batch) {
    fill_lengths(array, shape.n_k, draws);
  } else {
    fill_ascending(array, draws);
  }
  return array;
}

}  // namespace weft::tools
