#pragma once

#include "compiler/base/digest.h"

#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

/// Fixed-width little-endian numbers, whatever the machine's order.
namespace weft::cache {

template <typename Number>
void put(std::string& out, Number value) {
  for (std::size_t i = 0; i < sizeof(Number); ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
}

/// The caller has checked that the bytes are there.
template <typename Number>
Number get(std::string_view bytes, std::size_t at) {
  Number out = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    out |= static_cast<Number>(static_cast<Number>(static_cast<unsigned char>(bytes[at + i])) << (8 * i));
  }
  return out;
}

template <std::size_t size>
void put_bytes(std::string& out, const std::array<std::uint8_t, size>& bytes) {
  out.append(reinterpret_cast<const char*>(bytes.data()), size);
}

template <std::size_t size>
std::array<std::uint8_t, size> get_bytes(std::string_view bytes, std::size_t at) {
  std::array<std::uint8_t, size> out;
  std::memcpy(out.data(), bytes.data() + at, size);
  return out;
}

}  // namespace weft::cache
