#include "runtime/emulate/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace weft::emulate {

using weft_emulated::Barrier;
using weft_emulated::Site;
using weft_emulated::Space;
using weft_emulated::WarpOperation;

/// From the C functions that kernels call to the scheduler that runs them.
struct HookTable {
  static Scheduler& of(weft_emulated::Block* block) { return *static_cast<Scheduler*>(block->scheduler); }

  static void load(weft_emulated::Block* block, Space space, const void* from, void* to, unsigned size, Site site) {
    of(block).access({space, from, size, false, site}, static_cast<unsigned char*>(to),
                     static_cast<const unsigned char*>(from));
  }
  static void store(weft_emulated::Block* block, Space space, void* to, const void* from, unsigned size, Site site) {
    of(block).access({space, to, size, true, site}, static_cast<unsigned char*>(to),
                     static_cast<const unsigned char*>(from));
  }
  static void touch(weft_emulated::Block* block, const void* at, unsigned size, bool write, Site site) {
    of(block).touch({Space::global, at, size, write, site});
  }
  static int barrier(weft_emulated::Block* block, Barrier kind, int predicate, int line, const char* function) {
    return of(block).barrier({.barrier = kind, .value = predicate != 0, .line = line, .function = function});
  }
  static unsigned long long warp(weft_emulated::Block* block, WarpOperation operation, unsigned mask,
                                 unsigned long long value, int source, int line) {
    return of(block).warp_operation(
        {.operation = operation, .mask = mask, .value = value, .source = source, .line = line});
  }

  static const unsigned char* exchange(weft_emulated::Block* block, const void* mine, unsigned bytes, int line) {
    return of(block).exchange(mine, bytes, line);
  }
  static void copy(weft_emulated::Block* block, void* to, const void* from, unsigned bytes, unsigned size, Site site) {
    of(block).copy(to, from, bytes, size, site);
  }
  static void wait(weft_emulated::Block* block) { of(block).finish_copies(); }

  static constexpr weft_emulated::Hooks kHooks = {load, store, touch, barrier, warp, exchange, copy, wait};
};

Result<std::unique_ptr<Scheduler>> Scheduler::make(Entry entry, const Launch& launch, bool count) {
  WEFT_TRY(Arena::Borrowed arena, Arena::borrow(launch.threads));
  return std::unique_ptr<Scheduler>(new Scheduler(entry, launch, count, std::move(arena)));
}

Scheduler::Scheduler(Entry entry, const Launch& launch, bool count, Arena::Borrowed arena)
    : entry_(entry),
      launch_(launch),
      count_(count),
      arena_(std::move(arena)),
      memory_(launch.memory, launch.shared_bytes),
      traffic_((launch.threads + 31) / 32),
      random_(launch.seed),
      fibers_(static_cast<std::size_t>(launch.threads)),
      warps_(static_cast<std::size_t>((launch.threads + 31) / 32)),
      warp_order_(warps_.size()) {
  std::iota(warp_order_.begin(), warp_order_.end(), 0);
  if (launch.order == Order::descending) std::reverse(warp_order_.begin(), warp_order_.end());
  for (std::size_t i = 0; i < fibers_.size(); ++i) fibers_[i].thread.index = static_cast<unsigned>(i);
  *arena_->block() = {.hooks = &HookTable::kHooks,
                      .scheduler = this,
                      .current = nullptr,
                      .shared = memory_.shared(),
                      .index = 0,
                      .count = static_cast<unsigned>(launch.blocks),
                      .threads = static_cast<unsigned>(launch.threads)};
}

// ---------------------------------------------------------------- threads

bool Scheduler::run(std::int64_t block) {
  start_block(block);
  while (exited_ < launch_.threads && !over_) {
    shuffle_warps();
    bool progress = false;
    for (const std::size_t warp : warp_order_) progress |= run_warp(warp);
    if (!progress && !over_) {
      report_.add(stall());
      over_ = true;
    }
  }
  for (std::size_t warp = 0; count_ && warp < warps_.size(); ++warp) traffic_.flush(static_cast<int>(warp));
  for (Fiber& fiber : fibers_) report_.flops += static_cast<std::int64_t>(std::exchange(fiber.thread.flops, 0));
  report_.blocks += over_ ? 0 : 1;
  return !over_;
}

void Scheduler::start_block(std::int64_t block) {
  block_ = block;
  arena_->block()->index = static_cast<unsigned>(block);
  memory_.poison();
  ++barrier_epoch_;
  arrived_ = exited_ = 0;
  for (std::size_t i = 0; i < fibers_.size(); ++i) {
    // Tops that differ in more than the page: else all stacks would meet in the same few lines of the cache.
    unsigned char* top = arena_->stack(static_cast<int>(i)) + kStackBytes - (i % 16) * 256;
    fibers_[i].state = State::ready;
    fibers_[i].copies.clear();
    fibers_[i].context.start(top, kStackBytes - (i % 16) * 256, run_fiber, this);
  }
  for (std::size_t i = 0; i < warps_.size(); ++i) {
    const int lanes = std::min(32, launch_.threads - 32 * static_cast<int>(i));
    warps_[i].ready = static_cast<std::uint32_t>((std::uint64_t{1} << lanes) - 1);
    warps_[i].exited = ~warps_[i].ready;
  }
}

