#pragma once

#include <cstddef>
#include <optional>

namespace weft {

/// The bytes of an array: memory that is given when it is touched, or a file's, of which what is looked at is read. A
/// ring's rank has the whole of its tensors so, and takes room for its own rows.
class Bytes {
 public:
  Bytes() = default;
  /// Zeros.
  explicit Bytes(std::size_t count);
  /// Of an open file, `count` from byte `begin` on. What is written to them stays here. Nothing where no file can be
  /// seen so.
  static std::optional<Bytes> of_file(int descriptor, std::size_t begin, std::size_t count);
  Bytes(const Bytes& other);
  Bytes(Bytes&& other) noexcept;
  Bytes& operator=(Bytes other) noexcept;
  ~Bytes();

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::byte* begin() { return data_; }
  std::byte* end() { return data_ + size_; }
  std::byte& operator[](std::size_t at) { return data_[at]; }
  const std::byte& operator[](std::size_t at) const { return data_[at]; }
  bool operator==(const Bytes& other) const;

 private:
  void swap(Bytes& other) noexcept;

  std::byte* data_ = nullptr;
  std::size_t size_ = 0, before_ = 0;  ///< bytes of the mapping before the first
};

}  // namespace weft
