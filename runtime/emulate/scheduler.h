#pragma once

#include "runtime/emulate/context.h"
#include "runtime/emulate/hooks.h"
#include "runtime/emulate/memory.h"
#include "runtime/emulate/program.h"
#include "runtime/emulate/stacks.h"
#include "runtime/emulate/traffic.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace weft::emulate {

/// Runs the blocks of a launch one after the other, each thread on a fiber of its own. A thread runs until it waits
/// for others; when nobody can run and not everybody has finished, it says who waits for what.
class Scheduler {
 public:
  using Entry = void (*)(const void* args);

  /// `launch` outlives this and has been checked.
  static Result<std::unique_ptr<Scheduler>> make(Entry entry, const Launch& launch, bool count);

  /// False when the launch is over: the block did not come to its end.
  bool run(std::int64_t block);

  /// What happened in all blocks so far.
  Report report() const;

 private:
  enum class State { ready, at_barrier, at_warp, exited };

  /// What a thread waits for, and what it brings.
  struct Wait {
    weft_emulated::Barrier barrier{};
    weft_emulated::WarpOperation operation{};
    std::uint32_t mask = 0;
    std::uint64_t value = 0;
    int source = 0;
    int line = 0;
    const char* function = "";  ///< of the line, for barriers
  };

  /// An asynchronous copy under way.
  struct Copy {
    void* to = nullptr;
    std::array<unsigned char, 16> bytes = {};
    unsigned size = 0;
    weft_emulated::Site site = {};
  };

  struct Fiber {
    weft_emulated::Thread thread{};
    State state = State::ready;
    Wait wait;
    std::vector<Copy> copies = {};  ///< not waited for yet
    std::uint64_t result = 0;
    Context context = {};
  };

  struct Warp {
    int lanes = 0;
    std::uint32_t ready = 0;   ///< a bit a lane
    std::uint32_t exited = 0;  ///< lanes that there are not count as exited
    std::uint32_t sync = 0;    ///< operations of all its lanes that order memory, over all blocks
    /// What lanes exchange, in two buffers by turns: who is slow still reads one while others write into the next.
    std::array<std::array<unsigned char, 32 * weft_emulated::kMailBytes>, 2> mail = {};
    std::size_t turn = 0;
  };

  friend struct HookTable;

  Scheduler(Entry entry, const Launch& launch, bool count, Arena::Borrowed arena);

  void start_block(std::int64_t block);
  bool run_warp(std::size_t warp);
  int pick(std::uint32_t lanes);
  void shuffle_warps();
  void resume(Fiber& fiber);
  void suspend();
  [[noreturn]] void end_fiber();
  [[noreturn]] void abandon();
  static void run_fiber(void* self);

  // What kernels call.
  void access(const Attempt& attempt, unsigned char* into, const unsigned char* from);
  void touch(Attempt attempt);
  void copy(void* to, const void* from, unsigned bytes, unsigned size, weft_emulated::Site site);
  void finish_copies();
  int barrier(const Wait& wait);
  std::uint64_t warp_operation(const Wait& wait);
  const unsigned char* exchange(const void* mine, unsigned bytes, int line);

  bool release_barrier();
  bool complete_warp(int warp, std::uint32_t mask);
  std::optional<Fault> disagreement(int first, std::uint32_t mask) const;
  std::uint64_t result_of(int lane_thread, std::uint32_t mask) const;

  Fault stall() const;
  std::string waiting_threads() const;
  std::string wait_name(const Fiber& fiber) const;

  bool permitted(const Attempt& attempt);
  void count_access(const Attempt& attempt);
  Moment now() const;
  int current() const { return static_cast<int>(arena_->block()->current->index); }
  void record(Fault fault, int thread, int line);

  Entry entry_;
  const Launch& launch_;
  bool count_;
  Arena::Borrowed arena_;
  Memory memory_;
  TrafficCounter traffic_;
  std::mt19937_64 random_;

  std::vector<Fiber> fibers_;
  std::vector<Warp> warps_;
  std::vector<std::size_t> warp_order_;
  Context host_;  ///< runs the scheduler
  std::int64_t block_ = 0;
  std::uint32_t barrier_epoch_ = 0;  ///< over all blocks, so that nothing seems to go on from one to the next
  int arrived_ = 0, exited_ = 0;
  bool over_ = false;
  Report report_;  ///< without the traffic
};

}  // namespace weft::emulate
