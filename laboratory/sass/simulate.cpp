#include "laboratory/sass/simulate.h"

#include "laboratory/sass/operands.h"
#include "laboratory/sass/units.h"

#include <algorithm>
#include <queue>
#include <tuple>

namespace weft::sass {
namespace {

constexpr int kBarriers = 6;
constexpr int kWarmUp = 1, kLeastRounds = 4;
constexpr std::size_t kLeastSteps = 20000;  // short rounds are measured together, so that where blocks stand is nothing

using Clock = std::int64_t;
std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Clocks without an instruction after which a wait is for what never comes.
constexpr std::int64_t kLongestSilence = 20000;

/// An instruction of the trace, ready to be issued.
struct Step {
  Unit unit = Unit::math;
  Control control;
  int stall = 1;                          ///< as it counts
  const Instruction* operands = nullptr;  ///< what it reads from banks, if that matters
  int occupies = 1;                       ///< clocks of its unit
  bool product = false;
  bool arrives = false;  ///< at the block's barrier, where it waits
  int drains = kNone;    ///< DEPBAR: the barrier that it waits for …
  int left = 0;          ///< … until no more than this is under way
};

int wavefronts(const Instruction& instruction, const Machine& machine) {
  const bool stores = instruction.name() == "STS";
  const bool exchange = instruction.name() == "SHFL";
  const int bytes = exchange ? 4 : bytes_each(instruction);
  int out = bytes / 4;
  if (!stores && out > 1 && machine.lane_pairs) out /= 2;
  if (stores && bytes == 16) out *= machine.store_conflicts;
  return std::max(out, 1) * machine.shared_clocks;
}

int clocks_of(const Instruction& instruction, Unit unit, const Machine& machine) {
  switch (unit) {
    case Unit::half:
      return machine.half_clocks;
    case Unit::special:
      return machine.special_clocks;
    case Unit::wide:
      return machine.wide_clocks;
    case Unit::shared:
      return wavefronts(instruction, machine);
    case Unit::global:
    case Unit::local:
      return bytes_each(instruction) / 4 * machine.global_clocks;
    case Unit::math:
    case Unit::tensor:
    case Unit::constant:
    case Unit::barrier:
    case Unit::fence:
    case Unit::control:
      return machine.math_clocks;
  }
  return machine.math_clocks;
}

int effective_stall(const Control& control, const Machine& machine) {
  return control.stall > machine.longest_stall && !control.yields ? machine.unyielded_stall : control.stall;
}

Step step_of(const Instruction& instruction, const Machine& machine) {
  Step out;
  out.unit = unit_of(instruction);
  out.control = instruction.control;
  out.stall = effective_stall(instruction.control, machine);
  out.occupies = clocks_of(instruction, out.unit, machine);
  out.product = adds_product(instruction);
  out.arrives = out.unit == Unit::barrier && !instruction.has("ARV");
  if (machine.bank_conflicts && reads_banks(out.unit)) out.operands = &instruction;
  if (instruction.operands.size() >= 2 && instruction.operands[0].kind == Operand::Kind::barrier) {
    out.drains = instruction.operands[0].number;
    out.left = static_cast<int>(instruction.operands[1].value);
  }
  return out;
}

std::vector<Step> steps_of(const Code& code, const std::vector<int>& trace, const Machine& machine) {
  std::vector<Step> out;
  out.reserve(trace.size());
  for (const int i : trace) out.push_back(step_of(code.instructions[at(i)], machine));
  return out;
}

struct Warp {
  int block = 0;
  std::size_t step = 0;
  Clock ready = 0;
  bool at_barrier = false;
  std::array<int, kBarriers> under_way = {};
  std::array<Slot, kBarriers> held_by = {};
};

struct Scheduler {
  std::vector<int> warps;  ///< the one that issued last comes first
  Clock busy = 0;          ///< until then registers of one bank are read
  Clock half = 0, special = 0, wide = 0;
  Collector collector;
  int owner = kNone;  ///< the warp whose operands are kept

