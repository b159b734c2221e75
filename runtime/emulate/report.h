#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::emulate {

enum class FaultKind {
  out_of_bounds,      ///< outside of every region, or of the block's shared memory
  read_only,          ///< a store into a region that the kernel may only read
  stale,              ///< a load by the read-only path from a region that the kernel may write
  misaligned,         ///< an access of n bytes at an address that n does not divide
  race,               ///< two accesses to shared memory that nothing orders
  divergent_barrier,  ///< the threads of a block wait at different barriers, or one has left
  divergent_warp,     ///< the lanes of a warp operation do not agree on it
  exited_lane,        ///< a warp operation asks for a lane that has left
  deadlock,           ///< nobody can go on
  pending_copy,       ///< a thread leaves, and never waited for a copy to shared memory that it began
};
const char* name(FaultKind kind);

/// Something a GPU would punish, or worse, would not.
struct Fault {
  FaultKind kind = FaultKind::out_of_bounds;
  std::int64_t block = 0;
  int thread = 0;
  int line = 0;               ///< of the text; 0 for a plain C++ access
  std::uint64_t address = 0;  ///< global: the address; shared: the offset
  std::string region = {};    ///< the region it lies in or next to; `shared memory`
  std::int64_t times = 1;     ///< how often this kind happened here
  std::string text = {};      ///< one sentence with all of that

  /// Call sites in the built object: of the access and, for a race, of the earlier one. Null where there is none.
  const void* site = nullptr;
  const void* other_site = nullptr;
};

/// Accesses through load_* and store_*, as a warp makes them.
struct Traffic {
  std::int64_t requests = 0;   ///< one instruction of one warp
  std::int64_t bytes = 0;      ///< that the lanes asked for
  std::int64_t units = 0;      ///< shared: wavefronts; global: sectors of 32 bytes
  std::int64_t conflicts = 0;  ///< shared: wavefronts beyond those that the request's size needs
  Traffic& operator+=(const Traffic& other);
};

struct LineTraffic {
  int line = 0;
  Traffic traffic;
};

/// What happened in one launch, or in several.
struct Report {
  std::vector<Fault> faults;    ///< the first of each kind at each call site, at most kMostFaults; by block and thread
  std::int64_t blocks = 0;      ///< that ran to their end
  std::int64_t barriers = 0;    ///< of whole blocks
  std::int64_t warp_syncs = 0;  ///< warp operations, each counted once a warp
  std::int64_t flops = 0;       ///< 2 for each fused multiply-add; other arithmetic is not counted
  Traffic shared_loads, shared_stores, global_loads, global_stores;
  std::vector<LineTraffic> shared_lines;  ///< by line of the text, those with most conflicts first

  Traffic shared() const;
  Traffic global() const;
  void add(Fault fault);
  Report& operator+=(const Report& other);
};

inline constexpr std::size_t kMostFaults = 8;

}  // namespace weft::emulate
