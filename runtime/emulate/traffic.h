#pragma once

#include "runtime/emulate/report.h"

#include <array>
#include <cstdint>
#include <map>
#include <vector>

namespace weft::emulate {

/// One access of one lane.
struct Access {
  const void* site = nullptr;
  std::uint64_t address = 0;  ///< shared: the offset
  int line = 0;
  std::uint8_t size = 0;
  bool shared = false;
  bool write = false;
};

/// Puts the accesses of lanes together to those of warps: the n-th time that each lane comes by a call site between
/// two synchronisations of the warp is one request.
class TrafficCounter {
 public:
  explicit TrafficCounter(int warps) : warps_(static_cast<std::size_t>(warps)) {}

  void add(int thread, const Access& access) {
    warps_[static_cast<std::size_t>(thread / 32)][static_cast<std::size_t>(thread % 32)].push_back(access);
  }
  /// All lanes of the warp have come to the same point.
  void flush(int warp);
  /// What was counted; only the counters of traffic are set.
  Report sums() const;

 private:
  using Lanes = std::array<std::vector<Access>, 32>;
  using Request = std::vector<std::pair<int, Access>>;  ///< lane, access

  void count(const Request& request);

  std::vector<Lanes> warps_;
  Report sums_;
  std::map<int, Traffic> lines_;
};

/// What one request costs of shared memory with 32 banks of 4 bytes: accesses of 4 bytes are served a warp at a time,
/// of 8 bytes half a warp, of 16 bytes a quarter, each group in as many wavefronts as the busiest bank has different
/// words. Loads of 8 and 16 bytes take groups twice as large where lanes n, n^1 (or n, n^2) share their addresses.
struct Wavefronts {
  int taken = 0;
  int needed = 0;  ///< one a group with an active lane
};
Wavefronts wavefronts(const std::vector<std::pair<int, Access>>& request);

/// Sectors of 32 bytes that a request to global memory touches.
int sectors(const std::vector<std::pair<int, Access>>& request);

}  // namespace weft::emulate