  /// Another warp finds nothing kept: that is why ptxas never lets a warp yield that has marked something.
  int conflicts(int warp, const Step& step) {
    if (owner != warp) collector = {};
    owner = warp;
    return step.operands == nullptr ? 0 : collector.conflicts(*step.operands);
  }
};

struct Block {
  int waiting = 0;
  int rounds = 0;  ///< that its first warp has begun
};

/// A barrier of a warp that comes free.
using Release = std::tuple<Clock, int, int>;  // when, warp, barrier

class Sm {
 public:
  Sm(std::vector<Step> steps, const Launch& launch, const Machine& machine);
  Simulation run();

 private:
  void clock();
  void issue_from(Scheduler& scheduler);
  Slot obstacle(const Scheduler& scheduler, const Warp& warp, const Step& step) const;
  Slot waits_for(const Warp& warp, const Step& step) const;
  Clock backlog(const Scheduler& scheduler, Unit unit) const;
  void issue(Scheduler& scheduler, int index);
  Clock start(Scheduler& scheduler, const Step& step);
  void hold(int index, const Step& step, Clock begins);
  void arrive(int index);
  bool is_stuck() const { return now_ - last_issue_ > kLongestSilence || now_ > longest_; }
  void count(Slot slot) { ++slots_[static_cast<std::size_t>(slot)]; }

