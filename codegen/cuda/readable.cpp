#include "codegen/cuda/readable.h"

#include "codegen/cuda/headers.h"
#include "compiler/base/text_writer.h"
#include "compiler/ir/range_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::codegen::cuda {
namespace {

/// Every line as a comment. A backslash at a line's end would swallow the next one.
void quote(TextWriter& w, std::string_view text) {
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    std::string line(text.substr(0, end));
    std::replace_if(
        line.begin(), line.end(), [](char c) { return c == '\\' || (c >= 0 && c < ' '); }, '?');
    w.line("//   {}", line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

void describe(TextWriter& w, const ir::Plan& plan, const std::vector<std::string>& branches) {
  for (const auto& phase : plan.phases) {
    for (const auto& pass : phase.passes) {
      int said = -1;
      for (const auto& range : pass.ranges) {
        const auto branch = static_cast<std::size_t>(range.branch);
        if (range.branch != said) {
          quote(w, branch < branches.size() ? fmt::format("branch {}: {}", branch, branches[branch])
                                            : fmt::format("branch {}", branch));
        }
        said = range.branch;
        const auto conditions = ir::conditions_of(plan, range, phase.stationary);
        quote(w, fmt::format("    {}",
                             conditions.empty() ? "every pair" : fmt::format("{}", fmt::join(conditions, ", "))));
      }
    }
  }
}

}  // namespace

std::string thin(std::string_view text) {
  std::string out;
  for (int i = 0; i < kHeaderCount; ++i) {
    TextWriter whole;
    write_header(whole, kHeaders[i]);
    const auto part = std::move(whole).take();
    const auto at = text.find(part);
    if (at == std::string_view::npos) continue;
    out.append(text.substr(0, at));
    if (!out.ends_with("\"\n")) out += '\n';  // the first of some in a row
    out.append("#include \"").append(kHeaders[i].name).append("\"\n");
    text.remove_prefix(at + part.size());
  }
  return out.append(text);
}

std::string readable(const Source& source, const ir::Plan& plan, std::string_view pattern_text,
                     const std::vector<std::string>& branches) {
  TextWriter w;
  if (!pattern_text.empty()) {
    w.line("// The pattern:");
    w.line("//");
    quote(w, pattern_text);
    w.line("//");
  }
  w.line("// What it keeps, branch by branch, a line for each range of keys:");
  w.line("//");
  describe(w, plan, branches);
  w.blank();
  w.raw(thin(source.text));
  return std::move(w).take();
}

}  // namespace weft::codegen::cuda
