#pragma once

#include "laboratory/sass/listing.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

/// Listings as nvdisasm prints them, made of instructions and what the scheduler shall be told.
namespace weft::sass {

struct Line {
  std::string text;  ///< without a semicolon; `.L_1:` on its own is a label
  Control control = {.stall = 1};
};

inline Control stalls(int clocks) { return {.stall = clocks}; }

inline std::uint64_t encoded(const Control& control) {
  constexpr int kNoBarrier = 7;
  const auto number = [](int barrier) { return static_cast<std::uint64_t>(barrier == kNone ? kNoBarrier : barrier); };
  return static_cast<std::uint64_t>(control.stall) | std::uint64_t{!control.yields} << 4 |
         number(control.write_barrier) << 5 | number(control.read_barrier) << 8 |
         static_cast<std::uint64_t>(control.waits) << 11 | static_cast<std::uint64_t>(control.reuse) << 17;
}

/// Maxwell's layout: a control word before every three instructions. Pairs stand in braces, the second one's encoding
/// in a line of its own.
inline std::string listing(const std::vector<Line>& lines, const std::string& name = "kernel") {
  constexpr int kGroup = 3;
  std::vector<Line> code;
  for (const Line& line : lines) {
    if (!line.text.ends_with(':')) code.push_back(line);
  }
  while (code.size() % kGroup != 0) code.push_back({"NOP"});
  std::string out = fmt::format(
      "//---- .text.{0} ----\n\t.section\t.text.{0},\"ax\",@progbits\n"
      "\t.sectionflags\t@\"SHF_BARRIERS=1\"\n\t.sectioninfo\t@\"SHI_REGISTERS=32\"\n"
      "{0}:\n.text.{0}:\n",
      name);
  std::size_t index = 0;
  bool paired = false;
  const auto add = [&](const Line& line) {
    if (index % kGroup == 0) {
      std::uint64_t word = 0;
      for (int i = kGroup - 1; i >= 0; --i)
        word = word << 21 | encoded(code[index + static_cast<std::size_t>(i)].control);
      out += fmt::format("{:>90}/* 0x{:016x} */\n", "", word);
    }
    const bool opens = line.control.stall == 0 && !paired;
    const auto address = index / kGroup * 0x20 + (index % kGroup + 1) * 8;
    out +=
        fmt::format("        /*{:04x}*/         {} {} {}", address, opens ? '{' : ' ', line.text, paired ? '}' : ';');
    out += fmt::format("{}/* 0x{:016x} */\n", paired ? "\n        " : "  ", 0x5980000000000000ULL + index);
    paired = opens;
    ++index;
  };
  for (const Line& line : lines) {
    if (line.text.ends_with(':')) {
      out += line.text + "\n";
    } else {
      add(line);
    }
  }
  while (index < code.size()) add(code[index]);
  return out;
}

inline Code assembled(const std::vector<Line>& lines) {
  auto out = parse_listing(listing(lines));
  EXPECT_TRUE(out.ok()) << (out.ok() ? "" : out.error().message);
  return out.ok() ? std::move(out->front()) : Code{};
}

}  // namespace weft::sass
