#include "tools/npy.h"

#include "compiler/base/float16.h"
#include "tools/npy_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

namespace weft::npy {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian and so are we");

/// Nothing where the shape asks for more bytes than a file can have.
std::optional<std::size_t> bytes_of(const Header& header) {
  std::size_t bytes = size_of(header.type);
  for (const std::int64_t extent : header.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(extent), &bytes)) return std::nullopt;
  }
  return bytes;
}

/// Copies values that lie with the first axis fastest into row-major order.
void from_fortran(const char* in, NpyArray& array) {
  const std::size_t size = size_of(array.type);
  const std::size_t axes = array.shape.size();
  std::vector<std::size_t> strides(axes);
  std::size_t stride = size;
  for (std::size_t i = 0; i < axes; ++i) {
    strides[i] = stride;
    stride *= static_cast<std::size_t>(array.shape[i]);
  }
  std::vector<std::int64_t> at(axes);
  std::size_t from = 0;
  for (std::size_t to = 0; to < array.bytes.size(); to += size) {
    std::memcpy(&array.bytes[to], in + from, size);
    for (std::size_t i = axes; i-- > 0;) {
      from += strides[i];
      if (++at[i] < array.shape[i]) break;
      from -= strides[i] * static_cast<std::size_t>(array.shape[i]);
      at[i] = 0;
    }
  }
}

template <typename T>
T load(const NpyArray& array, std::size_t i) {
  T value;
  std::memcpy(&value, &array.bytes[i * sizeof(T)], sizeof(T));
  return value;
}

template <typename T>
void store(NpyArray& array, std::size_t i, T value) {
  std::memcpy(&array.bytes[i * sizeof(T)], &value, sizeof(T));
}

double value_at(const NpyArray& array, std::size_t i) {
  switch (array.type) {
    case Type::f2:
      return half_to_float(load<std::uint16_t>(array, i));
    case Type::f4:
      return load<float>(array, i);
    case Type::f8:
      return load<double>(array, i);
    case Type::i4:
      return load<std::int32_t>(array, i);
    case Type::u1:
      return load<std::uint8_t>(array, i);
    case Type::u2:
    case Type::v2:
      return bf16_to_float(load<std::uint16_t>(array, i));
  }
  return 0;
}

void set_value(NpyArray& array, std::size_t i, double value) {
  const auto single = static_cast<float>(value);
  switch (array.type) {
    case Type::f2:
      return store(array, i, float_to_half(single));
    case Type::f4:
      return store(array, i, single);
    case Type::f8:
      return store(array, i, value);
    case Type::i4:
      return store(array, i, static_cast<std::int32_t>(value));
    case Type::u1:
      return store(array, i, static_cast<std::uint8_t>(value));
    case Type::u2:
    case Type::v2:
      return store(array, i, float_to_bf16(single));
  }
}

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

Error cannot(const char* verb, const std::string& path) {
  return environment_error(fmt::format("cannot {} {}: {}", verb, path, std::strerror(errno)));
}

}  // namespace

Result<NpyArray> decode(std::string_view file, const std::string& name) {
  WEFT_TRY(const Header header, decode_header(file, name));
  const auto expected = bytes_of(header);
  const std::size_t found = file.size() - header.begin;
  if (!expected || *expected != found) {
    return user_error(fmt::format("{}: {} bytes of values, expected {} for shape [{}] of {}", name, found,
                                  expected ? std::to_string(*expected) : "more than a file can hold",
                                  fmt::join(header.shape, ", "), to_string(header.type)));
  }
  NpyArray array{.type = header.type, .shape = header.shape, .bytes = std::vector<std::byte>(found)};
  const char* values = file.data() + header.begin;
  if (header.fortran && header.shape.size() > 1) {
    from_fortran(values, array);
  } else if (found > 0) {
    std::memcpy(array.bytes.data(), values, found);
  }
  return array;
}

std::string encode(const NpyArray& array) {
  std::string out = encode_header(array);
  out.append(reinterpret_cast<const char*>(array.bytes.data()), array.bytes.size());
  return out;
}

Result<NpyArray> read(const std::string& path) {
  std::error_code failure;
  if (std::filesystem::is_directory(path, failure)) return user_error(fmt::format("{} is a directory", path));
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) return user_error(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  const std::string file{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (in.bad()) return cannot("read", path);
  return decode(file, path);
}

Status write(const std::string& path, const NpyArray& array) {
  std::string temporary = path + ".tmp-XXXXXX";
  const int descriptor = ::mkstemp(temporary.data());
  if (descriptor < 0) return cannot("write", path);
  // What mkstemp makes is its owner's alone; the result is as readable as any new file.
  const mode_t mask = ::umask(0);
  ::umask(mask);
  bool ok = ::fchmod(descriptor, 0666 & ~mask) == 0 && write_all(descriptor, encode(array));
  ok = ::close(descriptor) == 0 && ok;
  ok = ok && std::rename(temporary.c_str(), path.c_str()) == 0;
  if (ok) return done;
  const Error error = cannot("write", path);
  ::unlink(temporary.c_str());
  return error;
}

ir::Tensor to_tensor(const NpyArray& array) {
  ir::Tensor tensor(array.shape);
  for (std::size_t i = 0; i < tensor.data.size(); ++i) tensor.data[i] = value_at(array, i);
  return tensor;
}

NpyArray from_tensor(const ir::Tensor& tensor, Type type) {
  NpyArray array{
      .type = type, .shape = tensor.shape, .bytes = std::vector<std::byte>(tensor.data.size() * size_of(type))};
  for (std::size_t i = 0; i < tensor.data.size(); ++i) set_value(array, i, tensor.data[i]);
  return array;
}

}  // namespace weft::npy
