#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace weft::emulate {

/// When a thread does something, as far as order between threads goes: `barrier` counts the barriers of the block,
/// `sync` those of the thread's warp.
struct Moment {
  std::uint32_t barrier = 0;
  std::uint32_t sync = 0;
  int thread = 0;
};

/// The earlier of two accesses that nothing orders.
struct Conflict {
  int thread = 0;
  const void* site = nullptr;  ///< the call
  bool write = false;
};

/// Finds unordered accesses to shared memory from what each 4-byte word remembers of its last writer and readers,
/// whatever order the threads happened to run in. Two threads are ordered by a barrier of the block between them or,
/// within a warp, by one of the warp. Never accuses wrongly; where threads share the bytes of one word it can miss.
class Races {
 public:
  explicit Races(std::int64_t bytes) : words_(static_cast<std::size_t>((bytes + 3) / 4)) {}

  std::optional<Conflict> access(std::int64_t offset, std::int64_t size, bool write, const void* site,
                                 const Moment& now);

 private:
  struct Trace {
    std::uint32_t barrier = 0;  ///< 0: never
    std::uint32_t sync = 0;
    const void* site = nullptr;
    std::uint16_t thread = 0;
    std::uint8_t bytes = 0;   ///< of the word, one bit each
    std::uint8_t others = 0;  ///< kSameWarp, kOtherWarps: who else, since the same barrier
  };
  struct Word {
    Trace write, read;
  };

  static bool conflicts(const Trace& before, std::uint8_t bytes, const Moment& now);
  static bool touch(Word& word, std::uint8_t bytes, bool write, const void* site, const Moment& now, Conflict& found);
  static void remember(Trace& trace, std::uint8_t bytes, const void* site, const Moment& now);

  std::vector<Word> words_;
};

}  // namespace weft::emulate
