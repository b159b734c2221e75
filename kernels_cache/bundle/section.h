#pragma once

#include "compiler/base/digest.h"
#include "compiler/base/result.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace weft::bundle {

/// A larger binary or text is none of a bundle's.
inline constexpr std::uint64_t kLargestSection = std::uint64_t{32} << 20;

/// Compressed bytes stand for at most so many times their number; what compresses better is stored plain. So the work
/// of reading a file, however hostile, is bounded by its length.
inline constexpr std::uint64_t kLargestRatio = 64;

/// Bytes as they lie in the file: by zstd where that makes them shorter, else as they are, which the two lengths tell.
struct Section {
  Sha256 digest{};  ///< of the stored bytes: they are checked before they are decompressed
  std::uint64_t plain_length = 0;
  std::string stored = {};
};

/// The same bytes give the same section, by the same version of zstd. User error for too many bytes.
Result<Section> pack(std::string_view plain);

bool lengths_are_possible(std::uint64_t stored, std::uint64_t plain);

/// The plain bytes of stored ones whose digest has been checked. User error where they are not what pack() makes;
/// no more than `plain_length`, which lengths_are_possible() has accepted, is ever allocated.
Result<std::string> unpack(std::string_view stored, std::uint64_t plain_length);

}  // namespace weft::bundle
