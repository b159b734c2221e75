#include "compiler/ir/elaborate_pattern.h"
#include "compiler/ir/never_holds.h"
#include "compiler/ir/pattern_interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace weft::ir {
namespace {

bool has_conjunct(const Set& set, SetKind kind) {
  if (set.kind != SetKind::intersection) return set.kind == kind;
  return std::any_of(set.children.begin(), set.children.end(), [&](const SetPtr& s) { return s->kind == kind; });
}

bool contains(const Set& set, const std::function<bool(const Set&)>& test) {
  return test(set) || std::any_of(set.children.begin(), set.children.end(),
                                  [&](const SetPtr& child) { return contains(*child, test); });
}

SetPtr with_children(const Set& set, std::vector<SetPtr> children) {
  if (set.kind == SetKind::blocks) return make_blocks(set.args[0], std::move(children[0]), set.range);
  return make_set(set.kind, std::move(children), set.range);
}

/// `top` beside `causal` chooses among past blocks, unless it says otherwise itself.
SetPtr causal_tops(const Elaboration& run, const SetPtr& set) {
  if (std::find(run.default_tops.begin(), run.default_tops.end(), set) != run.default_tops.end()) {
    return make_top(set->args[0], set->input, true, set->range);
  }
  if (set->children.empty()) return set;
  std::vector<SetPtr> children;
  for (const auto& child : set->children) children.push_back(causal_tops(run, child));
  return children == set->children ? set : with_children(*set, std::move(children));
}

void for_each_input(const Expr& e, const std::function<void(int)>& visit) {
  if (e.op == Op::input) visit(e.input);
  for (const auto& arg : e.args) for_each_input(*arg, visit);
}

bool has_block_axis(const Input& input) {
  return std::any_of(input.axes.begin(), input.axes.end(),
                     [](const Axis& axis) { return axis.kind == Axis::Kind::blocks; });
}

/// Gives inputs with `blocks` axes the size of the blocks that they are used in.
class BlockSizes {
 public:
  explicit BlockSizes(Elaboration& run) : run_(run) {}

  /// `block` is 0 outside of `blocks`: blocks of one token are blocks.
  void visit(const Set& set, std::int64_t block = 0) {
    if (set.kind == SetKind::blocks) block = bounded_product(std::max<std::int64_t>(block, 1), set.args[0]);
    const auto use = [&](int input) { note(input, block, set.range); };
    if (set.input >= 0) use(set.input);
    if (set.expr) for_each_input(*set.expr, use);
    for (const auto& child : set.children) visit(*child, block);
  }

  /// Where simplifying took away every use, the text still says what the blocks would have been.
  void visit_text() {
    for (const BlockUse& use : run_.uses) {
      Input& input = run_.pattern.inputs[static_cast<std::size_t>(use.input)];
      if (input.block == 0) input.block = use.block;
    }
  }

  void report_unknown() {
    for (const auto& input : run_.pattern.inputs) {
      if (!has_block_axis(input) || input.block > 0) continue;
      run_.findings.add(Code::block_axes, input.range,
                        fmt::format("'{}' has an axis 'blocks' and is used in no 'blocks(B, …)'", input.name));
    }
  }

 private:
  void note(int number, std::int64_t block, SourceRange range) {
    Input& input = run_.pattern.inputs[static_cast<std::size_t>(number)];
    if (!has_block_axis(input) || block == 0 || input.block == block) return;
    if (input.block == 0) {
      input.block = block;
      return;
    }
    run_.findings.add(Code::block_axes, range,
                      fmt::format("'{}' is used in blocks of {} and of {}", input.name, input.block, block));
  }

