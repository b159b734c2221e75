#pragma once

#include "compiler/base/result.h"
#include "compiler/ir/tensor.h"
#include "tools/bytes.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// NumPy's .npy files: versions 1 to 3, C and Fortran order, little-endian.
namespace weft::npy {

/// The types that tensors of Weft have in files, and others that NumPy gives to integers and truths, so that whoever
/// wants another can say what was found. `v2` is two bytes without a type, how NumPy stores bfloat16; `u2` may hold the
/// same bits.
enum class Type { f2, f4, f8, i4, u1, u2, v2, i1, i2, i8, u4, u8, b1 };

const char* to_string(Type type);  ///< `<f4`
std::size_t size_of(Type type);

/// An array as it lies in a file, but always row-major.
struct NpyArray {
  Type type = Type::f4;
  std::vector<std::int64_t> shape;
  Bytes bytes;

  bool operator==(const NpyArray&) const = default;
};

/// Decodes a whole file's bytes; `name` is what errors call it. User errors say what was found and
/// what was expected.
Result<NpyArray> decode(std::string_view file, const std::string& name);
std::string encode(const NpyArray& array);

/// Are values read at once, or where a file allows it when they are looked at? They must then stay as they are.
enum class Values { at_once, when_asked };
Result<NpyArray> read(const std::string& path, Values values = Values::at_once);
/// The file appears whole or not at all.
Status write(const std::string& path, const NpyArray& array);

/// Values in f64; `u2` and `v2` are taken as bfloat16 bits.
ir::Tensor to_tensor(const NpyArray& array);
/// Values rounded to the type; `u2` and `v2` hold bfloat16 bits.
NpyArray from_tensor(const ir::Tensor& tensor, Type type);

}  // namespace weft::npy
