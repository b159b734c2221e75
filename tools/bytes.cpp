#include "tools/bytes.h"

#include <sys/mman.h>

#include <cstring>
#include <new>
#include <utility>

namespace weft {

Bytes::Bytes(std::size_t count) {
  if (count == 0) return;
  void* const made = ::mmap(nullptr, count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<std::byte*>(made);
  size_ = count;
}

std::optional<Bytes> Bytes::of_file(int descriptor, std::size_t begin, std::size_t count) {
  Bytes out;
  if (count == 0) return out;
  void* const made = ::mmap(nullptr, begin + count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, descriptor, 0);
  if (made == MAP_FAILED) return std::nullopt;
  out.data_ = static_cast<std::byte*>(made) + begin;
  out.size_ = count;
  out.before_ = begin;
  return out;
}

Bytes::Bytes(const Bytes& other) : Bytes(other.size_) {
  if (size_ > 0) std::memcpy(data_, other.data_, size_);
}

Bytes::Bytes(Bytes&& other) noexcept { swap(other); }

Bytes& Bytes::operator=(Bytes other) noexcept {
  swap(other);
  return *this;
}

Bytes::~Bytes() {
  if (data_ != nullptr) ::munmap(data_ - before_, before_ + size_);
}

void Bytes::swap(Bytes& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(before_, other.before_);
}

bool Bytes::operator==(const Bytes& other) const {
  return size_ == other.size_ && (size_ == 0 || std::memcmp(data_, other.data_, size_) == 0);
}

}  // namespace weft
