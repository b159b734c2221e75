#include "compiler/ir/lower.h"
#include "dsl/parse.h"
#include "tests/support/blessed.h"

#include <gtest/gtest.h>

#include <algorithm>
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
  const auto file = dsl::parse(source);
  if (!file.ok()) return {rendered(file.error().diagnostics, source), {}};
  const std::vector<Diagnostic> checked = dsl::check(file.value(), source);
  Said said{.diagnostics = rendered(checked, source), .patterns = {}};
  const auto is_error = [](const Diagnostic& d) { return d.severity == Severity::error; };
  if (std::any_of(checked.begin(), checked.end(), is_error)) return said;
  const Params params = params_of(folder);
  for (const auto& def : file.value().patterns) {
    std::vector<Diagnostic> findings;
    const auto pattern = lower(file.value(), def.name, params, &findings);
    if (pattern.ok()) said.patterns += print(pattern.value());
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

TEST(Data, EveryFindingOfTheLoweringAppears) {
  std::string all;
  for (const auto& folder : test::data_cases()) all += test::read_text(folder / "diagnostics.txt");
  for (const char* code : {
#define WEFT_DIAGNOSTIC(name, code, title) code,
#include "compiler/ir/diagnostics.def"
       }) {
    EXPECT_NE(all.find("[" + std::string(code) + "]"), std::string::npos)
        << code << " appears in no case of tests/data";
  }
}

}  // namespace
}  // namespace weft::ir
