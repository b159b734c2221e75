#include "tools/npy.h"

#include "compiler/base/float16.h"
#include "compiler/base/write.h"
#include "tools/npy_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

namespace weft::npy {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian and so are we");

constexpr std::size_t kMostHeader = std::size_t{1} << 17;  ///< more than the longest that is read
constexpr std::size_t kMostValues = std::size_t{1} << 46;  ///< no file of a machine has more

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
    case Type::i1:
      return load<std::int8_t>(array, i);
    case Type::i2:
      return load<std::int16_t>(array, i);
    case Type::i8:
      return static_cast<double>(load<std::int64_t>(array, i));
    case Type::u4:
      return load<std::uint32_t>(array, i);
    case Type::u8:
      return static_cast<double>(load<std::uint64_t>(array, i));
    case Type::b1:
      return load<std::uint8_t>(array, i);
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
    case Type::i1:
      return store(array, i, static_cast<std::int8_t>(value));
    case Type::i2:
      return store(array, i, static_cast<std::int16_t>(value));
    case Type::i8:
      return store(array, i, static_cast<std::int64_t>(value));
    case Type::u4:
      return store(array, i, static_cast<std::uint32_t>(value));
    case Type::u8:
      return store(array, i, static_cast<std::uint64_t>(value));
    case Type::b1:
      return store(array, i, static_cast<std::uint8_t>(value != 0 ? 1 : 0));
  }
}

Error cannot(const char* verb, const std::string& path) {
  return environment_error(fmt::format("cannot {} {}: {}", verb, path, std::strerror(errno)));
}

/// `found`: empty where nobody looked.
Error wrong_length(const std::string& name, const Header& header, std::optional<std::size_t> expected,
                   std::optional<std::size_t> found) {
  const auto wanted = expected && *expected <= kMostValues ? std::to_string(*expected) : "more than a file can hold";
  return user_error(fmt::format("{}: {} bytes of values, expected {} for shape [{}] of {}", name,
                                found ? std::to_string(*found) : "too few", wanted, fmt::join(header.shape, ", "),
                                to_string(header.type)));
}

/// A file that is open for reading. A pipe is one, and has no length.
class Opened {
 public:
  static Result<Opened> open(const std::string& path) {
    Opened out;
    out.path_ = path;
    out.file_.reset(std::fopen(path.c_str(), "rbe"));
    if (!out.file_) return user_error(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
    struct stat info = {};
    if (::fstat(::fileno(out.file_.get()), &info) != 0) return cannot("read", path);
    if (S_ISDIR(info.st_mode)) return user_error(fmt::format("{} is a directory", path));
    if (S_ISREG(info.st_mode)) out.length_ = static_cast<std::size_t>(info.st_size);
    return out;
  }

  std::optional<std::size_t> length() const { return length_; }
  int descriptor() const { return ::fileno(file_.get()); }

  /// Appends until `bytes` has `most` of them, or the file ends.
  Status read(std::string& bytes, std::size_t most) const {
    std::array<char, 65536> chunk;
    while (bytes.size() < most) {
      const auto got = std::fread(chunk.data(), 1, std::min(chunk.size(), most - bytes.size()), file_.get());
      bytes.append(chunk.data(), got);
      if (got == 0) break;
    }
    return std::ferror(file_.get()) != 0 ? Status(cannot("read", path_)) : Status(done);
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::optional<std::size_t> length_;
};

bool write_all(int descriptor, std::string_view bytes) {
  errno = write_whole(descriptor, bytes);
  return errno == 0;
}

}  // namespace

Result<NpyArray> decode(std::string_view file, const std::string& name) {
  WEFT_TRY(const Header header, decode_header(file, name));
  const auto expected = bytes_of(header);
  const std::size_t found = file.size() - header.begin;
  if (!expected || *expected != found) return wrong_length(name, header, expected, found);
  NpyArray array{.type = header.type, .shape = header.shape, .bytes = Bytes(found)};
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

Result<NpyArray> read(const std::string& path, Values when) {
  WEFT_TRY(const Opened opened, Opened::open(path));
  std::string file;
  // The header comes first: it says how much there is to read, and what is no array ends here.
  WEFT_CHECK(opened.read(file, kMostHeader));
  WEFT_TRY(const Header header, decode_header(file, path));
  const auto values = bytes_of(header);
  if (!values || *values > kMostValues) return wrong_length(path, header, values, std::nullopt);
  const auto whole = header.begin + *values;
  if (opened.length() && *opened.length() != whole) {
    return wrong_length(path, header, values, *opened.length() - std::min(*opened.length(), header.begin));
  }
  constexpr std::size_t kAligned = 64;  // as NumPy writes them, and kernels may ask
  const bool as_it_lies = header.begin % kAligned == 0 && (!header.fortran || header.shape.size() < 2);
  if (when == Values::when_asked && opened.length() && as_it_lies) {
    if (auto bytes = Bytes::of_file(opened.descriptor(), header.begin, *values))
      return NpyArray{.type = header.type, .shape = header.shape, .bytes = std::move(*bytes)};
  }
  if (opened.length()) file.reserve(whole + 1);  // a pipe's header may promise what never comes
  WEFT_CHECK(opened.read(file, whole + 1));      // a byte more than there should be tells
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
  NpyArray array{.type = type, .shape = tensor.shape, .bytes = Bytes(tensor.data.size() * size_of(type))};
  for (std::size_t i = 0; i < tensor.data.size(); ++i) set_value(array, i, tensor.data[i]);
  return array;
}

}  // namespace weft::npy
