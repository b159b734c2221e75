#include "compiler/base/text_writer.h"
#include "compiler/ir/pattern.h"
#include "dsl/words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace weft::ir {
namespace {

using Numbers = std::vector<std::int64_t>;

/// `!` binds tightest, then `&`, `-`, `|`.
int tightness(SetKind kind) {
  if (kind == SetKind::unite) return 0;
  if (kind == SetKind::difference) return 1;
  if (kind == SetKind::intersection) return 2;
  return 3;
}

std::string bracket(const Numbers& values) { return fmt::format("[{}]", fmt::join(values, ", ")); }

struct SetPrinter {
  const std::vector<std::string>& names;

  std::string name(int input) const {
    const auto number = static_cast<std::size_t>(input);
    return number < names.size() ? names[number] : fmt::format("input{}", input);
  }

  std::string operand(const Set& set, int least) const {
    return tightness(set.kind) < least ? fmt::format("({})", print(set)) : print(set);
  }

  std::string infix(const Set& set) const {
    const int own = tightness(set.kind);
    std::string out = operand(*set.children[0], own);
    for (std::size_t i = 1; i < set.children.size(); ++i) {
      out += fmt::format(" {} {}", to_string(set.kind), operand(*set.children[i], own + 1));
    }
    return out;
  }

  std::string neighborhood(const Set& set) const {
    const std::size_t axes = set.args.size() / 4;
    std::array<std::vector<std::string>, 4> columns;
    for (std::size_t i = 0; i < set.args.size(); ++i) {
      const bool flag = i % 4 == 3;
      columns[i % 4].push_back(flag ? (set.args[i] != 0 ? "true" : "false") : std::to_string(set.args[i]));
    }
    const auto column = [&](std::size_t i) {
      return axes == 1 ? columns[i][0] : fmt::format("[{}]", fmt::join(columns[i], ", "));
    };
    return fmt::format("neighborhood(size: {}, dilation: {}, stride: {}, causal: {})", column(0), column(1), column(2),
                       column(3));
  }

  std::string dilated(const Set& set) const {
    return fmt::format("dilated(segment: {}, rate: {}, phase: {}{})", set.args[0], set.args[1],
                       ir::print(*set.expr, names), set.all_queries ? ", queries: all" : "");
  }

  std::string top(const Set& set) const {
    return fmt::format("top({}, by: {}, causal: {})", set.args[0],
                       set.input < 0 ? "pooled" : fmt::format("input({})", name(set.input)), set.causal_top);
  }

  /// All numbers; those that may be left out by their names.
  std::string plain(const Set& set) const {
    const char* const word = to_string(set.kind);
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < set.args.size(); ++i) {
      const dsl::Parameter& parameter = dsl::find_set(word)->parameters[i];
      parts.push_back((parameter.required ? "" : fmt::format("{}: ", parameter.name)) + std::to_string(set.args[i]));
    }
    return parts.empty() ? word : fmt::format("{}({})", word, fmt::join(parts, ", "));
  }

  std::string blocks(const Set& set) const {
    return fmt::format("blocks({}, {})", set.args[0], print(*set.children[0]));
  }

  std::string of_input(const Set& set) const { return fmt::format("{}({})", to_string(set.kind), name(set.input)); }

  std::string where(const Set& set) const { return fmt::format("where({})", ir::print(*set.expr, names)); }

  std::string complement(const Set& set) const { return fmt::format("!{}", operand(*set.children[0], 3)); }

  std::string owned(const Set& set) const {
    return fmt::format("{}({} of {}, {})", to_string(set.kind), set.args[1], set.args[0], to_string(set.layout));
  }

  std::string print(const Set& set) const {
#define WEFT_ANY_SET(name, word, print, ...) \
  if (set.kind == SetKind::name) return print(set);
#include "dsl/sets.def"
    return {};
  }
};

const char* to_string(Axis::Kind kind) {
  constexpr std::array kNames = {"batch", "heads", "queries", "keys", "tokens", "blocks", ""};
  return kNames[static_cast<std::size_t>(kind)];
}

std::vector<SetPtr> conjuncts(const SetPtr& set) {
  return set->kind == SetKind::intersection ? set->children : std::vector<SetPtr>{set};
}

