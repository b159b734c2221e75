/// How warps of Maxwell and Pascal branch: all lanes are at one place, and a stack knows where others wait.

#include "tests/machine/driver/launch.h"

#include <algorithm>

namespace weft::machine {
namespace {

/// The lanes leave; where none is left, those come back that wait on top of the stack.
void leave(Warp& warp, Mask lanes) {
  warp.active &= ~lanes;
  while (warp.active == 0 && !warp.returns.empty()) {
    const Return back = warp.returns.back();
    warp.returns.pop_back();
    warp.active = back.mask & ~warp.exited;
    warp.at = back.at;
  }
  if (warp.active == 0) warp.exited = kAllLanes;
}

/// Lanes that break out of a loop do not come back to anything inside of it.
void leave_loop(Warp& warp, Mask lanes) {
  for (auto back = warp.returns.rbegin(); back != warp.returns.rend() && back->kind != Return::Kind::loop_end; ++back) {
    back->mask &= ~lanes;
  }
  leave(warp, lanes);
}

/// `CC.NE`: lanes for which a flag holds, too.
Mask flag_condition(const Warp& warp, const sass::Instruction& of) {
  for (const sass::Operand& o : of.operands) {
    if (!o.text.starts_with("CC.")) continue;
    const std::string_view name = std::string_view(o.text).substr(3);
    if (name == "T") continue;
    if (name == "NE" || name == "NEU") return ~warp.zero;
    if (name == "EQ" || name == "EQU") return warp.zero;
    fault("at {:#x}: the machine does not know the condition {}", of.address, o.text);
  }
  return kAllLanes;
}

void call(Warp& warp, Mask lanes, int to) {
  if (lanes != warp.active) fault("lanes call a function apart from one another");
  warp.returns.push_back({Return::Kind::call, warp.active, warp.at});
  warp.at = to;
}

void branch(Warp& warp, Mask lanes, int to) {
  if (lanes == warp.active) {
    warp.at = to;
  } else if (lanes != 0) {
    warp.returns.push_back({Return::Kind::other_side, lanes, to});
    warp.active &= ~lanes;
  }
}

/// Each place gets its lanes in turn; those of the first go on at once, with what does not branch.
void branch_by_index(Warp& warp, const Ready& ready, const Launch& launch, Mask lanes) {
  for (const auto& [at, there] : indexed_branch(warp, ready, launch, lanes)) branch(warp, there, at);
}

void bar(Warp& warp, const Ready& ready, Launch& launch, Mask lanes) {
  expect_whole_warp(warp, lanes, "BAR", ready.of->address);
  warp.vote = 0;
  arrive(warp, ready, launch, lanes);
}

void flow(Warp& warp, const Ready& ready, Launch& launch, Mask lanes) {
  const sass::Instruction& of = *ready.of;
  const auto name = of.name();
  const auto target = [&] {
    if (of.targets.empty()) fault("at {:#x}: {} names no place", of.address, of.opcode);
    return of.targets.front();
  };
  if (name == "SSY") return warp.returns.push_back({Return::Kind::meeting, warp.active, target()});
  if (name == "PBK") return warp.returns.push_back({Return::Kind::loop_end, warp.active, target()});
  if (lanes == 0) return;
  if (name == "BAR") return bar(warp, ready, launch, lanes);
  if (name == "BRA") return branch(warp, lanes, target());
  if (name == "BRX") return branch_by_index(warp, ready, launch, lanes);
  if (name == "CAL" || name == "JCAL") return call(warp, lanes, target());
  if (name == "BRK") return leave_loop(warp, lanes);
  if (name == "EXIT") warp.exited |= lanes;
  leave(warp, lanes);  // EXIT, SYNC and RET
}

}  // namespace

void run_narrow(Warp& warp, Launch& launch) {
  while (warp.live() != 0 && warp.waiting == 0) {
    const Ready& ready = launch.at(warp.at++);
    const Mask lanes = begin(warp, ready, launch, warp.active) & flag_condition(warp, *ready.of);
    if (!ready.step) {
      flow(warp, ready, launch, lanes);
    } else if (lanes != 0) {
      ready.step(warp, lanes);
    }
  }
}

}  // namespace weft::machine
