#include "compiler/ir/check.h"

#include "compiler/ir/elaborate_pattern.h"
#include "dsl/fixes.h"
#include "dsl/read.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace weft::ir {
namespace {

class FileChecker {
 public:
  explicit FileChecker(const dsl::File& file) : run_(file, true), uses_(file, run_.findings) {}

  std::vector<Diagnostic> run() && {
    const dsl::File& file = run_.file;
    define_constants(run_, constants_);
    pattern_names();
    if (sizes_are_sane()) {
      for (const dsl::PatternDef& pattern : file.patterns) check(pattern, 0);
    }
    for (const auto& [name, symbol] : constants_.here()) {
      if (!symbol.used && !file.patterns.empty()) {
        run_.findings.add(Code::unused_name, symbol.place, fmt::format("constant '{}' is never used", name));
      }
    }
    // What a mistake keeps from being used is not called unused.
    const bool wrong = run_.findings.failed();
    std::vector<Diagnostic> found = std::move(run_.findings).take();
    if (wrong) std::erase_if(found, [](const Diagnostic& d) { return d.code == dsl::text_of(Code::unused_name); });
    return found;
  }

 private:
  void pattern_names() {
    std::unordered_map<std::string, SourceRange> seen;
    for (const dsl::PatternDef& pattern : run_.file.patterns) {
      const auto [first, is_new] = seen.emplace(pattern.name, pattern.name_range);
      if (is_new) continue;
      auto& d =
          run_.findings.add(Code::name_twice, pattern.name_range, fmt::format("'{}' is defined twice", pattern.name));
      d.places.push_back({first->second, "the first definition"});
    }
  }

  /// `use` in `use` multiplies; what nobody can write out is not checked either.
  bool sizes_are_sane() {
    std::size_t statements = 0;
    for (const dsl::PatternDef& pattern : run_.file.patterns) {
      statements += uses_.summary(pattern).statements;
      if (statements < dsl::kMostStatements) continue;
      run_.findings.add(Code::too_many, pattern.name_range,
                        fmt::format("with all that is used, the patterns up to '{}' have over {} statements",
                                    pattern.name, dsl::kMostStatements));
      return false;
    }
    return true;
  }

  /// Those that it uses first.
  void check(const dsl::PatternDef& pattern, int depth) {
    if (run_.findings.full() || depth > dsl::kDeepestUse || !checked_.insert(&pattern).second) return;
    for (const dsl::Statement& s : pattern.statements) {
      const dsl::PatternDef* used = s.kind == dsl::StatementKind::use ? uses_.target(s) : nullptr;
      if (used) check(*used, depth + 1);
    }
    const dsl::Summary& summary = uses_.summary(pattern);
    if (summary.branches > dsl::kMostBranches) {
      run_.findings.add(Code::too_many, pattern.name_range,
                        fmt::format("pattern '{}' has {} branches; at most {} are allowed", pattern.name,
                                    summary.branches, dsl::kMostBranches));
    }
    run_.begin(summary);
    all_.rest.clear();
    PatternElaborator elaborator(all_, pattern);
    elaborator.bind({});
    elaborator.open();
    for (const auto& [owner, statement] : all_.rest) {
      if (run_.findings.full()) return;
      owner->statement(*statement);
    }
    if (!uses_.is_used(pattern)) elaborator.report_unused();
    all_.definitions[&pattern] = elaborator.definitions();
  }

  Elaboration run_;
  dsl::Uses uses_;
  Names constants_;
  Together all_{.run = run_, .constants = constants_, .uses = uses_};
  std::unordered_set<const dsl::PatternDef*> checked_;
};

}  // namespace

std::vector<Diagnostic> examine(const Source& source) {
  dsl::Read found = dsl::read(source);
  if (!found.problems.empty()) return std::move(found.problems);
  return FileChecker(found.file).run();
}

std::vector<Diagnostic> check(const dsl::File& file, const Source& source) {
  std::vector<Diagnostic> found = FileChecker(file).run();
  dsl::keep_working_fixes(found, source, examine);
  return found;
}

}  // namespace weft::ir