/// Runs the warp's lanes until none of them can go on. Whether any could.
bool Scheduler::run_warp(std::size_t warp) {
  bool any = false;
  while (warps_[warp].ready != 0) {
    // Each lane once, then those that became ready meanwhile.
    for (std::uint32_t left = warps_[warp].ready; left != 0;) {
      const int lane = pick(left);
      left &= ~(1U << lane);
      resume(fibers_[warp * 32 + static_cast<std::size_t>(lane)]);
      if (over_) return true;
    }
    any = true;
  }
  return any;
}

int Scheduler::pick(std::uint32_t lanes) {
  if (launch_.order == Order::ascending) return __builtin_ctz(lanes);
  if (launch_.order == Order::descending) return 31 - __builtin_clz(lanes);
  auto skip = static_cast<int>(random_() % static_cast<unsigned>(__builtin_popcount(lanes)));
  for (; skip > 0; --skip) lanes &= lanes - 1;
  return __builtin_ctz(lanes);
}

void Scheduler::shuffle_warps() {
  if (launch_.order == Order::random) std::shuffle(warp_order_.begin(), warp_order_.end(), random_);
}

void Scheduler::resume(Fiber& fiber) {
  arena_->block()->current = &fiber.thread;
  Context::change(host_, fiber.context);
}

void Scheduler::suspend() { Context::change(fibers_[static_cast<std::size_t>(current())].context, host_); }

void Scheduler::end_fiber() { Context::leave(fibers_[static_cast<std::size_t>(current())].context, host_); }

/// Nothing of the fiber is ever run again, not even its destructors: callers hold none.
void Scheduler::abandon() {
  over_ = true;
  end_fiber();
}

void Scheduler::run_fiber(void* data) {
  auto& self = *static_cast<Scheduler*>(data);
  self.entry_(self.launch_.args);
  const auto thread = static_cast<std::size_t>(self.current());
  if (const auto& copies = self.fibers_[thread].copies; !copies.empty()) {
    self.record({.kind = FaultKind::pending_copy, .text = "it may arrive over what stands there by then"},
                self.current(), copies.front().site.line);
  }
  self.fibers_[thread].state = State::exited;
  self.warps_[thread / 32].ready &= ~(1U << (thread % 32));
  self.warps_[thread / 32].exited |= 1U << (thread % 32);
  ++self.exited_;
  self.end_fiber();
}

// ---------------------------------------------------------------- memory

Moment Scheduler::now() const {
  const int thread = current();
  return {barrier_epoch_, warps_[static_cast<std::size_t>(thread / 32)].sync, thread};
}

void Scheduler::access(const Attempt& attempt, unsigned char* into, const unsigned char* from) {
  const auto size = static_cast<std::size_t>(attempt.size);
  if (!permitted(attempt)) {
    if (!attempt.write) std::memset(into, 0xFF, size);
    return;
  }
  switch (size) {  // constant sizes are single moves
    case 2:
      std::memcpy(into, from, 2);
      break;
    case 4:
      std::memcpy(into, from, 4);
      break;
    case 8:
      std::memcpy(into, from, 8);
      break;
    case 16:
      std::memcpy(into, from, 16);
      break;
    default:
      std::memcpy(into, from, size);
      break;
  }
  if (count_) count_access(attempt);
}

/// Whether the access may be carried out; says what is wrong with it.
bool Scheduler::permitted(const Attempt& attempt) {
  const auto kind = memory_.check(attempt, now());
  if (!kind) return true;
  record(memory_.describe(*kind, attempt), current(), attempt.site.line);
  return !forbids(*kind);
}

void Scheduler::count_access(const Attempt& attempt) {
  const bool shared = attempt.space == Space::shared;
  traffic_.add(current(),
               {.site = attempt.site.address,
                .address = shared ? memory_.shared_offset(attempt.at) : reinterpret_cast<std::uint64_t>(attempt.at),
                .line = attempt.site.line,
                .size = static_cast<std::uint8_t>(attempt.size),
                .shared = shared,
                .write = attempt.write});
}

void Scheduler::touch(Attempt attempt) {
  if (memory_.is_shared(attempt.at)) attempt.space = Space::shared;
  const auto kind = memory_.check(attempt, now());
  if (!kind) return;
  record(memory_.describe(*kind, attempt), current(), attempt.site.line);
  // The access follows whatever we say, and might end the process.
  if (forbids(*kind)) abandon();
}

void Scheduler::record(Fault fault, int thread, int line) {
  fault.block = block_;
  fault.thread = thread;
  fault.line = line;
  const std::string where = line == 0 ? std::string() : fmt::format(", line {}", line);
  fault.text = fmt::format("block {}, thread {}{}: {}: {}", block_, thread, where, name(fault.kind), fault.text);
  report_.add(std::move(fault));
}

Report Scheduler::report() const {
  Report out = report_;
  return out += traffic_.sums();
}

}  // namespace weft::emulate
