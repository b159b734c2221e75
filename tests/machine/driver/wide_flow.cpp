/// How warps branch from Volta on: each lane is at a place of its own, and lanes that are to meet wait for one another.

#include "tests/machine/driver/launch.h"

#include <algorithm>
#include <limits>

namespace weft::machine {
namespace {

bool meets(const Ready& ready) { return ready.of->name() == "BSYNC"; }

std::size_t meeting_of(const Ready& ready, const Launch& launch) {
  return static_cast<std::size_t>(Reader(*ready.of, launch).meeting());
}

void place(Warp& warp, Mask lanes, int at) {
  each_lane(lanes, [&](int l) { warp.places[static_cast<std::size_t>(l)] = at; });
}

/// The lanes of a WARPSYNC: a register's value, a number, or all.
Mask wanted_by(const Warp& warp, const Ready& ready, const Launch& launch, int lane) {
  if (ready.of->operands.empty() || ready.of->has("ALL")) return kAllLanes;
  Lanes wanted;
  Reader(*ready.of, launch).word(0).read(warp, wanted);
  return wanted[static_cast<std::size_t>(lane)];
}

/// Lets lanes go on for which all others have come.
void release_met(Warp& warp, const Launch& launch) {
  const auto at = [&](int lane) { return warp.places[static_cast<std::size_t>(lane)]; };
  for (int lane = 0; lane < kLanes; ++lane) {
    const Mask there = warp.blocked & ~warp.waiting;
    if (!holds(there, lane)) continue;
    const Ready& ready = launch.at(at(lane));
    Mask wanted = 0, come = 0;
    if (meets(ready)) {
      const auto number = meeting_of(ready, launch);
      wanted = warp.meetings[number][static_cast<std::size_t>(lane)];
      each_lane(there, [&](int l) {
        const Ready& other = launch.at(at(l));
        if (meets(other) && meeting_of(other, launch) == number) come |= Mask{1} << l;
      });
    } else {
      wanted = wanted_by(warp, ready, launch, lane);
      each_lane(there, [&](int l) { come |= Mask{at(l) == at(lane)} << l; });
    }
    wanted &= warp.live();
    if ((wanted & ~come) != 0) continue;
    warp.blocked &= ~wanted;
    each_lane(wanted, [&](int l) { ++warp.places[static_cast<std::size_t>(l)]; });
  }
}

/// Lanes at one place, which run together: the first place or, with dice, that of any lane.
Mask choose(const Warp& warp, const Launch& launch) {
  const Mask able = ~(warp.exited | warp.blocked);
  const auto at = [&](int lane) { return warp.places[static_cast<std::size_t>(lane)]; };
  int chosen = able == 0 ? 0 : std::countr_zero(able);
  if (launch.dice != nullptr && able != 0) {
    for (auto skip = (*launch.dice)() % static_cast<unsigned>(std::popcount(able)); skip > 0; --skip) {
      chosen = std::countr_zero(able & ~((Mask{2} << chosen) - 1));
    }
  } else {
    each_lane(able, [&](int l) { chosen = at(l) < at(chosen) ? l : chosen; });
  }
  Mask out = 0;
  each_lane(able, [&](int l) { out |= Mask{at(l) == at(chosen)} << l; });
  return out;
}

/// How far the group may run before it is asked again who goes on: to where other lanes are or, with dice, one step.
int next_place(const Warp& warp, const Launch& launch, Mask group, int at) {
  const Mask others = ~(warp.exited | warp.blocked | group);
  if (others != 0 && launch.dice != nullptr) return at + 1;
  int out = std::numeric_limits<int>::max();
  each_lane(others, [&](int l) { out = std::min(out, warp.places[static_cast<std::size_t>(l)]); });
  return out;
}

void flow(Warp& warp, const Ready& ready, Launch& launch, Mask lanes) {
  const sass::Instruction& of = *ready.of;
  const auto name = of.name();
  const auto target = [&] {
    if (of.targets.empty()) fault("at {:#x}: {} names no place", of.address, of.opcode);
    return of.targets.front();
  };
  if (name == "BRA" && of.has("DIV")) {
    // Where lanes of the warp are apart.
    if (lanes != warp.live()) place(warp, lanes, target());
  } else if (name == "BRA") {
    place(warp, lanes & further_conditions(warp, ready), target());
  } else if (name == "BRX") {
    for (const auto& [at, there] : indexed_branch(warp, ready, launch, lanes)) place(warp, there, at);
  } else if (name == "CALL") {
    place(warp, lanes, target());
  } else if (name == "RET") {
    const Address back{.number = Reader(of, launch).result(0).number};
    each_lane(lanes,
              [&](int l) { place(warp, Mask{1} << l, launch.index_of(static_cast<int>(back.shared(warp, l)))); });
  } else if (name == "EXIT") {
    warp.exited |= lanes & further_conditions(warp, ready);
    if (warp.live() == 0 && !warp.copies.empty())
      fault("warp {} leaves, and never waited for {} of its copies to shared memory", warp.number, warp.copies.size());
  } else if (name == "BSSY") {
    auto& meeting = warp.meetings[meeting_of(ready, launch)];
    each_lane(lanes, [&](int l) { meeting[static_cast<std::size_t>(l)] = lanes; });
  } else if (name == "BREAK") {
    const Mask leave = lanes & further_conditions(warp, ready);
    for (Meeting& of_lane : warp.meetings[meeting_of(ready, launch)]) of_lane &= ~leave;
  } else if (name == "BAR") {
    place(warp, lanes, static_cast<int>(&ready - launch.code.data()));
    arrive(warp, ready, launch, lanes);
    warp.blocked |= lanes;
  } else if (!of.has("COLLECTIVE")) {
    // BSYNC and WARPSYNC: they stay there until all others have come.
    place(warp, lanes, static_cast<int>(&ready - launch.code.data()));
    warp.blocked |= lanes;
  }
}

}  // namespace

void run_wide(Warp& warp, Launch& launch) {
  for (Mask group = choose(warp, launch); group != 0; group = choose(warp, launch)) {
    int at = warp.places[static_cast<std::size_t>(std::countr_zero(group))];
    const int border = next_place(warp, launch, group, at);
    for (const Ready* ready = &launch.at(at); ready->step && at < border; ready = &launch.at(++at)) {
      warp.active = begin(warp, *ready, launch, group);
      if (warp.active != 0) ready->step(warp, warp.active);
    }
    place(warp, group, at);
    if (at >= border) continue;
    const Ready& ready = launch.at(at);
    warp.active = begin(warp, ready, launch, group);
    place(warp, group, at + 1);
    flow(warp, ready, launch, warp.active);
    if ((warp.blocked & ~warp.waiting) != 0) release_met(warp, launch);
  }
}

}  // namespace weft::machine
