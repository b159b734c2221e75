#include "compiler/ir/lower.h"

#include "compiler/ir/elaborate_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace weft::ir {
namespace {

constexpr std::size_t kMostParts = std::size_t{1} << 21;  ///< of the intersections of all branches

class Lowering {
 public:
  explicit Lowering(const dsl::File& file) : run_(file, false), uses_(file, run_.findings) {}

  Result<Pattern> run(const dsl::PatternDef& def, const Params& params, std::vector<Diagnostic>* warnings) && {
    elaborate(def, params);
    const bool failed = run_.findings.failed();
    std::vector<Diagnostic> found = std::move(run_.findings).take();
    if (failed) return user_error(std::move(found));
    if (warnings) warnings->insert(warnings->end(), found.begin(), found.end());
    return std::move(run_.pattern);
  }

 private:
  void elaborate(const dsl::PatternDef& def, const Params& params) {
    define_constants(run_, constants_);
    run_.begin(uses_.summary(def));
    run_.pattern.name = def.name;
    run_.pattern.name_range = def.name_range;
    PatternElaborator pattern(all_, def);
    const std::vector<Value> values = values_of(run_, def, params);
    pattern.bind(values);
    // Parameters that have no value would only repeat themselves in what follows.
    if (run_.findings.failed()) return;
    pattern.open();
    for (const auto& [owner, statement] : all_.rest) owner->statement(*statement);
    check_together();
    if (run_.findings.failed()) return;
    combine_branches(def);
    if (!run_.findings.failed()) finish(run_);
  }

  /// A row's sink and its sigmoids have nothing to do with softmaxes of its branches.
  void check_together() {
    const Pattern& p = run_.pattern;
    const auto refuse = [&](SourceRange range, std::string message, SourceRange other, std::string note) {
      Diagnostic& d = run_.findings.add(Code::contradiction, range, std::move(message));
      if (other.end > other.begin) d.places.push_back({other, "beside this"});
      d.notes.push_back(std::move(note));
    };
    if (p.sigmoid && p.sink_logit)
      refuse(all_.sink_range, "'sink_logit' joins a denominator, and 'weights sigmoid' has none", all_.weights_range,
             "leave one of both out");
    if (p.sigmoid && p.combine != Combine::joint && p.combine != Combine::unite)
      refuse(all_.combine_range, fmt::format("'combine {}' is about softmaxes of branches", to_string(p.combine)),
             all_.weights_range, "'weights sigmoid' goes with 'joint' and 'union'");
    if (p.sink_logit && per_branch(p.combine))
      refuse(all_.combine_range, fmt::format("'combine {}' has a softmax for each branch", to_string(p.combine)),
             all_.sink_range, "'sink_logit' goes with 'joint' and 'union', where a row has one");
  }

  /// Every branch holds them all: what is short to say must not be long to hold.
  std::size_t parts_of_keeps() const {
    std::size_t parts = 0;
    for (const auto& keep : all_.keeps) parts += std::max<std::size_t>(1, keep->children.size());
    return parts;
  }

  void combine_branches(const dsl::PatternDef& def) {
    auto& branches = run_.pattern.branches;
    if (branches.empty()) branches.push_back({make_set(SetKind::all), {}, def.name_range});
    if (parts_of_keeps() * branches.size() > kMostParts) {
      run_.findings.add(Code::too_large, def.name_range, "so many 'keep' statements on so many branches are too large");
      return;
    }
    for (auto& branch : branches) {
      std::vector<SetPtr> parts{branch.set};
      parts.insert(parts.end(), all_.keeps.begin(), all_.keeps.end());
      branch.set = make_set(SetKind::intersection, std::move(parts), branch.set->range);
      if (!is_too_large(*branch.set)) continue;
      run_.findings.add(Code::too_large, branch.range, std::string(kTooLarge));
      return;
    }
  }

  Elaboration run_;
  dsl::Uses uses_;
  Names constants_;
  Together all_{.run = run_, .constants = constants_, .uses = uses_};
};

}  // namespace

Result<Pattern> lower(const dsl::File& file, const std::string& name, const Params& params,
                      std::vector<Diagnostic>* warnings) {
  const dsl::PatternDef* def = file.find(name);
  if (!def) return user_error(fmt::format("the file has no pattern '{}'", name));
  return Lowering(file).run(*def, params, warnings);
}

}  // namespace weft::ir
