#include "tools/tensor_files.h"

#include "tools/files.h"
#include "tools/npy.h"

#include <fmt/format.h>

#include <utility>

namespace weft::tools {

namespace {

std::optional<DType> dtype_of(npy::Type type, bool words_are_bf16) {
  switch (type) {
    case npy::Type::f2:
      return DType::f16;
    case npy::Type::f4:
      return DType::f32;
    case npy::Type::f8:
      return DType::f64;
    case npy::Type::i4:
      return DType::i32;
    case npy::Type::u1:
      return DType::u8;
    case npy::Type::v2:
      return DType::bf16;
    case npy::Type::u2:
      return words_are_bf16 ? std::optional(DType::bf16) : std::nullopt;
    case npy::Type::i1:
    case npy::Type::i2:
    case npy::Type::i8:
    case npy::Type::u4:
    case npy::Type::u8:
    case npy::Type::b1:
      break;
  }
  return std::nullopt;
}

npy::Type type_of(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return npy::Type::f2;
    case DType::f32:
      return npy::Type::f4;
    case DType::f64:
      return npy::Type::f8;
    case DType::i32:
      return npy::Type::i4;
    case DType::u8:
      return npy::Type::u1;
    case DType::bf16:
      return npy::Type::u2;
  }
  return npy::Type::f4;
}

Array array_of(npy::NpyArray file, DType dtype) {
  Array array;
  array.dtype = dtype;
  array.shape = std::move(file.shape);
  array.bytes = std::move(file.bytes);
  return array;
}

const char* numpy_name(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return "float16";
    case DType::f32:
      return "float32";
    case DType::f64:
      return "float64";
    case DType::i32:
      return "int32";
    case DType::u8:
      return "uint8";
    case DType::bf16:
      return "uint16";
  }
  return "float32";
}

/// The names that NumPy itself gives to the types that it makes unasked.
std::string described(npy::Type type) {
  const std::string text = npy::to_string(type);
  if (type == npy::Type::f8) return text + " (float64, NumPy's default)";
  if (type == npy::Type::i8) return text + " (int64, NumPy's default)";
  return type == npy::Type::b1 ? text + " (bool)" : text;
}

}  // namespace

std::string cure(const std::string& path, DType wanted) {
  return fmt::format("in Python: np.save('{}', np.load('{}').astype(np.{}))", path, path, numpy_name(wanted));
}

Result<Array> read_activations(const std::string& path, const std::string& name, std::optional<DType> asked,
                               npy::Values values) {
  WEFT_TRY(auto file, npy::read(path, values));
  const auto dtype = dtype_of(file.type, asked == DType::bf16);
  if (!dtype || *dtype == DType::i32 || *dtype == DType::u8) {
    auto error = user_error(
        fmt::format("{}: the type of {} is {}; expected <f4, <f2, <f8 or bf16 (V2)", path, name, described(file.type)));
    if (file.type == npy::Type::u2) error.notes.push_back("--dtype bf16 takes <u2 as the bits of bf16");
    error.notes.push_back(cure(path, asked == DType::f16 ? DType::f16 : DType::f32));
    return error;
  }
  return array_of(std::move(file), *dtype);
}

Result<Array> read_input(const std::string& path, const std::string& name, DType wanted) {
  WEFT_TRY(auto file, npy::read(path));
  const auto dtype = dtype_of(file.type, false);
  if (dtype != wanted) {
    auto error = user_error(fmt::format("{}: the type of {} is {}; expected {}", path, name, described(file.type),
                                        npy::to_string(type_of(wanted))));
    error.notes.push_back(cure(path, wanted));
    return error;
  }
  return array_of(std::move(file), wanted);
}

Status write_array(const std::string& path, const Array& array) {
  npy::NpyArray file;
  file.type = type_of(array.dtype);
  file.shape = array.shape;
  file.bytes = array.bytes;
  return write_file(path, npy::encode(file));
}

}  // namespace weft::tools
