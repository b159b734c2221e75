/// What the performance model says of a kernel: `weft-sass CUBIN|LISTING [--target sm_61] [--blocks N] [--warps N]`.

#include "laboratory/sass/listing.h"
#include "laboratory/sass/report.h"
#include "runtime/nvrtc/disassemble.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace weft::bench {
namespace {

struct Arguments {
  std::string file, target = "sm_61";
  sass::Question asked;
};

int number(const std::string& text, int base = 10) {
  int out = 0;
  std::from_chars(text.data(), text.data() + text.size(), out, base);
  return out;
}

bool parse(int count, char** words, Arguments& out) {
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto value = [&]() -> std::string { return i + 1 < count ? words[++i] : ""; };
    if (word == "--target") {
      out.target = value();
    } else if (word == "--blocks") {
      out.asked.launch.blocks = std::max(1, number(value()));
    } else if (word == "--warps") {
      out.asked.launch.warps = std::max(1, number(value()));
    } else if (word == "--products") {
      out.asked.products = number(value());
    } else if (word == "--no-conflicts") {
      out.asked.machine.bank_conflicts = false;
    } else if (word == "--no-lane-pairs") {
      out.asked.machine.lane_pairs = false;
    } else if (word == "--worst") {
      out.asked.machine.lane_pairs = false;
      out.asked.machine.store_conflicts = 2;
      out.asked.machine.barrier_latency = 60;
      out.asked.machine.global_latency = 600;
      out.asked.machine.shared_latency = 34;
      out.asked.machine.fence_latency = 30;
      out.asked.machine.unyielded_stall = 6;
    } else if (word == "--rounds") {  // ADDRESS=COUNT
      const std::string text = value();
      const auto equals = std::min(text.find('='), text.size());
      out.asked
          .rounds[number(text.substr(text.starts_with("0x") ? 2 : 0, equals - (text.starts_with("0x") ? 2 : 0)), 16)] =
          number(text.substr(std::min(equals + 1, text.size())));
    } else if (out.file.empty() && !word.starts_with("--")) {
      out.file = word;
    } else {
      return false;
    }
  }
  return !out.file.empty();
}

Result<std::string> listing_of(const Arguments& question) {
  std::ifstream in(question.file, std::ios::binary);
  if (!in) return user_error("cannot read " + question.file);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  if (!bytes.starts_with("\x7f"
                         "ELF"))
    return bytes;
  WEFT_TRY(const Target target, find_target(question.target));
  return nvrtc::disassemble(bytes, target, nvrtc::Encodings::shown);
}

int run(int count, char** words) {
  Arguments question;
  if (!parse(count, words, question)) {
    fmt::print(stderr,
               "usage: weft-sass CUBIN|LISTING [--target sm_61] [--blocks N] [--warps N] [--no-conflicts] "
               "[--no-lane-pairs] [--worst] [--products N] [--rounds ADDRESS=N]...\n");
    return 2;
  }
  const auto text = listing_of(question);
  const auto codes = text ? sass::parse_listing(*text) : Result<std::vector<sass::Code>>(text.error());
  if (!codes) {
    fmt::print(stderr, "weft-sass: {}\n", codes.error().message);
    for (const std::string& note : codes.error().notes) fmt::print(stderr, "  {}\n", note);
    return 1;
  }
  const auto report = sass::report_on(*codes, question.asked);
  if (!report) {
    fmt::print(stderr, "weft-sass: {}\n", report.error().message);
    return 1;
  }
  fmt::print("{}\n{}", report->kernel, sass::to_text(*report, question.asked.launch, "  "));
  return 0;
}

}  // namespace
}  // namespace weft::bench

int main(int count, char** words) { return weft::bench::run(count, words); }
