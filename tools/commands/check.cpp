#include "compiler/planner/planner.h"
#include "dsl/parse.h"
#include "runtime/engine/front.h"
#include "tools/commands/commands.h"
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

bool same_finding(const Diagnostic& a, const Diagnostic& b) {
  return a.code == b.code && a.range == b.range && a.message == b.message;
}

void add_findings(Report& report, const std::vector<Diagnostic>& more) {
  for (const auto& finding : more) {
    const auto known = [&](const Diagnostic& other) { return same_finding(finding, other); };
    if (std::none_of(report.findings.begin(), report.findings.end(), known)) report.findings.push_back(finding);
  }
}

/// A plan for this machine, with the usual dim where the pattern leaves it open.
bool can_be_planned(const ir::Pattern& pattern) {
  const ir::Bind bind{.d = pattern.dim.value_or(64),
                      .d_v = pattern.dim_v.value_or(pattern.dim.value_or(64)),
                      .dtype = pattern.dtype.value_or(ir::DType::f32)};
  return planner::plan(pattern, bind, host_target()).ok();
}

/// Lowers and plans every pattern: values that only bound parameters reveal.
void check_patterns(Report& report, const dsl::File& file, CompileOptions options) {
  for (const auto& pattern : file.patterns) {
    report.patterns.push_back(pattern.name);
    if (!options.pattern.empty() && options.pattern != pattern.name) continue;
    auto one = options;
    one.pattern = pattern.name;
    const auto front = read_pattern(report.source, one);
    if (front) {
      add_findings(report, front->warnings);
      if (!can_be_planned(front->pattern)) report.not_planned.push_back(pattern.name);
    } else if (!front.error().diagnostics.empty()) {
      add_findings(report, front.error().diagnostics);
    } else {
      Diagnostic whole;
      whole.code = "E0900";
      whole.range = pattern.name_range;
      whole.message = front.error().message;
      report.findings.push_back(std::move(whole));
    }
  }
}

Json to_json(const Report& report) {
  Json findings = Json::array();
  for (const auto& finding : report.findings) {
    const auto begin = locate(report.source, finding.range.begin), end = locate(report.source, finding.range.end);
    findings.push_back({{"severity", finding.severity == Severity::error ? "error" : "warning"},
                        {"code", finding.code},
                        {"line", begin.line},
                        {"column", begin.column},
                        {"end_line", end.line},
                        {"end_column", end.column},
                        {"message", finding.message}});
  }
  return {{"file", report.source.name},
          {"ok", report.ok()},
          {"patterns", report.patterns},
          {"interpreter_only", report.not_planned},
          {"diagnostics", findings}};
}

}  // namespace

int command_check(const Options& options, const Console& console) {
  Json files = Json::array();
  int status = kDone;
  for (const auto& path : options.files) {
    auto source = read_source(path);
    if (!source) {
      status = std::max(status, console.fail(source.error()));
      continue;
    }
    const auto compile = compile_options(options, *source);
    if (!compile) return console.usage(compile.error().message);
    Report report{.source = std::move(*source)};
    report.findings = check_file(report.source);
    if (report.ok()) check_patterns(report, *dsl::parse(report.source), *compile);
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
  if (console.json())
    console.print("{}\n",
                  Json{{"ok", status == kDone}, {"files", files}}.dump(2, ' ', false, Json::error_handler_t::replace));
  return status;
}

}  // namespace weft::tools
