#include "laboratory/sass/flow.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace weft::sass {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// Names a place where warps meet, and does not go there.
bool only_names_a_place(const Instruction& instruction) {
  const auto name = instruction.name();
  return name == "SSY" || name == "PBK" || name == "PCNT" || name == "PRET" || name == "BSSY";
}

bool ends_the_thread(const Instruction& instruction) {
  const auto name = instruction.name();
  return name == "EXIT" || name == "RET" || name == "KILL";
}

bool jumps(const Instruction& instruction) {
  // A call returns, but for ptxas's far jump; a jump without a known place is taken for a call.
  const bool calls = (instruction.name() == "CAL" || instruction.name() == "CALL" || instruction.name() == "JCAL") &&
                     !instruction.has("NOINC");
  const bool for_parted_warps = instruction.name() == "BRA" && instruction.has("DIV");
  return !only_names_a_place(instruction) && !calls && !for_parted_warps && !instruction.targets.empty();
}

bool goes_on(const Instruction& instruction) {
  const bool leaves = ends_the_thread(instruction) || jumps(instruction);
  return !leaves || instruction.is_conditional() || depends_on_operand(instruction);
}

std::vector<Block> blocks_of(const std::vector<Instruction>& code) {
  std::vector<bool> begins(code.size() + 1, false);
  begins[0] = true;
  for (std::size_t i = 0; i < code.size(); ++i) {
    for (const int target : code[i].targets) begins[std::min(at(target), code.size())] = true;
    if (jumps(code[i]) || ends_the_thread(code[i])) begins[i + 1] = true;
  }
  std::vector<Block> out;
  std::vector<int> block_of(code.size() + 1, kNone);
  for (std::size_t i = 0; i < code.size(); ++i) {
    if (begins[i]) out.push_back({.first = static_cast<int>(i), .last = static_cast<int>(i)});
    block_of[i] = static_cast<int>(out.size()) - 1;
    out.back().last = static_cast<int>(i);
  }
  for (Block& block : out) {
    const Instruction& last = code[at(block.last)];
    const auto add = [&](int instruction) {
      const int to = block_of[at(instruction)];
      if (to != kNone && std::find(block.next.begin(), block.next.end(), to) == block.next.end())
        block.next.push_back(to);
    };
    if (goes_on(last)) add(block.last + 1);
    if (jumps(last)) std::for_each(last.targets.begin(), last.targets.end(), add);
  }
  return out;
}

/// Blocks so that each comes after one that leads to it, the first block first.
std::vector<int> reverse_postorder(const std::vector<Block>& blocks) {
  std::vector<int> out;
  std::vector<bool> seen(blocks.size(), false);
  std::vector<std::pair<int, std::size_t>> stack;  // a block and how many of its ways were followed
  seen[0] = true;
  stack.emplace_back(0, 0);
  while (!stack.empty()) {
    auto& [block, followed] = stack.back();
    const auto& next = blocks[at(block)].next;
    if (followed == next.size()) {
      out.push_back(block);
      stack.pop_back();
      continue;
    }
    const int to = next[followed++];
    if (!seen[at(to)]) {
      seen[at(to)] = true;
      stack.emplace_back(to, 0);
    }
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<std::vector<int>> before_each(const std::vector<Block>& blocks) {
  std::vector<std::vector<int>> out(blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    for (const int to : blocks[i].next) out[at(to)].push_back(static_cast<int>(i));
  }
  return out;
}

/// Cooper, Harvey and Kennedy's iteration.
void find_dominators(std::vector<Block>& blocks) {
  const std::vector<int> order = reverse_postorder(blocks);
  std::vector<int> number(blocks.size(), kNone);
  for (std::size_t i = 0; i < order.size(); ++i) number[at(order[i])] = static_cast<int>(i);
  const auto before = before_each(blocks);
  const auto meet = [&](int a, int b) {
    while (a != b) {
      int& later = number[at(a)] > number[at(b)] ? a : b;
      later = blocks[at(later)].dominator;
    }
    return a;
  };
  blocks[0].dominator = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (const int block : order) {
      if (block == 0) continue;
      int best = kNone;
      for (const int from : before[at(block)]) {
        if (blocks[at(from)].dominator == kNone) continue;
        best = best == kNone ? from : meet(best, from);
      }
      changed = changed || best != blocks[at(block)].dominator;
      blocks[at(block)].dominator = best;
    }
  }
  blocks[0].dominator = kNone;
}

bool dominates(const std::vector<Block>& blocks, int above, int block) {
  while (block != above && block != kNone) block = blocks[at(block)].dominator;
  return block == above;
}

void add_to_loop(Loop& loop, int latch, const std::vector<std::vector<int>>& before) {
  std::vector<int> open = {latch};
  while (!open.empty()) {
    const int block = open.back();
    open.pop_back();
    if (loop.contains(block)) continue;
    loop.blocks[at(block)] = true;
    open.insert(open.end(), before[at(block)].begin(), before[at(block)].end());
  }
}

std::vector<Loop> loops_of(const std::vector<Block>& blocks) {
  const auto before = before_each(blocks);
  std::map<int, Loop> by_header;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i != 0 && blocks[i].dominator == kNone) continue;  // nothing leads there
    for (const int to : blocks[i].next) {
      if (!dominates(blocks, to, static_cast<int>(i))) continue;
      Loop& loop = by_header[to];
      if (loop.blocks.empty()) {
        loop.header = to;
        loop.blocks.assign(blocks.size(), false);
        loop.blocks[at(to)] = true;
      }
      add_to_loop(loop, static_cast<int>(i), before);
    }
  }
  std::vector<Loop> out;
  for (auto& [header, loop] : by_header) out.push_back(std::move(loop));
  const auto size = [](const Loop& loop) { return std::count(loop.blocks.begin(), loop.blocks.end(), true); };
  std::stable_sort(out.begin(), out.end(), [&](const Loop& a, const Loop& b) { return size(a) < size(b); });
  return out;
}

}  // namespace

bool depends_on_operand(const Instruction& branch) {
  return std::any_of(branch.operands.begin(), branch.operands.end(), [](const Operand& operand) {
    const bool predicate = operand.kind == Operand::Kind::predicate || operand.kind == Operand::Kind::uniform_predicate;
    return predicate && (operand.number != kTrue || operand.inverted);
  });
}

Flow flow_of(const Code& code) {
  Flow out;
  if (code.instructions.empty()) return out;
  out.blocks = blocks_of(code.instructions);
  find_dominators(out.blocks);
  out.loops = loops_of(out.blocks);
  for (std::size_t i = 0; i < out.loops.size(); ++i) {
    for (std::size_t j = i + 1; j < out.loops.size() && out.loops[i].parent == kNone; ++j) {
      if (out.loops[j].contains(out.loops[i].header)) out.loops[i].parent = static_cast<int>(j);
    }
    for (std::size_t b = 0; b < out.blocks.size(); ++b) {
      if (out.loops[i].blocks[b] && out.blocks[b].loop == kNone) out.blocks[b].loop = static_cast<int>(i);
    }
  }
  return out;
}

int Flow::block_at(int instruction) const {
  const auto found = std::upper_bound(blocks.begin(), blocks.end(), instruction,
                                      [](int wanted, const Block& block) { return wanted < block.first; });
  return static_cast<int>(found - blocks.begin()) - 1;
}

bool Flow::encloses(int loop, int inner) const {
  while (inner != loop && inner != kNone) inner = loops[at(inner)].parent;
  return inner == loop;
}

}  // namespace weft::sass
