#pragma once

#include "runtime/c_api/handles.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

/// Tensors as callers of the C face describe them.
namespace weft::c_api {

inline Result<DType> dtype_of(int type, const char* of) {
  constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::u8};
  if (type < WEFT_F32 || type > WEFT_U8) return user_error(fmt::format("{} has no dtype: {}", of, type));
  return kTypes[type - 1];
}

template <typename Tensor>
Result<Tensor> tensor_of(const weft_tensor& from, const char* name) {
  Tensor out;
  if (from.data == nullptr && from.dtype == WEFT_DTYPE_OPEN) return out;
  WEFT_TRY(out.dtype, dtype_of(from.dtype, name));
  if (from.rank < 0 || from.rank > kMaxRank) return user_error(fmt::format("{} has {} axes", name, from.rank));
  out.data = from.data;
  out.rank = from.rank;
  std::copy(std::begin(from.extent), std::end(from.extent), out.extent.begin());
  std::copy(std::begin(from.stride), std::end(from.stride), out.stride.begin());
  return out;
}

/// Inputs, or their gradients.
template <typename Named>
Result<std::vector<Named>> named_tensors(const weft_named_tensor* from, std::size_t count, const char* name) {
  if (count > 0 && from == nullptr) return missing(name);
  std::vector<Named> out;
  for (std::size_t i = 0; i < count; ++i) {
    if (from[i].name == nullptr) return missing("the name of an input");
    WEFT_TRY(auto view, tensor_of<decltype(Named::view)>(from[i].tensor, from[i].name));
    out.push_back({from[i].name, view});
  }
  return out;
}

}  // namespace weft::c_api
