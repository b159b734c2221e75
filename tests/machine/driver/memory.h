#pragma once

#include "tests/machine/driver/warp.h"

#include <cstddef>
#include <map>
#include <memory>
#include <set>

namespace weft::machine {

/// What the driver has handed out. Every byte knows whether anybody has written it; what was given back is gone.
class DeviceMemory {
 public:
  /// Filled with NaNs; 0 where the host has no more.
  Wide allocate(std::size_t bytes);
  bool release(Wide address);

  /// The bytes on the host, or null where not all of them lie in one allocation.
  std::byte* find(Wide address, std::size_t bytes);
  void mark_written(Wide address, std::size_t bytes);
  bool is_written(Wide address, std::size_t bytes);

 private:
  struct Free {
    void operator()(std::byte* bytes) const;
  };
  struct Allocation {
    Wide begin = 0, bytes = 0;
    std::unique_ptr<std::byte, Free> owner;
    std::vector<std::uint8_t> written;
  };
  Allocation* holder(Wide address, std::size_t bytes);

  std::map<Wide, Allocation> held_;
  Allocation* last_ = nullptr;  ///< most accesses fall where the one before them did
};

/// Findings of one launch: each is said once.
using Findings = std::set<std::string>;

/// Shared memory of one block: NaNs, until somebody writes there. Between two of its barriers a word may be written by
/// one warp, or read by many.
class SharedMemory {
 public:
  SharedMemory(std::size_t bytes, Findings& findings);

  std::size_t size() const { return bytes_.size(); }
  /// For one lane of a warp; `place` is the instruction, for findings. Fault: beyond the end.
  std::byte* load(int warp, Wide address, int bytes, int place);
  std::byte* store(int warp, Wide address, int bytes, int place);
  /// All warps have met at a barrier.
  void begin_interval() { ++interval_; }

 private:
  struct Use {
    int written = -1, read = -1;  ///< intervals
    int writer = -1;
    Word readers = 0;  ///< one bit a warp, of the interval in which it was read
  };
  void check(Wide address, int bytes, int place) const;

  std::vector<std::byte> bytes_;
  std::vector<Use> uses_;  ///< of each word
  int interval_ = 0;
  Findings* findings_;
};

}  // namespace weft::machine
