#include "laboratory/sass/path.h"

#include "laboratory/sass/operands.h"
#include "laboratory/sass/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

namespace weft::sass {
namespace {

constexpr int kGuessedRounds = 8;
constexpr int kMostRounds = 4096;
constexpr std::size_t kLongestTrace = 1 << 20;
constexpr double kCostOfGlobal = 8;  // instructions that a load is worth where ways are compared

std::size_t at(int index) { return static_cast<std::size_t>(index); }

bool is_exponential(const Instruction& instruction) { return instruction.name() == "MUFU" && instruction.has("EX2"); }

double products_of(const Instruction& instruction) {
  return adds_product(instruction) ? 1 : tensor_products(instruction);
}

/// What a way through a loop has: more products are better, then more exponentials, as a softmax has them for every
/// product but a step that scales rows only a few; then less of the rest.
struct Worth {
  bool exists = false;
  double products = 0, exponentials = 0, rest = 0;

  bool operator<(const Worth& other) const {
    constexpr double kFew = 32;
    const double many = std::round(exponentials / kFew), other_many = std::round(other.exponentials / kFew);
    return std::tuple(exists, products, many, -rest) <
           std::tuple(other.exists, other.products, other_many, -other.rest);
  }
  Worth operator+(const Worth& other) const {
    return {exists && other.exists, products + other.products, exponentials + other.exponentials, rest + other.rest};
  }
  Worth times(double count) const { return {exists, products * count, exponentials * count, rest * count}; }
};

class Walker {
 public:
  Walker(const Code& code, const Flow& flow, const KnownRounds& known)
      : code_(code), flow_(flow), known_(known), rounds_(flow.loops.size()), worth_(flow.loops.size()) {}

  Result<Path> walk(int loop);
  Worth round_of(int loop) { return worth(loop, flow_.loops[at(loop)].header); }

 private:
  struct Rounds {
    int count = 0;  ///< 0: not looked at
    bool guessed = false;
  };
  struct Place {
    Values values;
    std::vector<int> passed;  ///< headers
    int preferred = 0;
  };

  const Instruction& last_of(int block) const { return code_.instructions[at(flow_.blocks[at(block)].last)]; }
  int innermost(int block) const { return flow_.blocks[at(block)].loop; }
  void execute(int block, Values& values) const;
  Worth of_block(int block) const;
  Worth worth(int loop, int block);
  Worth onwards(int loop, int node, bool is_loop);
  const Rounds& rounds(int loop);
  std::optional<int> count_rounds(int loop);
  std::optional<bool> decided(int block, const Values& values) const;
  int next(int block, Place& place, int within);
  int prefer(int block, const Place& place);
  int best_of(const std::vector<int>& blocks, int loop);

