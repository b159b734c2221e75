#pragma once

#include "python/dlpack.h"

#include <weft/c.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

/// Types of elements, in the words of each of those who name them.
namespace weft::python {

struct ElementType {
  std::string_view name;  ///< as Weft says it
  weft_dtype dtype;       ///< WEFT_DTYPE_OPEN: Weft has none, but a message names it
  char format;            ///< of the buffer protocol; 0: none
  dlpack::TypeCode code;
  std::uint8_t bytes;
};

inline constexpr ElementType kElementTypes[] = {
    {"f32", WEFT_F32, 'f', dlpack::TypeCode::real, 4},
    {"f16", WEFT_F16, 'e', dlpack::TypeCode::real, 2},
    {"bf16", WEFT_BF16, 0, dlpack::TypeCode::bfloat, 2},
    {"f64", WEFT_F64, 'd', dlpack::TypeCode::real, 8},
    {"i32", WEFT_I32, 'i', dlpack::TypeCode::integer, 4},
    {"u8", WEFT_U8, 'B', dlpack::TypeCode::unsigned_integer, 1},
    {"bool", WEFT_U8, '?', dlpack::TypeCode::boolean, 1},  // a byte that is 0 or 1
    {"i64", WEFT_DTYPE_OPEN, 'l', dlpack::TypeCode::integer, 8},
    {"i64", WEFT_DTYPE_OPEN, 'q', dlpack::TypeCode::integer, 8},
    {"i16", WEFT_DTYPE_OPEN, 'h', dlpack::TypeCode::integer, 2},
    {"i8", WEFT_DTYPE_OPEN, 'b', dlpack::TypeCode::integer, 1},
    {"u16", WEFT_DTYPE_OPEN, 'H', dlpack::TypeCode::unsigned_integer, 2},
};

/// Null for a name or a code that stands in no row.
inline const ElementType* element_type(std::string_view name) {
  for (const auto& row : kElementTypes) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

inline const ElementType* element_type(weft_dtype dtype) {
  for (const auto& row : kElementTypes) {
    if (row.dtype == dtype) return &row;
  }
  return nullptr;
}

}  // namespace weft::python
