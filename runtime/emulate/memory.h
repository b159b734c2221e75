#pragma once

#include "runtime/emulate/hooks.h"
#include "runtime/emulate/program.h"
#include "runtime/emulate/races.h"
#include "runtime/emulate/traffic.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft::emulate {

/// What a thread does to memory.
struct Attempt {
  weft_emulated::Space space;
  const void* at;
  std::int64_t size;
  bool write;
  weft_emulated::Site site;
};

/// Whether the access must not be carried out; others only have a value that nobody can count on.
inline bool forbids(FaultKind kind) { return kind != FaultKind::race && kind != FaultKind::stale; }

/// The memory of a block that is run: the launch's regions and shared memory of its own.
class Memory {
 public:
  /// `memory` outlives this and is ordered by address.
  Memory(const std::vector<Region>& regions, std::int64_t shared_bytes);

  unsigned char* shared() const { return shared_.get(); }
  bool is_shared(const void* at) const { return at >= shared() && at < shared() + shared_bytes_; }
  std::uint64_t shared_offset(const void* at) const {
    return static_cast<std::uint64_t>(static_cast<const unsigned char*>(at) - shared());
  }

  /// NaN everywhere: what nobody has written must not look like a value.
  void poison();

  /// What is wrong with it, if anything.
  std::optional<FaultKind> check(const Attempt& attempt, const Moment& now) {
    return attempt.space == weft_emulated::Space::shared ? check_shared(attempt, now) : check_global(attempt);
  }

  /// The fault that the latest check() found: kind, address, region and text are set.
  Fault describe(FaultKind kind, const Attempt& attempt) const;

 private:
  struct AlignedFree {
    void operator()(unsigned char* p) const;
  };

  static bool holds(const Region& region, const void* at, std::int64_t size);
  static bool is_misaligned(const Attempt& attempt);

  std::optional<FaultKind> check_global(const Attempt& attempt);
  std::optional<FaultKind> check_shared(const Attempt& attempt, const Moment& now);
  const Region* find(const Attempt& attempt) const;
  Fault inside(FaultKind kind, const Attempt& attempt) const;
  Fault outside(const Attempt& attempt) const;

  const std::vector<Region>& regions_;
  const Region* last_ = nullptr;  ///< where the last access was: most accesses go on there
  Conflict conflict_;             ///< the latest race
  std::int64_t shared_bytes_;
  std::unique_ptr<unsigned char[], AlignedFree> shared_;
  Races races_;
};

}  // namespace weft::emulate
