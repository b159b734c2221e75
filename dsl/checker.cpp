#include "dsl/fixes.h"
#include "dsl/parse.h"
#include "dsl/pattern_checker.h"
#include "dsl/read.h"
#include "dsl/scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace weft::dsl {
namespace {

class FileChecker {
 public:
  FileChecker(const File& file, const Source& source) : file_(file), findings_(source), uses_(file, findings_) {}

  std::vector<Diagnostic> run() && {
    constants();
    pattern_names();
    if (sizes_are_sane()) {
      for (const PatternDef& pattern : file_.patterns) check(pattern, 0);
    }
    for (const auto& [name, symbol] : scope_.here()) {
      if (!symbol.used && !file_.patterns.empty()) {
        findings_.add(Code::unused_name, symbol.place, fmt::format("constant '{}' is never used", name));
      }
    }
    // What a mistake keeps from being used is not called unused.
    std::vector<Diagnostic> found = std::move(findings_).take();
    const bool wrong =
        std::any_of(found.begin(), found.end(), [](const Diagnostic& d) { return d.severity == Severity::error; });
    if (wrong) std::erase_if(found, [](const Diagnostic& d) { return d.code == text_of(Code::unused_name); });
    return found;
  }

 private:
  void constants() {
    for (const ConstDef& constant : file_.constants) {
      if (!check_name(findings_, constant.name, constant.name_range)) continue;
      if (const Symbol* first = scope_.find(constant.name)) {
        told_twice(constant.name, constant.name_range, first->place);
        continue;
      }
      scope_.define(constant.name, {.place = constant.name_range, .defined = false});
    }
    ExpressionChecker expressions(findings_, scope_);
    for (const ConstDef& constant : file_.constants) {
      const Typed typed = expressions.check(*constant.value, constant_context("a constant"));
      Symbol* symbol = scope_.find(constant.name);
      if (!symbol || symbol->place != constant.name_range) continue;
      symbol->defined = true;
      symbol->typed = typed;
      symbol->effects = expressions.take_effects();
      if (typed.kind != Kind::set) continue;
      expressions.wrong_type(*constant.value, typed, "a number, a boolean or a list");
      symbol->typed = {};
    }
  }

  void pattern_names() {
    std::unordered_map<std::string, SourceRange> seen;
    for (const PatternDef& pattern : file_.patterns) {
      const auto [first, is_new] = seen.emplace(pattern.name, pattern.name_range);
      if (!is_new) told_twice(pattern.name, pattern.name_range, first->second);
    }
  }

  /// `use` in `use` multiplies; what nobody can write out is not checked either.
  bool sizes_are_sane() {
    std::size_t statements = 0;
    for (const PatternDef& pattern : file_.patterns) {
      statements += uses_.summary(pattern).statements;
      if (statements < kMostStatements) continue;
      findings_.add(Code::too_many, pattern.name_range,
                    fmt::format("with all that is used, the patterns up to '{}' have over {} statements", pattern.name,
                                kMostStatements));
      return false;
    }
    return true;
  }

  /// Those that it uses first.
  void check(const PatternDef& pattern, int depth) {
    if (findings_.full() || depth > kDeepestUse || !checked_.insert(&pattern).second) return;
    for (const Statement& s : pattern.statements) {
      const PatternDef* used = s.kind == StatementKind::use ? uses_.target(s) : nullptr;
      if (used) check(*used, depth + 1);
    }
    PatternChecker(pattern, scope_, uses_, definitions_, findings_).run();
  }

  void told_twice(const std::string& name, SourceRange place, SourceRange first) {
    auto& d = findings_.add(Code::name_twice, place, fmt::format("'{}' is defined twice", name));
    d.places.push_back({first, "the first definition"});
  }

  const File& file_;
  Findings findings_;
  Uses uses_;
  Scope scope_;
  Definitions definitions_;
  std::unordered_set<const PatternDef*> checked_;
};

}  // namespace

std::vector<Diagnostic> examine(const Source& source) {
  Read found = read(source);
  if (!found.problems.empty()) return std::move(found.problems);
  return FileChecker(found.file, source).run();
}

std::vector<Diagnostic> check(const File& file, const Source& source) {
  std::vector<Diagnostic> found = FileChecker(file, source).run();
  keep_working_fixes(found, source, examine);
  return found;
}

}  // namespace weft::dsl