  const Machine machine_;
  const std::vector<Step> steps_;
  const Launch launch_;
  std::vector<Warp> warps_;
  std::vector<Scheduler> schedulers_;
  std::vector<Block> blocks_;
  std::priority_queue<Release, std::vector<Release>, std::greater<>> releases_;
  Clock now_ = 0, last_issue_ = 0, longest_ = 0;
  Clock shared_ = 0, global_ = 0;
  std::array<std::int64_t, kSlots> slots_ = {};
  std::int64_t issued_ = 0;
};

Sm::Sm(std::vector<Step> steps, const Launch& launch, const Machine& machine)
    : machine_(machine), steps_(std::move(steps)), launch_(launch), schedulers_(at(machine.schedulers)) {
  blocks_.resize(at(launch.blocks));
  const auto per_scheduler = (launch.blocks * launch.warps + machine.schedulers - 1) / machine.schedulers;
  const auto round = static_cast<Clock>(steps_.size()) * per_scheduler;
  for (int block = 0; block < launch.blocks; ++block) {
    for (int warp = 0; warp < launch.warps; ++warp) {
      const int index = static_cast<int>(warps_.size());
      warps_.push_back({.block = block, .ready = round * block / launch.blocks});
      schedulers_[at(index % machine.schedulers)].warps.push_back(index);
    }
  }
}

/// What the unit still has to do before it could begin with one more.
Clock Sm::backlog(const Scheduler& scheduler, Unit unit) const {
  switch (unit) {
    case Unit::half:
      return scheduler.half - now_;
    case Unit::wide:
      return scheduler.wide - now_;
    case Unit::special:
      return scheduler.special - now_ - machine_.special_queue;
    case Unit::shared:
      return shared_ - now_ - machine_.shared_queue;
    case Unit::global:
    case Unit::local:
      return global_ - now_ - machine_.shared_queue;
    case Unit::math:
    case Unit::tensor:
    case Unit::constant:
    case Unit::barrier:
    case Unit::fence:
    case Unit::control:
      return 0;
  }
  return 0;
}

Slot Sm::waits_for(const Warp& warp, const Step& step) const {
  for (int b = 0; b < kBarriers; ++b) {
    if ((step.control.waits >> b & 1) != 0 && warp.under_way[at(b)] > 0) return warp.held_by[at(b)];
  }
  if (step.drains != kNone && step.drains < kBarriers && warp.under_way[at(step.drains)] > step.left) {
    return warp.held_by[at(step.drains)];
  }
  return Slot::other;
}

/// Why the warp's next instruction cannot be issued now; Slot::other where it can.
Slot Sm::obstacle(const Scheduler& scheduler, const Warp& warp, const Step& step) const {
  if (warp.at_barrier) return Slot::barrier;
  if (warp.ready > now_) return Slot::stall;
  if (const Slot waits = waits_for(warp, step); waits != Slot::other) return waits;
  return backlog(scheduler, step.unit) > 0 ? Slot::pipe : Slot::other;
}

bool is_arithmetic(Unit unit) { return unit == Unit::math || unit == Unit::half || unit == Unit::wide; }

void Sm::issue_from(Scheduler& scheduler) {
  if (scheduler.busy > now_) return count(Slot::conflict);
  if (scheduler.warps.empty()) return count(Slot::stall);
  Slot reason = Slot::other;
  for (std::size_t i = 0; i < scheduler.warps.size(); ++i) {
    const int index = scheduler.warps[i];
    const Step& step = steps_[warps_[at(index)].step];
    const Slot found = obstacle(scheduler, warps_[at(index)], step);
    if (found != Slot::other) {
      if (i == 0) reason = found;
      continue;
    }
    // The same warp goes on until it must wait or gives way.
    std::rotate(scheduler.warps.begin(), scheduler.warps.begin() + static_cast<std::ptrdiff_t>(i),
                scheduler.warps.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    issue(scheduler, index);
    bool product = step.product, yields = step.control.yields;
    const Step& second = steps_[warps_[at(index)].step];
    if (step.control.stall == 0 && is_arithmetic(step.unit) != is_arithmetic(second.unit) &&
        obstacle(scheduler, warps_[at(index)], second) == Slot::other) {
      product = product || second.product;
      yields = second.control.yields;
      issue(scheduler, index);
    }
    warps_[at(index)].ready = std::max(warps_[at(index)].ready, now_ + 1);
    if (yields) std::rotate(scheduler.warps.begin(), scheduler.warps.begin() + 1, scheduler.warps.end());
    return count(product ? Slot::product : Slot::other);
  }
  count(reason);
}

/// When the instruction's turn in its unit begins.
Clock Sm::start(Scheduler& scheduler, const Step& step) {
  const auto take = [&](Clock& free) {
    const Clock begins = std::max(free, now_);
    free = begins + step.occupies;
    return begins;
  };
  switch (step.unit) {
    case Unit::half:
      return take(scheduler.half);
    case Unit::special:
      return take(scheduler.special);
    case Unit::wide:
      return take(scheduler.wide);
    case Unit::shared:
      return take(shared_);
    case Unit::global:
    case Unit::local:
      return take(global_);
    case Unit::math:
    case Unit::tensor:
    case Unit::constant:
    case Unit::barrier:
    case Unit::fence:
    case Unit::control:
      return now_;
  }
  return now_;
}

void Sm::hold(int index, const Step& step, Clock begins) {
  Clock latency = machine_.constant_latency;
  Slot slot = Slot::stall;
  if (step.unit == Unit::shared) {
    latency = machine_.shared_latency;
    slot = Slot::shared;
  } else if (step.unit == Unit::global || step.unit == Unit::local) {
    latency = machine_.global_latency;
    slot = Slot::global;
  } else if (step.unit == Unit::special) {
    latency = machine_.special_latency;
    slot = Slot::special;
  } else if (step.unit == Unit::fence) {
    latency = machine_.fence_latency;
  }
  const Clock ends = begins + step.occupies - 1;
  for (const auto& [barrier, after] : {std::pair{step.control.write_barrier, latency},
                                       std::pair{step.control.read_barrier, Clock{machine_.operands_read}}}) {
    if (barrier == kNone || barrier >= kBarriers) continue;
    ++warps_[at(index)].under_way[at(barrier)];
    warps_[at(index)].held_by[at(barrier)] = slot;
    releases_.emplace(ends + after, index, barrier);
  }
}

/// The last warp lets all of its block go on.
void Sm::arrive(int index) {
  Block& block = blocks_[at(warps_[at(index)].block)];
  warps_[at(index)].at_barrier = true;
  if (++block.waiting < launch_.warps) return;
  block.waiting = 0;
  for (Warp& warp : warps_) {
    if (warp.block != warps_[at(index)].block) continue;
    warp.at_barrier = false;
    warp.ready = std::max(warp.ready, now_ + machine_.barrier_latency);
  }
}

void Sm::issue(Scheduler& scheduler, int index) {
  Warp& warp = warps_[at(index)];
  const Step& step = steps_[warp.step];
  ++issued_;
  last_issue_ = now_;
  hold(index, step, start(scheduler, step));
  const int conflicts = scheduler.conflicts(index, step);
  scheduler.busy = std::max(scheduler.busy, now_ + 1 + conflicts);
  warp.ready = now_ + step.stall + conflicts;
  if (step.unit == Unit::fence) warp.ready = std::max(warp.ready, now_ + machine_.fence_latency);
  warp.step = warp.step + 1 == steps_.size() ? 0 : warp.step + 1;
  const bool is_first = index % launch_.warps == 0;
  if (warp.step == 0 && is_first) ++blocks_[at(warp.block)].rounds;
  if (step.arrives) arrive(index);
}

void Sm::clock() {
  while (!releases_.empty() && std::get<0>(releases_.top()) <= now_) {
    const auto [when, warp, barrier] = releases_.top();
    releases_.pop();
    --warps_[at(warp)].under_way[at(barrier)];
  }
  // Each is the first to reach the shared pipe in its turn.
  for (std::size_t i = 0; i < schedulers_.size(); ++i) {
    issue_from(schedulers_[(i + static_cast<std::size_t>(now_)) % schedulers_.size()]);
  }
  ++now_;
}

Simulation Sm::run() {
  Simulation out;
  if (steps_.empty() || warps_.empty()) return out;
  const int measured = std::max(kLeastRounds, static_cast<int>(kLeastSteps / steps_.size()));
  // No instruction takes longer on average, unless a warp never gives way.
  longest_ = static_cast<Clock>(steps_.size()) * (kWarmUp + measured + launch_.blocks) *
             (machine_.global_latency + static_cast<Clock>(warps_.size()) * machine_.wide_clocks);
  const auto begun = [&](int rounds) {
    return std::all_of(blocks_.begin(), blocks_.end(), [&](const Block& block) { return block.rounds >= rounds; });
  };
  while (!begun(kWarmUp) && !is_stuck()) clock();
  const int first = blocks_[0].rounds;
  while (blocks_[0].rounds == first && !is_stuck()) clock();
  const Clock begin = now_;
  const std::int64_t issued = issued_;
  slots_ = {};
  while (blocks_[0].rounds < first + 1 + measured && !is_stuck()) clock();
  if (is_stuck()) return out;
  const auto clocks = static_cast<double>(now_ - begin), all = clocks * machine_.schedulers;
  out.clocks_per_round = clocks / measured;
  for (std::size_t i = 0; i < kSlots; ++i) out.slots[i] = static_cast<double>(slots_[i]) / all;
  out.product_share = out.of(Slot::product);
  out.issued_per_clock = static_cast<double>(issued_ - issued) / all;
  return out;
}

}  // namespace

const char* to_string(Slot slot) {
  constexpr const char* kNames[kSlots] = {"products",          "other instructions", "bank conflicts",
                                          "fixed latency",     "shared memory",      "global memory",
                                          "special functions", "barriers",           "busy units"};
  return kNames[static_cast<std::size_t>(slot)];
}

Simulation simulate(const Code& code, const std::vector<int>& trace, const Launch& launch, const Machine& machine) {
  return Sm(steps_of(code, trace, machine), launch, machine).run();
}

}  // namespace weft::sass
