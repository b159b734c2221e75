#include "compiler/planner/planner.h"
#include "dsl/parse.h"
#include "runtime/engine/front.h"
#include "tools/commands/commands.h"
#include "tools/commands/help.h"
#include "tools/failure.h"
#include "tools/files.h"
#include "tools/json.h"
#include "tools/pattern_file.h"

#include <algorithm>

namespace weft::tools {

namespace {

/// What was found in one file, and which of its patterns this version cannot compile for a CPU.
struct Report {
  Source source;
  std::vector<std::string> patterns = {};
  std::vector<std::string> not_planned = {};  ///< sound, but kernels of this version cannot run them
  std::vector<Diagnostic> findings = {};
  bool ok() const {
    return std::none_of(findings.begin(), findings.end(), [](const auto& d) { return d.severity == Severity::error; });
  }
};

/// Nobody reads more of them, and each costs a walk through the text.
constexpr std::size_t kMostFindings = 100;

/// Patterns that use each other find the same.
bool same_finding(const Diagnostic& a, const Diagnostic& b) {
  return a.code == b.code && a.range == b.range && a.message == b.message;
}

void add_findings(Report& report, const std::vector<Diagnostic>& more) {
  for (const auto& finding : more) {
    const auto known = [&](const Diagnostic& other) { return same_finding(finding, other); };
    if (std::any_of(report.findings.begin(), report.findings.end(), known)) continue;
    if (report.findings.size() == kMostFindings && finding.severity == Severity::error && report.ok()) {
      report.findings.pop_back();
    }
    if (report.findings.size() < kMostFindings) report.findings.push_back(finding);
  }
}

/// A plan for this machine, with the usual dim where the pattern leaves it open.
bool can_be_planned(const ir::Pattern& pattern, const Target& target) {
  const ir::Bind bind{.d = pattern.dim.value_or(64),
                      .d_v = pattern.dim_v.value_or(pattern.dim.value_or(64)),
                      .dtype = pattern.dtype.value_or(ir::DType::f32)};
  return planner::plan(pattern, bind, target).ok();
}

/// Lowers and plans every pattern: values that only bound parameters reveal.
void check_patterns(Report& report, const CheckedText& text, const CompileOptions& options) {
  const Target target = host_target();
  for (const auto& pattern : text.file.patterns) {
    report.patterns.push_back(pattern.name);
    if (!options.pattern.empty() && options.pattern != pattern.name) continue;
    auto one = options;
    one.pattern = pattern.name;
    const auto front = read_pattern(text, report.source, one);
    if (front) {
      add_findings(report, front->warnings);
      if (!can_be_planned(front->pattern, target)) report.not_planned.push_back(pattern.name);
    } else if (!front.error().diagnostics.empty()) {
      add_findings(report, front.error().diagnostics);
    } else {
      Diagnostic whole;
      whole.code = "E0900";
      whole.range = pattern.name_range;
      whole.message = front.error().message;
      add_findings(report, {std::move(whole)});
    }
  }
}

Json to_json(const Report& report) {
  Json findings = Json::array();
  for (const auto& finding : report.findings) findings.push_back(json_of(finding, report.source));
  return {{"file", report.source.name},
          {"ok", report.ok()},
          {"patterns", report.patterns},
          {"interpreter_only", report.not_planned},
          {"diagnostics", findings}};
}

}  // namespace

int command_check(const Options& options, const Console& console) {
  if (!options.explain.empty()) return explain_code(options.explain, console);
  Json files = Json::array();
  int status = kDone;
  for (const auto& path : options.files) {
    auto source = read_source(path);
    if (!source) {
      const int failed = console.fail(source.error());
      status = std::max(status, failed);
      auto entry = failure(source.error(), failed, nullptr);
      entry.update(Json{{"file", path}, {"ok", false}});
      files.push_back(std::move(entry));
      continue;
    }
    const auto compile = compile_options(options, *source);
    if (!compile) return console.usage(compile.error().message);
    Report report{.source = std::move(*source)};
    if (const auto text = check_text(report.source)) {
      report.findings = text->warnings;
      check_patterns(report, *text, *compile);
    } else {
      report.findings = text.error().diagnostics;
    }
    if (!report.ok()) status = std::max(status, kWrongInput);
    if (console.json()) {
      files.push_back(to_json(report));
      continue;
    }
    console.warnings(report.findings, report.source);
    for (const auto& name : report.not_planned) {
      console.remark("{}: '{}' runs with --target interpreter only in this version", report.source.name, name);
    }
    if (report.ok() && !options.quiet) {
      console.print("{}: {} pattern{} in order\n", report.source.name, report.patterns.size(),
                    report.patterns.size() == 1 ? "" : "s");
    }
  }
  if (console.json()) console.print("{}\n", json_text(Json{{"ok", status == kDone}, {"files", files}}));
  return status;
}

}  // namespace weft::tools
