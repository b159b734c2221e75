#include "laboratory/sass/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace weft::sass {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// More than this beside the products that are asked for is padding, as of 80 columns to 96; less than this short of
/// them is another way than the one that was meant.
constexpr double kShort = 0.99, kPadded = 1.7;

struct Subject {
  const Code* code = nullptr;
  Flow flow;
  int loop = kNone;
  Path path;
};

/// Where the question tells how many products a round has, one loop of unknown rounds is no riddle.
KnownRounds fitted(const Subject& subject, const Question& question) {
  KnownRounds out = question.rounds;
  int open = kNone;
  double each = 0;
  for (const int loop : subject.path.guessed) {
    const auto path = hot_path(*subject.code, subject.flow, loop, out);
    const double products = path ? mix_of(*subject.code, path->trace).products : 0;
    if (products == 0) continue;
    if (open != kNone) return out;
    open = loop;
    each = products;
  }
  if (open == kNone || question.products == 0) return out;
  const double found = mix_of(*subject.code, subject.path.trace).products;
  const double rounds = (question.products - found) / each + subject.path.rounds[at(open)];
  const int header = subject.flow.blocks[at(subject.flow.loops[at(open)].header)].first;
  if (rounds >= 1) out[subject.code->instructions[at(header)].address] = static_cast<int>(std::lround(rounds));
  return out;
}

/// The kernel with the most products in its key loop, and a round of it.
Result<Subject> subject_of(const std::vector<Code>& codes, const Question& question) {
  Subject best;
  double most = 0;
  for (const Code& code : codes) {
    Subject subject{.code = &code, .flow = flow_of(code), .loop = kNone, .path = {}};
    subject.loop = main_loop(code, subject.flow, question.rounds);
    if (subject.loop == kNone) continue;
    WEFT_TRY(subject.path, hot_path(code, subject.flow, subject.loop, question.rounds));
    const double products = mix_of(code, subject.path.trace).products;
    if (products <= most) continue;
    most = products;
    best = std::move(subject);
  }
  if (best.loop == kNone) return user_error("no loop of the code adds products");
  return best;
}

int depth_of(const Flow& flow, int loop, int top) {
  int depth = 0;
  for (; loop != top; loop = flow.loops[at(loop)].parent) ++depth;
  return depth;
}

LoopReport report_on_loop(const Subject& subject, int loop, const std::vector<int>& trace, const Question& question) {
  const Code& code = *subject.code;
  const Flow& flow = subject.flow;
  const Loop& shape = flow.loops[at(loop)];
  LoopReport out;
  out.begin = code.instructions[at(flow.blocks[at(shape.header)].first)].address;
  for (int b = 0; b < static_cast<int>(flow.blocks.size()); ++b) {
    if (shape.contains(b)) out.end = std::max(out.end, code.instructions[at(flow.blocks[at(b)].last)].address);
  }
  out.depth = depth_of(flow, loop, subject.loop);
  const auto& guessed = subject.path.guessed;
  if (loop != subject.loop) out.rounds = subject.path.rounds[at(loop)];
  out.guessed = std::find(guessed.begin(), guessed.end(), loop) != guessed.end();
  out.mix = mix_of(code, trace);
  if (!code.wide) out.simulation = simulate(code, trace, question.launch, question.machine);
  return out;
}

/// Inner loops of the path, as they run.
std::vector<int> inner_loops(const Subject& subject) {
  std::vector<int> out;
  for (int loop = 0; loop < static_cast<int>(subject.flow.loops.size()); ++loop) {
    if (loop != subject.loop && subject.path.rounds[at(loop)] > 0) out.push_back(loop);
  }
  std::sort(out.begin(), out.end(),
            [&](int a, int b) { return subject.flow.loops[at(a)].header < subject.flow.loops[at(b)].header; });
  return out;
}

void judge(const Subject& subject, const Question& question, Report& out) {
  const double found = out.loops[0].mix.products;
  out.products = question.products > 0 ? question.products : found;
  const double share = found / out.products;
  out.trusted = share >= kShort && share <= kPadded;
  if (!out.trusted) {
    out.products = found;
    out.assumed.push_back(
        fmt::format("a round has {:.0f} products of a thread, {:.0f} were expected: it may be "
                    "another way than the usual one",
                    found, question.products));
  }
  for (const int loop : subject.path.guessed) {
    const int header = subject.flow.blocks[at(subject.flow.loops[at(loop)].header)].first;
    out.assumed.push_back(fmt::format("{} rounds of the loop at {:#x}", subject.path.rounds[at(loop)],
                                      subject.code->instructions[at(header)].address));
  }
  if (subject.path.preferred > 0) {
    out.assumed.push_back(fmt::format("{} branches of a round go where most is multiplied and least else is done",
                                      subject.path.preferred));
  }
  if (subject.code->wide) return;
  out.assumed.push_back(fmt::format(
      "{} blocks of {} warps an SM; {}; no time for fetching instructions, L2 and DRAM", question.launch.blocks,
      question.launch.warps,
      question.machine.lane_pairs ? "wide loads of shared memory find lanes in pairs" : "no two lanes load the same"));
}

}  // namespace