  const Code& code_;
  const Flow& flow_;
  const KnownRounds& known_;
  std::vector<Rounds> rounds_;
  std::vector<std::map<int, Worth>> worth_;  ///< of each loop: from a block on to the loop's end
};

void Walker::execute(int block, Values& values) const {
  for (int i = flow_.blocks[at(block)].first; i <= flow_.blocks[at(block)].last; ++i) {
    values.execute(code_.instructions[at(i)]);
  }
}

Worth Walker::of_block(int block) const {
  Worth out{.exists = true};
  for (int i = flow_.blocks[at(block)].first; i <= flow_.blocks[at(block)].last; ++i) {
    const Instruction& instruction = code_.instructions[at(i)];
    const Unit unit = unit_of(instruction);
    const double products = products_of(instruction);
    out.products += products;
    if (products == 0) {
      out.rest += unit == Unit::global || unit == Unit::local ? kCostOfGlobal : 1;
      out.exponentials += is_exponential(instruction) ? 1 : 0;
    }
  }
  return out;
}

/// The best of what follows a block, or all rounds of an inner loop, up to the end of the loop's round.
Worth Walker::onwards(int loop, int node, bool is_loop) {
  const Loop& around = flow_.loops[at(loop)];
  Worth best;
  for (int block = 0; block < static_cast<int>(flow_.blocks.size()); ++block) {
    if (is_loop ? !flow_.loops[at(node)].contains(block) : block != node) continue;
    for (const int to : flow_.blocks[at(block)].next) {
      if (is_loop && flow_.loops[at(node)].contains(to)) continue;
      const Worth way = to == around.header ? Worth{.exists = true} : around.contains(to) ? worth(loop, to) : Worth{};
      best = std::max(best, way);
    }
  }
  return best;
}

/// From the block on, which is in the loop or in one inside of it, to the end of the loop's round.
Worth Walker::worth(int loop, int block) {
  int inner = innermost(block);
  while (inner != loop && flow_.loops[at(inner)].parent != loop) inner = flow_.loops[at(inner)].parent;
  const bool is_loop = inner != loop;
  const int key = is_loop ? flow_.loops[at(inner)].header : block;
  // A way that comes back to itself without passing the header is none.
  const auto [entry, is_new] = worth_[at(loop)].try_emplace(key, Worth{});
  if (!is_new) return entry->second;
  const Worth here = is_loop ? round_of(inner).times(rounds(inner).count) : of_block(block);
  return worth_[at(loop)][key] = here + onwards(loop, is_loop ? inner : block, is_loop);
}

const Walker::Rounds& Walker::rounds(int loop) {
  Rounds& out = rounds_[at(loop)];
  if (out.count > 0) return out;
  const int address = code_.instructions[at(flow_.blocks[at(flow_.loops[at(loop)].header)].first)].address;
  if (const auto given = known_.find(address); given != known_.end()) {
    out = {.count = given->second};
  } else {
    const auto counted = count_rounds(loop);
    rounds_[at(loop)] = {.count = counted.value_or(kGuessedRounds), .guessed = !counted};
  }
  return rounds_[at(loop)];
}

/// Runs the loop behind the code that leads to it, with nothing known before. No value where what ends it is not known.
std::optional<int> Walker::count_rounds(int loop) {
  constexpr int kBlocksBefore = 4;
  const Loop& counted = flow_.loops[at(loop)];
  std::vector<int> before;
  for (int block = flow_.blocks[at(counted.header)].dominator; block != kNone && before.size() < kBlocksBefore;
       block = flow_.blocks[at(block)].dominator) {
    before.push_back(block);
  }
  Place place{.values = {}, .passed = std::vector<int>(flow_.loops.size(), 0)};
  std::reverse(before.begin(), before.end());
  for (const int block : before) execute(block, place.values);
  bool decides = false;  // did a known value keep the loop going in this round?
  std::size_t steps = 0;
  for (int block = counted.header; steps++ < kLongestTrace;) {
    if (block == counted.header) {
      if (place.passed[at(loop)] > 0 && !decides) return std::nullopt;
      if (++place.passed[at(loop)] > kMostRounds) return std::nullopt;
      decides = false;
    } else if (const int inner = innermost(block); flow_.loops[at(inner)].header == block) {
      ++place.passed[at(inner)];
    }
    execute(block, place.values);
    const bool can_leave = std::any_of(flow_.blocks[at(block)].next.begin(), flow_.blocks[at(block)].next.end(),
                                       [&](int to) { return !counted.contains(to); });
    const bool known = decided(block, place.values).has_value();
    decides = decides || (can_leave && known);
    block = next(block, place, loop);
    if (block == kNone) return std::nullopt;
    if (!counted.contains(block)) return known ? std::optional(place.passed[at(loop)]) : std::nullopt;
  }
  return std::nullopt;
}

/// Is the block's branch taken?
std::optional<bool> Walker::decided(int block, const Values& values) const {
  const Instruction& last = last_of(block);
  if (flow_.blocks[at(block)].next.size() != 2 || !last.is_conditional() || depends_on_operand(last) ||
      last.targets.size() != 1)
    return std::nullopt;
  return values.guard(last);
}

int Walker::next(int block, Place& place, int within) {
  const std::vector<int>& ways = flow_.blocks[at(block)].next;
  if (ways.empty()) return kNone;
  if (ways.size() == 1) return ways[0];
  if (const auto taken = decided(block, place.values)) return ways[*taken ? 1 : 0];
  ++place.preferred;
  const Loop& top = flow_.loops[at(within)];
  std::vector<int> inside;
  std::copy_if(ways.begin(), ways.end(), std::back_inserter(inside), [&](int to) { return top.contains(to); });
  if (inside.empty()) return kNone;
  const int way = inside.size() == 1 ? inside[0] : prefer(block, place);
  // What is asked again further on has the same answer.
  if (ways.size() == 2) place.values.assume(last_of(block), way == ways[1]);
  return way;
}

/// Where several ways stay inside: rounds still to come first, then what is worth most.
int Walker::prefer(int block, const Place& place) {
  const std::vector<int>& ways = flow_.blocks[at(block)].next;
  const int loop = innermost(block);
  const Loop& around = flow_.loops[at(loop)];
  std::vector<int> stay, leave;
  for (const int to : ways) {
    const bool stays = around.contains(to);
    (stays ? stay : leave).push_back(to);
  }
  if (leave.empty()) return best_of(stay, loop);
  const int passed = place.passed[at(loop)], wanted = rounds(loop).count;
  const bool at_end = std::find(stay.begin(), stay.end(), around.header) != stay.end();
  if (stay.empty() || (at_end ? passed >= wanted : passed > wanted)) return best_of(leave, around.parent);
  return best_of(stay, loop);
}

int Walker::best_of(const std::vector<int>& blocks, int loop) {
  const auto worth_here = [&](int block) {
    if (loop == kNone || !flow_.loops[at(loop)].contains(block)) return Worth{};
    return block == flow_.loops[at(loop)].header ? Worth{.exists = true} : worth(loop, block);
  };
  return *std::max_element(blocks.begin(), blocks.end(), [&](int a, int b) { return worth_here(a) < worth_here(b); });
}

Result<Path> Walker::walk(int loop) {
  const Loop& top = flow_.loops[at(loop)];
  const auto address = [&] { return code_.instructions[at(flow_.blocks[at(top.header)].first)].address; };
  Place place{.values = {}, .passed = std::vector<int>(flow_.loops.size(), 0)};
  Path out;
  int block = top.header;
  do {
    if (const int inner = innermost(block); flow_.loops[at(inner)].header == block) ++place.passed[at(inner)];
    for (int i = flow_.blocks[at(block)].first; i <= flow_.blocks[at(block)].last; ++i) {
      place.values.execute(code_.instructions[at(i)]);
      out.trace.push_back(i);
    }
    block = next(block, place, loop);
    if (block == kNone || !top.contains(block)) {
      return user_error(fmt::format("the loop at {:#x} of {} has no way back to its beginning", address(), code_.name));
    }
  } while (block != top.header && out.trace.size() < kLongestTrace);
  if (block != top.header) {
    return user_error(fmt::format("a round of the loop at {:#x} of {} does not end", address(), code_.name));
  }
  out.rounds = place.passed;
  out.preferred = place.preferred;
  for (std::size_t i = 0; i < flow_.loops.size(); ++i) {
    if (static_cast<int>(i) != loop && out.rounds[i] > 0 && rounds(static_cast<int>(i)).guessed) {
      out.guessed.push_back(static_cast<int>(i));
    }
  }
  return out;
}

bool has_exponential(const Code& code, const std::vector<int>& trace) {
  return std::any_of(trace.begin(), trace.end(), [&](int i) { return is_exponential(code.instructions[at(i)]); });
}

}  // namespace

Result<Path> hot_path(const Code& code, const Flow& flow, int loop, const KnownRounds& known) {
  return Walker(code, flow, known).walk(loop);
}

int main_loop(const Code& code, const Flow& flow, const KnownRounds& known) {
  constexpr double kOfInnerLoop = 0.1;
  struct Candidate {
    int loop = kNone;
    double products = 0;
  };
  Walker walker(code, flow, known);
  Candidate with, without;
  for (int loop = 0; loop < static_cast<int>(flow.loops.size()); ++loop) {  // inner ones come first
    const Worth round = walker.round_of(loop);
    if (!round.exists || round.products == 0) continue;
    const auto path = walker.walk(loop);
    if (!path) continue;
    const double products = mix_of(code, path->trace).products;
    Candidate& best = has_exponential(code, path->trace) ? with : without;
    // What a loop adds to the one inside of it has to be worth the name: scores may multiply in loops of their own.
    const bool is_around = best.loop != kNone && flow.encloses(loop, best.loop);
    const double inside = is_around ? best.products * path->rounds[at(best.loop)] : 0;
    if (products > best.products && inside < kOfInnerLoop * products) best = {loop, products};
  }
  return with.products >= without.products ? with.loop : with.loop == kNone ? without.loop : with.loop;
}

Mix mix_of(const Code& code, const std::vector<int>& trace) {
  Mix out;
  Collector collector;
  for (const int i : trace) {
    const Instruction& instruction = code.instructions[at(i)];
    ++out.by_unit[static_cast<std::size_t>(unit_of(instruction))];
    ++out.instructions;
    out.products += products_of(instruction);
    out.tensor_products += tensor_products(instruction);
    out.product_instructions += products_of(instruction) > 0 ? 1 : 0;
    if (reads_banks(unit_of(instruction))) out.bank_conflicts += collector.conflicts(instruction);
  }
  return out;
}

}  // namespace weft::sass
