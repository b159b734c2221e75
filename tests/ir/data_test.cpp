#include "compiler/ir/check.h"
#include "compiler/ir/jumps.h"
#include "compiler/ir/lower.h"
#include "dsl/diagnostics.h"
#include "dsl/help.h"
#include "dsl/parse.h"
#include "tests/support/blessed.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

/// Cases of tests/data: `input.weft`, `args` (a `-D` value a line), `diagnostics.txt` (all that is
/// said about the file and every pattern in it) and `pattern.txt` (the patterns that are right).
namespace weft::ir {
namespace {

namespace fs = std::filesystem;

struct Said {
  std::string diagnostics, patterns;
};

std::string rendered(const std::vector<Diagnostic>& diagnostics, const Source& source) {
  std::string out;
  for (const auto& d : diagnostics) out += render(d, source);
  return out;
}

/// What is told where gradients are asked for.
void add_jump(const Pattern& pattern, std::vector<Diagnostic>& findings) {
  if (auto jump = warn_of_jumps(pattern)) findings.push_back(std::move(*jump));
}

Params params_of(const fs::path& folder) {
  Params params;
  std::istringstream lines(test::read_text(folder / "args"));
  for (std::string line; std::getline(lines, line);) {
    auto param = parse_param(line);
    EXPECT_TRUE(param.ok()) << line;
    if (param.ok()) params.insert(std::move(param).value());
  }
  return params;
}

Said say(const fs::path& folder) {
  const Source source{"input.weft", test::read_text(folder / "input.weft")};
  const auto file = dsl::parse(source, ir::examine);
  if (!file.ok()) return {rendered(file.error().diagnostics, source), {}};
  const std::vector<Diagnostic> checked = ir::check(file.value(), source);
  Said said{.diagnostics = rendered(checked, source), .patterns = {}};
  const auto is_error = [](const Diagnostic& d) { return d.severity == Severity::error; };
  if (std::any_of(checked.begin(), checked.end(), is_error)) return said;
  const Params params = params_of(folder);
  for (const auto& def : file.value().patterns) {
    std::vector<Diagnostic> findings;
    const auto pattern = lower(file.value(), def.name, params, &findings);
    if (pattern.ok()) said.patterns += print(pattern.value());
    if (pattern.ok()) add_jump(*pattern, findings);
    if (!pattern.ok()) findings = pattern.error().diagnostics;
    said.diagnostics += rendered(findings, source);
  }
  return said;
}

TEST(Data, SaysWhatItAlwaysSaid) {
  for (const auto& folder : test::data_cases()) {
    if (!fs::exists(folder / "diagnostics.txt") && !fs::exists(folder / "pattern.txt")) continue;
    const Said said = say(folder);
    EXPECT_EQ(test::compare_blessed(folder / "diagnostics.txt", said.diagnostics), "");
    EXPECT_EQ(test::compare_blessed(folder / "pattern.txt", said.patterns), "");
  }
}

/// All that is said of a text, its last pattern and the gradients of that.
std::string said_of(const std::string& text) {
  const Source source{"explained.weft", text};
  const auto file = dsl::parse(source, ir::examine);
  if (!file.ok()) return rendered(file.error().diagnostics, source);
  std::vector<Diagnostic> findings = ir::check(*file, source);
  const auto is_error = [](const Diagnostic& d) { return d.severity == Severity::error; };
  if (std::any_of(findings.begin(), findings.end(), is_error)) return rendered(findings, source);
  const auto pattern = lower(*file, file->patterns.back().name, {}, &findings);
  if (pattern.ok()) add_jump(*pattern, findings);
  return rendered(pattern.ok() ? findings : pattern.error().diagnostics, source);
}

TEST(Codes, AreExplainedByWhatIsWrongAndWhatIsRight) {
  const std::set<std::string_view> not_short = {"E0104", "E0107", "E0108", "E0109", "E0110",
                                                "E0230", "E0302", "E0303", "E0315", "E0318"};
  for (const dsl::CodeInfo& row : dsl::codes()) {
    EXPECT_FALSE(row.title.empty() || row.meaning.empty()) << row.text;
    EXPECT_EQ(row.wrong.empty(), not_short.contains(row.text)) << row.text;
    if (row.wrong.empty()) continue;
    const std::string said = said_of(std::string(row.wrong));
    EXPECT_NE(said.find(fmt::format("[{}]", row.text)), std::string::npos) << row.text << said;
    EXPECT_EQ(said_of(std::string(row.right)), "") << row.text;
  }
}

/// Examples of every word lower; that they plan and draw is tested with the pages of docs.
TEST(Help, ExamplesLower) {
  for (const dsl::Help& row : dsl::help()) {
    const Source source{std::string(row.word), dsl::example_text(row)};
    const auto file = dsl::parse(source, ir::examine);
    ASSERT_TRUE(file.ok()) << source.text;
    const auto pattern = lower(*file, file->patterns.back().name, {});
    EXPECT_TRUE(pattern.ok()) << source.text << rendered(pattern.error().diagnostics, source);
  }
}

TEST(Data, EveryFindingAppears) {
  std::string all = "[E0107]";  // A source over 1 MiB: tests/dsl/hostile_test.cpp.
  for (const auto& folder : test::data_cases()) all += test::read_text(folder / "diagnostics.txt");
  for (const dsl::CodeInfo& row : dsl::codes()) {
    EXPECT_NE(all.find(fmt::format("[{}]", row.text)), std::string::npos) << row.text << " appears in no case";
  }
}

}  // namespace
}  // namespace weft::ir