  Elaboration& run_;
};

void check_empty(Elaboration& run) {
  const auto& branches = run.pattern.branches;
  const auto empty = [](const Branch& b) { return keeps_nothing(*b.set); };
  if (std::all_of(branches.begin(), branches.end(), empty)) {
    const Set& first = *branches[0].set;
    const SourceRange place = first.kind == SetKind::where ? first.range : branches[0].range;
    run.findings.add(Code::keeps_nothing, place, "this pattern keeps no pair at all", "for any number of tokens");
    return;
  }
  for (std::size_t i = 0; i < branches.size(); ++i) {
    if (empty(branches[i])) run.findings.add(Code::empty_branch, branches[i].range, "this branch keeps no pair");
    if (run.pattern.combine != Combine::unite) continue;
    const auto twin =
        std::find_if(branches.begin(), branches.begin() + static_cast<std::ptrdiff_t>(i),
                     [&](const Branch& b) { return b.heads == branches[i].heads && same(*b.set, *branches[i].set); });
    if (twin == branches.begin() + static_cast<std::ptrdiff_t>(i)) continue;
    Diagnostic& d = run.findings.add(Code::empty_branch, branches[i].range, "a union with this branch adds nothing");
    d.places.push_back({twin->range, "the same set"});
  }
}

/// Enough tokens and little enough work that a row found bare here is bare, in milliseconds.
constexpr std::int64_t kManyTokens = std::int64_t{1} << 14;
constexpr std::int64_t kMostNodes = 64;

bool depends_on_more_than_positions(const Set& set) {
  const bool drawn = set.kind == SetKind::random || set.kind == SetKind::top;
  const bool placed = set.kind == SetKind::neighborhood || set.kind == SetKind::axial;
  bool reads_input = set.input >= 0;
  if (set.expr) for_each_input(*set.expr, [&](int) { reads_input = true; });
  return drawn || placed || reads_input;
}

/// A first or last query without keys is nearly always an off-by-one in a mask.
void warn_of_empty_rows(Elaboration& run) {
  const auto& branches = run.pattern.branches;
  std::int64_t cost = 0;
  bool dilated = false;
  for (const auto& branch : branches) {
    if (contains(*branch.set, depends_on_more_than_positions)) return;
    dilated =
        dilated || contains(*branch.set, [](const Set& s) { return s.kind == SetKind::dilated && !s.all_queries; });
    cost += branch.set->nodes;
  }
  if (cost > kMostNodes) return;
  const std::int64_t heads = run.pattern.heads.value_or(8);
  const Shape shape{.batch = 1, .n_q = kManyTokens, .n_k = kManyTokens, .heads = heads, .kv_heads = heads};
  if (std::none_of(branches.begin(), branches.end(), [&](const Branch& b) { return b.heads.contains(0, heads); }))
    return;
  const InputValues none;
  const PairEvaluator evaluator(run.pattern, shape, none);
  const auto is_bare = [&](std::int64_t q) {
    for (std::int64_t i = 0; i < kManyTokens; ++i) {
      // From the diagonal on, where most masks keep something.
      if (evaluator.multiplicity(0, 0, q, q == 0 ? i : q - i) > 0) return false;
    }
    return true;
  };
  const bool first = is_bare(0);
  // Dilated rows that their rate skips are meant to be bare.
  if (!first && (dilated || !is_bare(kManyTokens - 1))) return;
  Diagnostic& d = run.findings.add(Code::empty_rows, branches[0].set->range,
                                   fmt::format("this mask keeps no key for the {} query", first ? "first" : "last"));
  const Pattern& p = run.pattern;
  d.notes.push_back(fmt::format("rows without keys give zero output{}", !has_lse(p)    ? ""
                                                                        : p.sink_logit ? " and the sink as LSE"
                                                                                       : " and LSE -inf"));
}

}  // namespace

void finish(Elaboration& run) {
  for (auto& branch : run.pattern.branches) {
    if (has_conjunct(*branch.set, SetKind::causal)) branch.set = causal_tops(run, branch.set);
  }
  BlockSizes sizes(run);
  for (const auto& branch : run.pattern.branches) sizes.visit(*branch.set);
  sizes.visit_text();
  sizes.report_unknown();
  check_empty(run);
  if (!run.findings.failed()) warn_of_empty_rows(run);
}

}  // namespace weft::ir
