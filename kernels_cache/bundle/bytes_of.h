#pragma once

#include "compiler/base/result.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace weft::bundle {

/// Where a bundle's bytes lie: a file, or the program's own memory. Any number of threads may read.
class Bytes {
 public:
  virtual ~Bytes() = default;
  virtual std::uint64_t size() const = 0;
  /// Exactly `length` bytes from `at`, which the caller has checked to be there. Environment error where the system
  /// refuses, or the file became shorter.
  virtual Result<std::string> read(std::uint64_t at, std::uint64_t length) const = 0;
};

/// User error where there is no such file, or it is no regular one; environment error where it cannot be read. The
/// file is read and never mapped: one that is cut short while it is open must not end the program.
Result<std::unique_ptr<const Bytes>> bytes_of_file(const std::string& path);

/// `bytes` must outlive the result.
std::unique_ptr<const Bytes> bytes_in_memory(std::string_view bytes);

}  // namespace weft::bundle
