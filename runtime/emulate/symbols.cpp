#include "runtime/emulate/symbols.h"

#include "runtime/emulate/compiler.h"
#include "runtime/emulate/process.h"
#include "runtime/emulate/scratch.h"

#include <fmt/format.h>

#include <cstdlib>
#include <sstream>

namespace weft::emulate {
namespace {

/// `stage(Shared&, int)` to `stage`.
std::string without_parameters(const std::string& function) { return function.substr(0, function.find_first_of("(<")); }

/// From `/a/b/kernel.cu:12 (discriminator 3)`; 0 where that is not the emitted text.
int line_in_text(const std::string& place) {
  const std::string mark = std::string(kTextName) + ":";
  const std::size_t at = place.rfind(mark);
  return at == std::string::npos ? 0 : std::atoi(place.c_str() + at + mark.size());
}

/// An answer begins with its address, then has two lines for each frame.
std::vector<std::vector<Frame>> parse(const std::string& output, std::size_t count) {
  std::vector<std::vector<Frame>> out;
  std::istringstream lines(output);
  for (std::string line, place; std::getline(lines, line);) {
    if (line.starts_with("0x")) {
      out.emplace_back();
    } else if (std::getline(lines, place) && !out.empty()) {
      if (const int number = line_in_text(place); number > 0) out.back().push_back({without_parameters(line), number});
    }
  }
  out.resize(count);
  return out;
}

}  // namespace

std::vector<std::vector<Frame>> frames(const std::string& object_bytes, const std::vector<std::uint64_t>& offsets) {
  const std::string program = find_program("addr2line");
  const auto scratch = ScratchFolder::make();
  if (program.empty() || offsets.empty() || !scratch.ok()) return std::vector<std::vector<Frame>>(offsets.size());
  const std::string object = scratch->file("kernel.so");
  if (!write_file(object, object_bytes).ok()) return std::vector<std::vector<Frame>>(offsets.size());
  std::vector<std::string> words = {program, "--addresses", "--inlines", "--functions", "--demangle", "--exe", object};
  for (const std::uint64_t offset : offsets) words.push_back(fmt::format("{:#x}", offset));
  const auto finished = run(words, scratch->file("log"));
  return parse(finished.ok() ? finished->output : std::string(), offsets.size());
}

std::string print(const std::vector<Frame>& frames) {
  std::string out;
  for (const auto& [function, line] : frames) {
    out += fmt::format("{}{} (line {})", out.empty() ? "" : " < ", function, line);
  }
  return out;
}

}  // namespace weft::emulate
