#include "laboratory/sass/listing.h"

#include "laboratory/sass/operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

namespace weft::sass {
namespace {

constexpr int kNarrowBytes = 8;
constexpr std::string_view kBlank = " \t\r";

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::optional<std::uint64_t> hexadecimal(std::string_view text) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  std::uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Takes a comment from the text's front: what stands between its marks.
std::optional<std::string_view> take_comment(std::string_view& text) {
  if (!text.starts_with("/*")) return std::nullopt;
  const auto end = text.find("*/");
  if (end == std::string_view::npos) return std::nullopt;
  const auto out = trimmed(text.substr(2, end - 2));
  text = trimmed(text.substr(end + 2));
  return out;
}

/// Takes the encoding from the text's end.
std::optional<std::uint64_t> take_encoding(std::string_view& text) {
  const auto begin = text.rfind("/*");
  if (!text.ends_with("*/") || begin == std::string_view::npos) return std::nullopt;
  std::string_view comment = text.substr(begin);
  const auto value = hexadecimal(*take_comment(comment));
  if (value) text = trimmed(text.substr(0, begin));
  return value;
}

/// One section on its way: jumps name places that may stand further down.
struct Section {
  Code code;
  std::map<std::string, int, std::less<>> labels;   ///< name -> index of the instruction behind it
  std::vector<std::vector<std::string>> jumps;      ///< of each instruction: names, or addresses in hexadecimal
  std::vector<std::optional<std::uint64_t>> words;  ///< narrow: the control word before it; wide: its second word
  std::optional<std::uint64_t> control_word;        ///< narrow: the last one
  bool second_of_pair = false;                      ///< its encoding stands in the next line
};

/// Volta's BSYNC names a register, not a place: the place is what the last BSSY on that register said.
void find_meeting_places(std::vector<Instruction>& code) {
  std::map<std::string, std::vector<int>> places;
  for (Instruction& instruction : code) {
    if (instruction.name() == "BSSY") {
      places[instruction.meeting] = instruction.targets;
    } else if (instruction.name() == "BSYNC" && instruction.targets.empty()) {
      const auto found = places.find(instruction.meeting);
      if (found != places.end()) instruction.targets = found->second;
    }
  }
}

Result<Code> finish(Section section) {
  Code& code = section.code;
  std::map<int, int> at;
  for (std::size_t i = 0; i < code.instructions.size(); ++i) {
    at.emplace(code.instructions[i].address, static_cast<int>(i));
  }
  for (std::size_t i = 0; i < code.instructions.size(); ++i) {
    Instruction& instruction = code.instructions[i];
    if (!section.words[i]) {
      return user_error(
          fmt::format("the listing has no encoding for {:#x} of {}: nvdisasm prints it with "
                      "--print-instruction-encoding",
                      instruction.address, code.name));
    }
    const int position = instruction.address / kNarrowBytes % 4 - 1;
    instruction.control = decode_control(*section.words[i] >> (code.wide ? 41 : 21 * std::max(position, 0)));
    for (const std::string& name : section.jumps[i]) {
      const auto label = section.labels.find(name);
      const auto address = hexadecimal(name);
      const auto place = address ? at.find(static_cast<int>(*address)) : at.end();
      if (label != section.labels.end()) {
        instruction.targets.push_back(label->second);
      } else if (place != at.end()) {
        instruction.targets.push_back(place->second);
      }
    }
  }
  find_meeting_places(code.instructions);
  return std::move(code);
}

/// `Rd, Ra`, without commas inside brackets.
std::vector<std::string_view> split_operands(std::string_view text) {
  std::vector<std::string_view> out;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    depth += (c == '[' || c == '(') - (c == ']' || c == ')');
    if (c != ',' || (depth > 0 && i < text.size())) continue;
    if (const auto part = trimmed(text.substr(begin, i - begin)); !part.empty()) out.push_back(part);
    begin = i + 1;
  }
  return out;
}

/// Names between the marks that nvdisasm puts around places, and the targets it found for a SYNC.
std::vector<std::string> jumps_of(std::string_view text) {
  std::vector<std::string> out;
  constexpr std::string_view kAnnotation = "BRANCH_TARGETS";
  if (const auto found = text.find(kAnnotation); found != std::string_view::npos) {
    std::string_view rest = text.substr(found + kAnnotation.size());
    rest = rest.substr(0, rest.find('"'));
    while (!(rest = trimmed(rest)).empty()) {
      const auto end = rest.find_first_of(" ,");
      out.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(rest.size(), std::min(rest.size(), end) + 1));
    }
    return out;
  }
  if (const auto open = text.find("`("); open != std::string_view::npos) {
    out.emplace_back(text.substr(open + 2, text.find(')', open) - open - 2));
  }
  return out;
}

bool jumps_to_a_number(std::string_view name) {
  constexpr std::string_view kJumps[] = {"BRA", "SSY", "PBK", "PCNT", "BSSY", "JMP"};
  return std::find(std::begin(kJumps), std::end(kJumps), name) != std::end(kJumps);
}

