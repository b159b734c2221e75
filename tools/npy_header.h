#pragma once

#include "tools/npy.h"

namespace weft::npy {

struct Header {
  Type type = Type::f4;
  bool fortran = false;
  std::vector<std::int64_t> shape;
  std::size_t begin = 0;  ///< where the values start
};

/// Reads magic, version and the dictionary, which is a Python literal. Bounded by 64 KiB.
Result<Header> decode_header(std::string_view file, const std::string& name);
std::string encode_header(const NpyArray& array);

}  // namespace weft::npy
