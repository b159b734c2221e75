#include "compiler/ir/check.h"
#include "compiler/ir/lower.h"
#include "dsl/parse.h"
#include "dsl/printer.h"
#include "fuzz/require.h"
#include "fuzz/targets.h"

#include <algorithm>
#include <string>
#include <vector>

namespace weft::fuzz {
namespace {

void check_findings(const std::vector<Diagnostic>& findings, const Source& source) {
  for (const Diagnostic& d : findings) {
    require(!d.code.empty() && !d.message.empty(), "every finding has a code and a sentence");
    require(d.range.begin <= d.range.end && d.range.end <= source.text.size(), "findings point into the text");
    require(!render(d, source).empty(), "findings can be shown");
  }
}

void check_layout(const dsl::File& file, const Source& source) {
  const Source formatted{"formatted.weft", dsl::format(file, source)};
  // Layout adds line breaks and blanks, so that a text at the limit may end up behind it.
  if (formatted.text.size() > std::size_t{1} << 20) return;
  const auto again = dsl::parse(formatted);
  require(again.ok(), "what fmt writes parses");
  require(dsl::print_tree(*again, dsl::Places::hidden) == dsl::print_tree(file, dsl::Places::hidden),
          "fmt keeps the tree");
  require(dsl::format(*again, formatted) == formatted.text, "fmt is idempotent");
}

void check_lowering(const dsl::File& file, const std::string& name) {
  const auto pattern = ir::lower(file, name, {});
  if (!pattern.ok()) return require(pattern.error().kind == ErrorKind::user, "what is refused is the user's fault");
  const Source printed{"printed.weft", ir::print(*pattern)};
  if (printed.text.size() > std::size_t{1} << 20) return;
  const auto again = dsl::parse(printed);
  require(again.ok(), "a printed pattern parses");
  const auto twin = ir::lower(*again, name, {});
  require(twin.ok(), "a printed pattern lowers");
  require(same(*pattern, *twin), "a printed pattern is the same pattern");
}

}  // namespace

void front_end(std::string_view text) {
  const Source source{"input.weft", std::string(text)};
  const auto file = dsl::parse(source);
  if (!file.ok()) {
    require(!file.error().diagnostics.empty(), "what does not parse says why");
    return check_findings(file.error().diagnostics, source);
  }
  check_layout(*file, source);
  const auto findings = ir::check(*file, source);
  check_findings(findings, source);
  const bool wrong =
      std::any_of(findings.begin(), findings.end(), [](const Diagnostic& d) { return d.severity == Severity::error; });
  if (wrong) return;
  for (const auto& pattern : file->patterns) check_lowering(*file, pattern.name);
}

}  // namespace weft::fuzz