/// `@!P0 BRA ...` without braces, semicolon and encoding.
void add_instruction(Section& section, int address, std::string_view text) {
  Instruction out;
  out.address = address;
  std::vector<std::string> jumps = jumps_of(text);
  // Behind the operands: targets that nvdisasm found; from Blackwell on also what control says.
  for (const std::string_view mark : {"(*", " &", " ?"}) text = trimmed(text.substr(0, text.find(mark)));
  if (text.starts_with('@')) {
    const auto end = std::min(text.find_first_of(kBlank), text.size());
    const Operand guard = parse_operand(text.substr(1, end - 1));
    out.guard = guard.number;
    out.guard_inverted = guard.inverted;
    out.guard_uniform = guard.kind == Operand::Kind::uniform_predicate;
    text = trimmed(text.substr(end));
  }
  const auto end = std::min(text.find_first_of(kBlank), text.size());
  out.opcode = std::string(text.substr(0, end));
  for (const std::string_view part : split_operands(text.substr(end))) {
    out.operands.push_back(parse_operand(part));
    if (part.front() == 'B' && out.meeting.empty()) out.meeting = std::string(part);
    if (jumps.empty() && part.starts_with("0x") && jumps_to_a_number(out.name())) jumps.emplace_back(part);
  }
  section.code.instructions.push_back(std::move(out));
  section.jumps.push_back(std::move(jumps));
}

/// A line that is nothing but an encoding.
void add_word(Section& section, std::uint64_t word) {
  if (std::exchange(section.second_of_pair, false)) return;
  if (section.code.wide && !section.words.empty()) {
    section.words.back() = word;
  } else {
    section.control_word = word;
  }
}

Status add_line(Section& section, std::string_view line) {
  auto encoding = take_encoding(line);
  if (line.empty() && encoding) {
    add_word(section, *encoding);
    return done;
  }
  const auto place = take_comment(line);
  const auto address = place ? hexadecimal(*place) : std::nullopt;
  if (!address) return done;
  if (section.code.instructions.empty()) section.code.wide = *address % (2 * kNarrowBytes) == 0;
  if (line.starts_with('{')) line = trimmed(line.substr(1));
  section.second_of_pair = !encoding;
  if (const auto end = line.find_last_of(";}"); end != std::string_view::npos) line = trimmed(line.substr(0, end));
  if (line.empty()) return user_error(fmt::format("the listing has no instruction at {:#x}", *address));
  add_instruction(section, static_cast<int>(*address), line);
  section.words.push_back(section.code.wide ? std::nullopt : section.control_word);
  return done;
}

int number_behind(std::string_view line, std::string_view mark) {
  const auto found = line.find(mark);
  int out = 0;
  if (found == std::string_view::npos) return out;
  std::from_chars(line.data() + found + mark.size(), line.data() + line.size(), out);
  return out;
}

}  // namespace

Control decode_control(std::uint64_t bits) {
  constexpr int kNoBarrier = 7;
  const auto field = [&](int from, int width) { return static_cast<int>(bits >> from & ((1U << width) - 1)); };
  const auto barrier = [&](int from) { return field(from, 3) == kNoBarrier ? kNone : field(from, 3); };
  return {.stall = field(0, 4),
          .yields = field(4, 1) == 0,
          .write_barrier = barrier(5),
          .read_barrier = barrier(8),
          .waits = static_cast<unsigned>(field(11, 6)),
          .reuse = static_cast<unsigned>(field(17, 4))};
}

Result<std::vector<Code>> parse_listing(std::string_view text) {
  constexpr std::string_view kSection = ".section", kText = ".text.";
  std::vector<Code> out;
  std::optional<Section> section;
  const auto close = [&]() -> Status {
    if (section && !section->code.instructions.empty()) {
      WEFT_TRY(Code code, finish(*std::move(section)));
      out.push_back(std::move(code));
    }
    section.reset();
    return done;
  };
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end + 1));
    if (line.starts_with(kSection) && kBlank.find(line[std::min(kSection.size(), line.size() - 1)]) != kBlank.npos) {
      WEFT_CHECK(close());
      const auto name = line.find(kText);
      if (name == std::string_view::npos) continue;
      const auto begin = name + kText.size();
      section.emplace();
      section->code.name = std::string(line.substr(begin, line.find_first_of(",\"", begin) - begin));
    } else if (section && line.starts_with(".sectioninfo")) {
      section->code.registers = std::max(section->code.registers, number_behind(line, "SHI_REGISTERS="));
    } else if (section && line.ends_with(':')) {
      section->labels.emplace(line.substr(0, line.size() - 1), static_cast<int>(section->code.instructions.size()));
    } else if (section) {
      WEFT_CHECK(add_line(*section, line));
    }
  }
  WEFT_CHECK(close());
  if (out.empty()) return user_error("this is no listing of nvdisasm's: it has no .text section with instructions");
  return out;
}

}  // namespace weft::sass
