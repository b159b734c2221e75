/// What the performance model says of a kernel: `weft-sass CUBIN|LISTING [--target sm_61] [--blocks N] [--warps N]`.

#include "runtime/nvrtc/disassemble.h"
#include "runtime/sass/listing.h"
#include "runtime/sass/path.h"
#include "runtime/sass/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace weft::bench {
namespace {

struct Question {
  std::string file, target = "sm_61";
  sass::Launch launch;
  sass::Machine machine;
  sass::KnownRounds rounds;
};

int number(const std::string& text, int base = 10) {
  int out = 0;
  std::from_chars(text.data(), text.data() + text.size(), out, base);
  return out;
}

bool parse(int count, char** words, Question& out) {
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto value = [&]() -> std::string { return i + 1 < count ? words[++i] : ""; };
    if (word == "--target") {
      out.target = value();
    } else if (word == "--blocks") {
      out.launch.blocks = std::max(1, number(value()));
    } else if (word == "--warps") {
      out.launch.warps = std::max(1, number(value()));
    } else if (word == "--no-conflicts") {
      out.machine.bank_conflicts = false;
    } else if (word == "--no-lane-pairs") {
      out.machine.lane_pairs = false;
    } else if (word == "--worst") {
      out.machine.lane_pairs = false;
      out.machine.store_conflicts = 2;
      out.machine.barrier_latency = 60;
      out.machine.global_latency = 600;
      out.machine.shared_latency = 34;
      out.machine.fence_latency = 30;
      out.machine.unyielded_stall = 6;
    } else if (word == "--rounds") {  // ADDRESS=COUNT
      const std::string text = value();
      const auto equals = std::min(text.find('='), text.size());
      out.rounds[number(text.substr(text.starts_with("0x") ? 2 : 0, equals - (text.starts_with("0x") ? 2 : 0)), 16)] =
          number(text.substr(std::min(equals + 1, text.size())));
    } else if (out.file.empty() && !word.starts_with("--")) {
      out.file = word;
    } else {
      return false;
    }
  }
  return !out.file.empty();
}

Result<std::string> listing_of(const Question& question) {
  std::ifstream in(question.file, std::ios::binary);
  if (!in) return user_error("cannot read " + question.file);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  if (!bytes.starts_with("\x7f"
                         "ELF"))
    return bytes;
  WEFT_TRY(const Target target, find_target(question.target));
  return nvrtc::disassemble(bytes, target, nvrtc::Encodings::shown);
}

void print_mix(const sass::Mix& mix) {
  fmt::print("    {:.0f} instructions: {:.0f} products", mix.instructions, mix.products);
  for (std::size_t i = 0; i < sass::kUnits; ++i) {
    const auto unit = static_cast<sass::Unit>(i);
    const double count = mix.of(unit) - (unit == sass::Unit::math ? mix.products : 0);
    if (count > 0) fmt::print(", {:.0f} {}", count, sass::to_string(unit));
  }
  fmt::print("\n    issue slots: {:.3f} are products, {:.3f} with {:.0f} clocks of bank conflicts\n",
             mix.products / mix.instructions, mix.products / (mix.instructions + mix.bank_conflicts),
             mix.bank_conflicts);
}

void print_simulation(const sass::Simulation& run, const Question& question) {
  fmt::print("    {} blocks of {} warps: {:.0f} clocks a round, products in {:.3f} of all slots\n   ",
             question.launch.blocks, question.launch.warps, run.clocks_per_round, run.product_share);
  for (std::size_t i = 1; i < sass::kSlots; ++i) {
    const auto slot = static_cast<sass::Slot>(i);
    if (run.of(slot) >= 0.0005) fmt::print(" {:.1f} % {},", 100 * run.of(slot), sass::to_string(slot));
  }
  fmt::print(" {:.3f} instructions a clock\n", run.issued_per_clock);
}

void print_loop(const sass::Code& code, const sass::Flow& flow, const sass::Path& around, int loop, bool is_main,
                const Question& question) {
  const auto address = [&](int block, bool end) {
    const auto& b = flow.blocks[static_cast<std::size_t>(block)];
    return code.instructions[static_cast<std::size_t>(end ? b.last : b.first)].address;
  };
  int last = flow.loops[static_cast<std::size_t>(loop)].header;
  for (int b = 0; b < static_cast<int>(flow.blocks.size()); ++b) {
    if (flow.loops[static_cast<std::size_t>(loop)].contains(b)) last = std::max(last, b);
  }
  const bool guessed = std::find(around.guessed.begin(), around.guessed.end(), loop) != around.guessed.end();
  fmt::print("  {} {:#x}..{:#x}", is_main ? "main loop" : "inner loop",
             address(flow.loops[static_cast<std::size_t>(loop)].header, false), address(last, true));
  if (!is_main) fmt::print(", {} rounds{}", around.rounds[static_cast<std::size_t>(loop)], guessed ? " (guessed)" : "");
  fmt::print("\n");
  const auto path = hot_path(code, flow, loop, question.rounds);
  if (!path) return fmt::print("    {}\n", path.error().message);
  print_mix(mix_of(code, path->trace));
  print_simulation(simulate(code, path->trace, question.launch, question.machine), question);
}

void print_code(const sass::Code& code, const Question& question) {
  const sass::Flow flow = flow_of(code);
  const int main = main_loop(code, flow, question.rounds);
  fmt::print("{}: {} instructions, {} registers, {} loops\n", code.name, code.instructions.size(), code.registers,
             flow.loops.size());
  if (main == sass::kNone) return fmt::print("  no loop multiplies\n");
  const auto path = hot_path(code, flow, main, question.rounds);
  if (!path) return fmt::print("  {}\n", path.error().message);
  for (int loop = 0; loop < main; ++loop) {
    if (path->rounds[static_cast<std::size_t>(loop)] > 0) print_loop(code, flow, *path, loop, false, question);
  }
  print_loop(code, flow, *path, main, true, question);
  fmt::print("    {} branches of the path follow from no known value\n", path->preferred);
}

int run(int count, char** words) {
  Question question;
  if (!parse(count, words, question)) {
    fmt::print(stderr,
               "usage: weft-sass CUBIN|LISTING [--target sm_61] [--blocks N] [--warps N] [--no-conflicts] "
               "[--no-lane-pairs] [--worst] [--rounds ADDRESS=N]...\n");
    return 2;
  }
  const auto text = listing_of(question);
  const auto codes = text ? sass::parse_listing(*text) : Result<std::vector<sass::Code>>(text.error());
  if (!codes) {
    fmt::print(stderr, "weft-sass: {}\n", codes.error().message);
    for (const std::string& note : codes.error().notes) fmt::print(stderr, "  {}\n", note);
    return 1;
  }
  for (const sass::Code& code : *codes) print_code(code, question);
  return 0;
}

}  // namespace
}  // namespace weft::bench

int main(int count, char** words) { return weft::bench::run(count, words); }