Result<Report> report_on(const std::vector<Code>& codes, const Question& question) {
  WEFT_TRY(Subject subject, subject_of(codes, question));
  const KnownRounds rounds = fitted(subject, question);
  if (rounds != question.rounds) {
    WEFT_TRY(subject.path, hot_path(*subject.code, subject.flow, subject.loop, rounds));
  }
  Report out;
  out.kernel = subject.code->name;
  out.loops.push_back(report_on_loop(subject, subject.loop, subject.path.trace, question));
  for (const int loop : inner_loops(subject)) {
    WEFT_TRY(const Path path, hot_path(*subject.code, subject.flow, loop, rounds));
    out.loops.push_back(report_on_loop(subject, loop, path.trace, question));
  }
  judge(subject, question, out);
  if (const auto& whole = out.loops[0].simulation; whole && whole->clocks_per_round > 0) {
    out.share_of_peak = whole->product_share * out.products / out.loops[0].mix.products;
    out.clocks_per_block = out.products * question.launch.warps / (*out.share_of_peak * question.machine.schedulers);
  }
  return out;
}

namespace {

std::string mix_text(const Mix& mix) {
  std::string out =
      fmt::format("{:.0f} instructions, {:.0f} of them products", mix.instructions, mix.product_instructions);
  for (std::size_t i = 0; i < kUnits; ++i) {
    const auto unit = static_cast<Unit>(i);
    const double count = mix.of(unit);
    if (count > 0) out += fmt::format(", {:.0f} {}", count, to_string(unit));
  }
  return out;
}

std::string simulation_text(const Simulation& run) {
  std::string out =
      fmt::format("{:.0f} clocks; products in {:.3f} of all slots", run.clocks_per_round, run.product_share);
  for (std::size_t i = 1; i < kSlots; ++i) {
    const auto slot = static_cast<Slot>(i);
    if (run.of(slot) >= 0.0005) out += fmt::format(", {:.1f} % {}", 100 * run.of(slot), to_string(slot));
  }
  return out;
}

}  // namespace

std::string to_text(const Report& report, const Launch& launch, const std::string& indent) {
  std::string out;
  for (const LoopReport& loop : report.loops) {
    const std::string deeper = indent + std::string(at(2 * loop.depth), ' ');
    const std::string rounds =
        loop.depth == 0 ? "key loop" : fmt::format("{} rounds{}", loop.rounds, loop.guessed ? " (guessed)" : "");
    out += fmt::format("{}{:#x}..{:#x}, {}\n", deeper, loop.begin, loop.end, rounds);
    out += fmt::format("{}  {}\n", deeper, mix_text(loop.mix));
    if (loop.mix.tensor_products > 0) {
      out += fmt::format("{}  tensor cores do {:.1f} % of the products, in {:.1f} % of the instructions\n", deeper,
                         100 * loop.mix.tensor_products / loop.mix.products,
                         100 * loop.mix.of(Unit::tensor) / loop.mix.instructions);
    }
    if (!loop.simulation) continue;
    out += fmt::format("{}  issue slots: {:.3f} are products, {:.3f} with {:.0f} clocks of bank conflicts\n", deeper,
                       loop.mix.product_instructions / loop.mix.instructions,
                       loop.mix.product_instructions / (loop.mix.instructions + loop.mix.bank_conflicts),
                       loop.mix.bank_conflicts);
    out += fmt::format("{}  {}\n", deeper, simulation_text(*loop.simulation));
  }
  if (report.share_of_peak) {
    out += fmt::format("{}{:.0f} clocks a round of each of {} blocks: {:.3f} of the peak\n", indent,
                       report.clocks_per_block, launch.blocks, *report.share_of_peak);
  }
  for (const std::string& line : report.assumed) out += fmt::format("{}assumed: {}\n", indent, line);
  return out;
}

}  // namespace weft::sass
