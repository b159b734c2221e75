#include "tests/machine/driver/launch.h"

#include <algorithm>
#include <cstring>

namespace weft::machine {
namespace {

constexpr Word kNan = 0x7fc00000;

/// Control flow, which the machine itself knows, and what does nothing here.
bool is_control(const sass::Instruction& instruction) {
  static constexpr std::string_view kNames[] = {"BRA", "BRX", "BSSY", "BSYNC", "EXIT", "BAR", "BREAK", "CALL",
                                                "RET", "SSY", "SYNC", "PBK",   "BRK",  "CAL", "JCAL",  "WARPSYNC"};
  return std::find(std::begin(kNames), std::end(kNames), instruction.name()) != std::end(kNames);
}

Warp start(Block& block, int number) {
  Warp warp;
  warp.block = &block;
  warp.number = number;
  for (Lanes& values : warp.registers) values.fill(kNan);
  warp.registers[kZero].fill(0);
  warp.predicates[kTrue] = kAllLanes;
  warp.uniform_predicates[kTrue] = true;
  warp.active = kAllLanes;
  return warp;
}

/// All warps have come to the barrier, or left.
void release(Block& block) {
  Word count = 0;
  bool any = false, all = true;
  const Warp* first = nullptr;
  for (const Warp& warp : block.warps) {
    if (warp.live() == 0) continue;
    if (first != nullptr && warp.answer != first->answer) fault("warps meet at barriers of different kinds");
    if (first == nullptr) first = &warp;
    count += static_cast<Word>(std::popcount(warp.vote & warp.waiting));
    any |= (warp.vote & warp.waiting) != 0;
    all &= (~warp.vote & warp.waiting) == 0;
  }
  for (Warp& warp : block.warps) {
    if (warp.live() == 0) continue;
    warp.outcome = warp.answer == Answer::count ? count : Word{warp.answer == Answer::any ? any : all};
    each_lane(warp.waiting, [&](int lane) { ++warp.places[static_cast<std::size_t>(lane)]; });
    warp.blocked &= ~warp.waiting;
    warp.waiting = 0;
  }
  block.shared.begin_interval();
}

void expect_all_waiting(const Warp& warp, const Launch& launch) {
  if (warp.waiting == warp.live()) return;
  std::string places;
  each_lane(warp.live(), [&](int lane) {
    places += fmt::format(" {:#x}", launch.at(warp.places[static_cast<std::size_t>(lane)]).of->address);
  });
  fault("lanes of warp {} wait for lanes that never come: they are at{}", warp.number, places);
}

void run_block(Block& block, Launch& launch) {
  const auto is_live = [](const Warp& warp) { return warp.live() != 0; };
  std::vector<Warp*> order;
  for (Warp& warp : block.warps) order.push_back(&warp);
  while (std::any_of(block.warps.begin(), block.warps.end(), is_live)) {
    if (launch.dice != nullptr) std::shuffle(order.begin(), order.end(), *launch.dice);
    for (Warp* warp : order) {
      if (warp->live() == 0) continue;
      launch.program->code.wide ? run_wide(*warp, launch) : run_narrow(*warp, launch);
      if (launch.program->code.wide && warp->live() != 0) expect_all_waiting(*warp, launch);
    }
    release(block);
  }
}

}  // namespace

int Launch::index_of(int address) const {
  const auto found = program->at.find(address);
  if (found == program->at.end()) fault("a jump to {:#x}, where no instruction is", address);
  return found->second;
}

Mask begin(const Warp& warp, const Ready& ready, Launch& launch, Mask active) {
  ++*ready.executed;
  if (++launch.executed > launch.most)
    fault("the kernel does not end: warp {} is at {:#x}", warp.number, ready.of->address);
  const Mask lanes = ready.guard.read(warp) & active;
  if (&warp == launch.follows) launch.path.push_back(ready.of->address | (lanes == 0 ? kIdle : 0));
  return lanes;
}

void Launch::note_load(const Warp& warp, Wide address) {
  constexpr Wide kLine = 128;
  if (&warp == follows && lines.insert(address / kLine).second) path.back() |= kNewLine;
}

void arrive(Warp& warp, const Ready& ready, const Launch& launch, Mask lanes) {
  const sass::Instruction& bar = *ready.of;
  warp.answer = !bar.has("RED")   ? Answer::none
                : bar.has("POPC") ? Answer::count
                : bar.has("OR")   ? Answer::any
                                  : Answer::all;
  if (warp.answer != Answer::none) {
    const Mask vote = Reader(bar, launch).predicate(bar.operands.size() - 1).read(warp);
    warp.vote = (warp.vote & ~lanes) | (vote & lanes);
  }
  warp.waiting |= lanes;
}

std::map<int, Mask> indexed_branch(const Warp& warp, const Ready& ready, const Launch& launch, Mask lanes) {
  const Reader reader(*ready.of, launch);
  const std::string_view text = reader.text(0);
  const auto minus = text.find(" -0x");
  // Tables hold addresses within the kernel: nvdisasm prints what takes the next instruction's address away again.
  const bool wide = launch.program->code.wide;
  const int next = ready.of->address + (wide ? 16 : 8);
  if (minus == text.npos || text.substr(minus) != fmt::format(" -{:#x}", next)) reader.unknown();
  Lanes where;
  Source{.number = reader.result(0).number}.read(warp, where);
  std::map<int, Mask> out;
  each_lane(lanes, [&](int l) {
    const int at = static_cast<int>(where[static_cast<std::size_t>(l)]);
    // Every fourth word of Maxwell and Pascal is for control: what jumps there runs the next one.
    const bool is_control_word = !wide && at % 32 == 0;
    out[launch.index_of(is_control_word ? at + 8 : at)] |= Mask{1} << l;
  });
  return out;
}

Mask further_conditions(const Warp& warp, const Ready& ready) {
  Mask out = kAllLanes;
  for (const sass::Operand& o : ready.of->operands) {
    const bool uniform = o.kind == sass::Operand::Kind::uniform_predicate;
    if (!uniform && o.kind != sass::Operand::Kind::predicate) continue;
    out &= Predicate{.number = o.number, .inverted = o.inverted, .uniform = uniform}.read(warp);
  }
  return out;
}

void expect_whole_warp(Warp& warp, Mask lanes, std::string_view name, int place) {
  if (lanes == warp.live()) return;
  warp.block->launch->findings.insert(fmt::format(
      "{} at {:#x} needs all lanes of a warp, and comes to lanes {:08x} of {:08x}", name, place, lanes, warp.live()));
}

void run(Launch& launch) {
  for (std::size_t i = 0; i < launch.program->code.instructions.size(); ++i) {
    const sass::Instruction& of = launch.program->code.instructions[i];
    launch.code.push_back({.of = &of,
                           .guard = {.number = of.guard, .inverted = of.guard_inverted, .uniform = of.guard_uniform},
                           .step = is_control(of) ? Step() : meaning_of(of, launch, launch.program->code.wide),
                           .executed = &launch.program->executed[i]});
  }
  for (unsigned z = 0; z < launch.grid[2]; ++z) {
    for (unsigned y = 0; y < launch.grid[1]; ++y) {
      for (unsigned x = 0; x < launch.grid[0]; ++x) {
        const auto before = launch.executed;
        Block block{.launch = &launch, .index = {x, y, z}, .shared = {launch.shared_bytes, launch.findings}};
        for (int i = 0; i < static_cast<int>(launch.block[0]) / kLanes; ++i) block.warps.push_back(start(block, i));
        const bool is_followed = launch.followed == static_cast<std::int64_t>(launch.of_blocks.size());
        launch.follows = is_followed ? block.warps.data() : nullptr;
        run_block(block, launch);
        launch.of_blocks.push_back(launch.executed - before);
      }
    }
  }
}

}  // namespace weft::machine
