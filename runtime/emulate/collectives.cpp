/// The part of the scheduler that makes threads wait for each other.

#include "runtime/emulate/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace weft::emulate {

using weft_emulated::Barrier;
using weft_emulated::WarpOperation;

namespace {

const char* name(Barrier barrier) {
  switch (barrier) {
    case Barrier::plain:
      return "__syncthreads";
    case Barrier::any:
      return "__syncthreads_or";
    case Barrier::all:
      return "__syncthreads_and";
    case Barrier::count:
      return "__syncthreads_count";
    case Barrier::of_warps:
      return "meet_warps";
    case Barrier::any_of_warps:
      return "meet_warps_or";
  }
  return "a barrier";
}

const char* name(WarpOperation operation) {
  switch (operation) {
    case WarpOperation::sync:
      return "__syncwarp";
    case WarpOperation::shuffle:
      return "a shuffle";
    case WarpOperation::ballot:
      return "__ballot_sync";
    case WarpOperation::any:
      return "__any_sync";
    case WarpOperation::all:
      return "__all_sync";
    case WarpOperation::exchange:
      return "a matrix instruction";
  }
  return "a warp operation";
}

/// May warps come to it at places of their own?
bool is_of_warps(Barrier barrier) { return barrier == Barrier::of_warps || barrier == Barrier::any_of_warps; }

template <typename Use>
void for_each_lane(std::uint32_t mask, const Use& use) {
  for (; mask != 0; mask &= mask - 1) use(__builtin_ctz(mask));
}

}  // namespace

// ---------------------------------------------------------------- barriers of the block

int Scheduler::barrier(const Wait& wait) {
  const auto thread = static_cast<std::size_t>(current());
  Fiber& self = fibers_[thread];
  self.wait = wait;
  self.state = State::at_barrier;
  warps_[thread / 32].ready &= ~(1U << (thread % 32));
  if (++arrived_ < launch_.threads) {
    suspend();
  } else if (!release_barrier()) {
    abandon();
  }
  return static_cast<int>(self.result);
}

/// All have come. False when not to the same barrier.
bool Scheduler::release_barrier() {
  const Barrier barrier = fibers_.front().wait.barrier;
  std::uint64_t sum = 0;
  for (const Fiber& fiber : fibers_) {
    const Fiber& first = is_of_warps(barrier) ? fibers_[fiber.thread.index / 32 * 32] : fibers_.front();
    sum += fiber.wait.value;
    const bool same_place = fiber.wait.line == first.wait.line && fiber.wait.function == first.wait.function;
    if (fiber.wait.barrier == barrier && same_place) continue;
    const Fiber& other = fiber.wait.barrier == barrier ? first : fibers_.front();
    Fault fault{.kind = FaultKind::divergent_barrier};
    fault.text = fmt::format("waits in {}, thread {} in {}", wait_name(fiber), other.thread.index, wait_name(other));
    // Instances of a template share their lines.
    if (wait_name(fiber) == wait_name(other))
      fault.text += fmt::format(": of {} and of {}", fiber.wait.function, other.wait.function);
    record(std::move(fault), static_cast<int>(fiber.thread.index), fiber.wait.line);
    return false;
  }
  const bool all = sum == fibers_.size();
  const std::uint64_t result = barrier == Barrier::count ? sum : barrier == Barrier::all ? all : sum != 0;
  for (Fiber& fiber : fibers_) {
    fiber.result = result;
    fiber.state = State::ready;
  }
  for (std::size_t warp = 0; warp < warps_.size(); ++warp) {
    warps_[warp].ready = ~warps_[warp].exited;
    if (count_) traffic_.flush(static_cast<int>(warp));
  }
  // The last to come simply goes on, so it does not wait to be resumed.
  warps_[static_cast<std::size_t>(current() / 32)].ready &= ~(1U << (current() % 32));
  arrived_ = 0;
  ++barrier_epoch_;
  ++report_.barriers;
  return true;
}

// ---------------------------------------------------------------- operations of a warp

std::uint64_t Scheduler::warp_operation(const Wait& wait) {
  const int thread = current(), warp = thread / 32;
  Fiber& self = fibers_[static_cast<std::size_t>(thread)];
  self.wait = wait;
  self.state = State::at_warp;
  Warp& mine = warps_[static_cast<std::size_t>(warp)];
  mine.ready &= ~(1U << (thread % 32));
  bool all_here = (wait.mask & mine.exited) == 0;
  for_each_lane(wait.mask & ~mine.exited, [&](int lane) {
    all_here &= fibers_[static_cast<std::size_t>(warp * 32 + lane)].state == State::at_warp;
  });
  if (!all_here && (wait.mask >> (thread % 32) & 1) != 0) {
    suspend();
  } else if (!complete_warp(warp, wait.mask)) {
    abandon();
  }
  return self.result;
}

const unsigned char* Scheduler::exchange(const void* mine, unsigned bytes, int line) {
  const auto thread = static_cast<std::size_t>(current());
  Warp& warp = warps_[thread / 32];
  unsigned char* const mail = warp.mail[warp.turn].data();
  std::memcpy(mail + thread % 32 * weft_emulated::kMailBytes, mine, std::min(bytes, weft_emulated::kMailBytes));
  warp_operation({.operation = WarpOperation::exchange, .mask = 0xFFFFFFFFU, .line = line});
  return mail;
}

