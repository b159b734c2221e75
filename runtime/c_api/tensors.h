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

/// What launches on one device and steps of a ring name alike.
template <typename From, typename Args>
Status take_common(const From& from, Args& out) {
  WEFT_TRY(out.q, tensor_of<TensorView>(from.q, "q"));
  WEFT_TRY(out.k, tensor_of<TensorView>(from.k, "k"));
  WEFT_TRY(out.v, tensor_of<TensorView>(from.v, "v"));
  WEFT_TRY(out.out, tensor_of<OutputView>(from.out, "out"));
  WEFT_TRY(out.lse, tensor_of<OutputView>(from.lse, "lse"));
  WEFT_TRY(out.branch_lse, tensor_of<OutputView>(from.branch_lse, "branch_lse"));
  WEFT_TRY(out.d_out, tensor_of<TensorView>(from.d_out, "d_out"));
  WEFT_TRY(out.d_lse, tensor_of<TensorView>(from.d_lse, "d_lse"));
  WEFT_TRY(out.dq, tensor_of<OutputView>(from.dq, "dq"));
  WEFT_TRY(out.dk, tensor_of<OutputView>(from.dk, "dk"));
  WEFT_TRY(out.dv, tensor_of<OutputView>(from.dv, "dv"));
  out.dropout_seed = from.dropout_seed;
  out.threads = from.threads;
  out.stream = from.stream;
  return done;
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