struct PatternPrinter {
  const Pattern& pattern;
  std::vector<std::string> names;
  std::vector<std::vector<SetPtr>> parts = {};  ///< of each branch, without `kept`
  std::vector<SetPtr> kept = {};                ///< conjuncts that end every branch
  TextWriter out = TextWriter(2);

  std::string print_set(const Set& set) const { return SetPrinter{names}.print(set); }

  bool grouped(std::size_t i) const {
    const auto kind = pattern.branches[i].heads.kind;
    return kind == HeadSet::Kind::group || kind == HeadSet::Kind::group_last;
  }

  /// Does branch `i` end with `set`, and is there something in front of it that must stay? An empty
  /// branch swallowed its `keep`s and ends with any.
  bool ends_with(std::size_t i, const Set& set) const {
    if (is_empty(*pattern.branches[i].set)) return true;
    return parts[i].size() > (grouped(i) ? 1U : 0U) && same(*parts[i].back(), set);
  }

  /// Undoes what `keep` did, as far as the branches show it: a branch of a head group can be written
  /// in a `branches` statement only, with `keep` beside it.
  void factor() {
    std::size_t guide = pattern.branches.size();
    for (std::size_t i = 0; i < pattern.branches.size(); ++i) {
      const auto& set = pattern.branches[i].set;
      parts.push_back(conjuncts(set));
      if (!is_empty(*set)) guide = std::min(guide, i);
    }
    if (guide == parts.size() || (parts.size() == 1 && !grouped(0))) return;
    while (!parts[guide].empty()) {
      const SetPtr last = parts[guide].back();
      for (std::size_t i = 0; i < parts.size(); ++i) {
        if (!ends_with(i, *last)) return;
      }
      kept.insert(kept.begin(), last);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        if (!is_empty(*pattern.branches[i].set)) parts[i].pop_back();
      }
    }
  }

  void header() {
    const auto second = [](const char* word, const std::optional<std::int64_t>& value) {
      return value ? fmt::format(" {} {}", word, *value) : std::string();
    };
    if (pattern.heads) out.line("heads {}{};", *pattern.heads, second("kv", pattern.kv_heads));
    if (pattern.dim) out.line("dim {}{};", *pattern.dim, second("value", pattern.dim_v));
    if (pattern.dtype) out.line("dtype {};", ir::to_string(*pattern.dtype));
    const auto count = pattern.tokens.count;
    if (pattern.tokens.kind == Tokens::Kind::any) out.line("tokens any;");
    if (pattern.tokens.kind == Tokens::Kind::exact) out.line("tokens {};", count);
    if (pattern.tokens.kind == Tokens::Kind::multiple_of) out.line("tokens multiple_of {};", count);
    if (!pattern.grid.empty()) out.line("grid {};", fmt::join(pattern.grid, ", "));
    for (const auto& input : pattern.inputs) {
      std::vector<std::string> axes;
      for (const auto& axis : input.axes) {
        axes.push_back(axis.kind == Axis::Kind::extent ? std::to_string(axis.extent) : to_string(axis.kind));
      }
      out.line("input {}: {}[{}];", input.name, ir::to_string(input.type), fmt::join(axes, ", "));
    }
    std::vector<bool> read(pattern.inputs.size());
    for (const auto& branch : pattern.branches) mark_read(*branch.set, read);
    for (std::size_t i = 0; i < pattern.inputs.size(); ++i) {
      if (pattern.inputs[i].block > 0 && !read[i]) mention(i);
    }
  }

  static void mark_read(const Expr& e, std::vector<bool>& read) {
    if (e.op == Op::input) read[static_cast<std::size_t>(e.input)] = true;
    for (const auto& arg : e.args) mark_read(*arg, read);
  }

  static void mark_read(const Set& set, std::vector<bool>& read) {
    if (set.input >= 0) read[static_cast<std::size_t>(set.input)] = true;
    if (set.expr) mark_read(*set.expr, read);
    for (const auto& child : set.children) mark_read(*child, read);
  }

  /// The size of its blocks stands where an input is used. One whose uses were all simplified away gets a definition
  /// that says it.
  void mention(std::size_t i) {
    const Input& input = pattern.inputs[i];
    std::string name = input.name + "_in_blocks";
    while (std::find(names.begin(), names.end(), name) != names.end()) name += '_';
    std::string indices;
    for (std::size_t axis = 0; axis < input.axes.size(); ++axis) indices += axis == 0 ? "0" : ", 0";
    out.line("let {} = blocks({}, where({}[{}] > {}));", name, input.block, input.name, indices,
             input.type == InputType::f32 ? "0.0" : "0");
  }

  /// Number of branches from `first` on that one `branches` statement with head groups can say.
  std::size_t group_run(std::size_t first) const {
    if (!grouped(first)) return 0;
    HeadSet expected = pattern.branches[first].heads;
    const auto count = static_cast<std::size_t>(expected.count);
    for (std::size_t i = 0; i < count; ++i) {
      expected.index = static_cast<std::int64_t>(i);
      const std::size_t at = first + i;
      if (at >= parts.size() || pattern.branches[at].heads != expected || parts[at].size() != 1) return 0;
      const Set& set = *parts[at].front();
      if (set.kind != SetKind::dilated || set.all_queries != parts[first].front()->all_queries) return 0;
    }
    return count;
  }

  void groups(std::size_t first, std::size_t count) {
    Numbers segments, rates;
    std::vector<std::string> phases;
    for (std::size_t i = first; i < first + count; ++i) {
      const Set& set = *parts[i].front();
      segments.push_back(set.args[0]);
      rates.push_back(set.args[1]);
      phases.push_back(print(*set.expr, names));
    }
    const bool equal = std::all_of(phases.begin(), phases.end(), [&](const auto& p) { return p == phases[0]; });
    const bool last = pattern.branches[first].heads.kind == HeadSet::Kind::group_last;
    out.line("branches dilated(segments: {}, rates: {}, phase: {}, heads: {}{});", bracket(segments), bracket(rates),
             equal ? phases[0] : fmt::format("[{}][i]", fmt::join(phases, ", ")), last ? "groups_last" : "groups",
             parts[first].front()->all_queries ? ", queries: all" : "");
  }

  std::string heads(const HeadSet& set) const {
    if (set.kind == HeadSet::Kind::all) return "";
    if (set.kind == HeadSet::Kind::range) return fmt::format(" on heads {}..{}", set.lo, set.hi);
    return fmt::format(" on heads group {} of {}", set.index, set.count);
  }

  void branch(std::size_t i) {
    const SetPtr set = make_set(SetKind::intersection, parts[i]);
    out.line("branch {}{};", print_set(*set), heads(pattern.branches[i].heads));
  }

  void body() {
    for (std::size_t i = 0; i < pattern.branches.size();) {
      const std::size_t run = group_run(i);
      if (run > 0) groups(i, run);
      if (run == 0) branch(i);
      i += std::max<std::size_t>(run, 1);
    }
    for (const auto& set : kept) out.line("keep {};", SetPrinter{names}.operand(*set, 0));
    out.line("combine {};", ir::to_string(pattern.combine));
    if (pattern.scale) out.line("scale {};", print(*pattern.scale, names));
    if (pattern.score) out.line("score {};", print(*pattern.score, names));
    if (pattern.sink_logit) out.line("sink_logit {};", print(*pattern.sink_logit, names));
    if (pattern.sigmoid) out.line("weights sigmoid({});", print(*pattern.sigmoid, names));
    if (pattern.dropout > 0) out.line("dropout {};", print(*constant_real(pattern.dropout)));
    if (pattern.ring) {
      const auto ranks = pattern.ring->ranks;
      out.line("ring {} {};", ranks ? std::to_string(*ranks) : "any", ir::to_string(pattern.ring->layout));
    }
    if (pattern.schedule.empty()) return;
    out.line("schedule {{");
    out.indent();
    for (const auto& hint : pattern.schedule) out.line("{}: {};", hint.key, hint.value);
    out.dedent();
    out.line("}}");
  }
};

}  // namespace

std::string print(const Set& set, const std::vector<std::string>& input_names) {
  return SetPrinter{input_names}.print(set);
}

std::string print(const Pattern& pattern) {
  PatternPrinter printer{pattern, {}};
  for (const auto& input : pattern.inputs) printer.names.push_back(input.name);
  printer.factor();
  printer.out.line("pattern {} {{", pattern.name);
  printer.out.indent();
  printer.header();
  printer.body();
  printer.out.dedent();
  printer.out.line("}}");
  return std::move(printer.out).take();
}

}  // namespace weft::ir