/// What the lanes of an operation do not agree on. `first` is the thread of lane 0.
std::optional<Fault> Scheduler::disagreement(int first, std::uint32_t mask) const {
  const Fiber& self = fibers_[static_cast<std::size_t>(current())];
  Fault fault{.kind = FaultKind::divergent_warp};
  if ((mask >> (current() % 32) & 1) == 0) {
    fault.text = fmt::format("calls {} with mask {:#x}, which leaves itself out", wait_name(self), mask);
    return fault;
  }
  std::optional<Fault> out;
  for_each_lane(mask, [&](int lane) {
    const Fiber& other = fibers_[static_cast<std::size_t>(first + lane)];
    const bool same = other.wait.operation == self.wait.operation && other.wait.line == self.wait.line;
    if (!same || other.wait.mask != mask) {
      fault.text = fmt::format("calls {} with mask {:#x}, thread {} {} with mask {:#x}", wait_name(self), mask,
                               other.thread.index, wait_name(other), other.wait.mask);
      out = fault;
    } else if (other.wait.operation == WarpOperation::shuffle && (mask >> (other.wait.source & 31) & 1) == 0) {
      fault.text = fmt::format("thread {} reads lane {}, which takes no part in {}", other.thread.index,
                               other.wait.source, wait_name(other));
      out = fault;
    }
  });
  return out;
}

std::uint64_t Scheduler::result_of(int thread, std::uint32_t mask) const {
  const Wait& mine = fibers_[static_cast<std::size_t>(thread)].wait;
  const int first = thread / 32 * 32;
  if (mine.operation == WarpOperation::shuffle) {
    return fibers_[static_cast<std::size_t>(first + (mine.source & 31))].wait.value;
  }
  std::uint32_t votes = 0;
  for_each_lane(mask, [&](int lane) {
    votes |= static_cast<std::uint32_t>(fibers_[static_cast<std::size_t>(first + lane)].wait.value != 0) << lane;
  });
  if (mine.operation == WarpOperation::any) return votes != 0;
  if (mine.operation == WarpOperation::all) return votes == mask;
  return votes;
}

/// All lanes of the mask have come. False when they do not agree.
bool Scheduler::complete_warp(int warp, std::uint32_t mask) {
  if (auto fault = disagreement(warp * 32, mask)) {
    const int line = fibers_[static_cast<std::size_t>(current())].wait.line;
    record(std::move(*fault), current(), line);
    return false;
  }
  Warp& mine = warps_[static_cast<std::size_t>(warp)];
  for_each_lane(mask, [&](int lane) {
    const int thread = warp * 32 + lane;
    Fiber& fiber = fibers_[static_cast<std::size_t>(thread)];
    fiber.result = result_of(thread, mask);
    fiber.state = State::ready;
  });
  mine.ready |= mask & ~(1U << (current() % 32));
  ++report_.warp_syncs;
  if (mask == ~mine.exited) {
    // Matrix instructions wait for each other, not for memory.
    const bool exchanges = fibers_[static_cast<std::size_t>(current())].wait.operation == WarpOperation::exchange;
    mine.sync += exchanges ? 0 : 1;
    mine.turn ^= exchanges ? 1 : 0;
    if (count_) traffic_.flush(warp);
  }
  return true;
}

// ---------------------------------------------------------------- nobody can go on

std::string Scheduler::wait_name(const Fiber& fiber) const {
  const char* what = fiber.state == State::at_barrier ? name(fiber.wait.barrier) : name(fiber.wait.operation);
  return fmt::format("{} (line {})", what, fiber.wait.line);
}

/// `threads 0-31 wait in __syncthreads (line 7), threads 32-63 have left`.
std::string Scheduler::waiting_threads() const {
  const auto describe = [&](const Fiber& fiber) {
    return fiber.state == State::exited ? std::string("left") : "wait in " + wait_name(fiber);
  };
  std::string out;
  for (std::size_t begin = 0, end = 0; begin < fibers_.size(); begin = end) {
    const std::string what = describe(fibers_[begin]);
    while (end < fibers_.size() && describe(fibers_[end]) == what) ++end;
    const std::string who =
        end - begin == 1 ? fmt::format("thread {}", begin) : fmt::format("threads {}-{}", begin, end - 1);
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", who, what);
  }
  return out;
}

Fault Scheduler::stall() const {
  Fault out{.kind = FaultKind::deadlock, .block = block_};
  const Fiber* waiting = nullptr;
  bool only_barriers = true;
  for (const Fiber& fiber : fibers_) {
    if (fiber.state == State::exited) continue;
    if (waiting == nullptr) waiting = &fiber;
    if (fiber.state != State::at_warp) continue;
    only_barriers = false;
    if ((fiber.wait.mask & warps_[fiber.thread.index / 32].exited) != 0) {
      out.kind = FaultKind::exited_lane;
      waiting = &fiber;
      break;
    }
  }
  if (only_barriers) out.kind = FaultKind::divergent_barrier;
  out.thread = static_cast<int>(waiting->thread.index);
  out.line = waiting->wait.line;
  out.text = fmt::format("block {}, thread {}, line {}: {}: {}", block_, out.thread, out.line, emulate::name(out.kind),
                         waiting_threads());
  return out;
}

}  // namespace weft::emulate
