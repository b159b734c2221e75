#include "compiler/base/text_writer.h"
#include "compiler/ir/pattern.h"

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

  std::string print(const Set& set) const {
    const char* word = to_string(set.kind);
    switch (set.kind) {
      case SetKind::all:
      case SetKind::causal:
      case SetKind::axial:
        return word;
      case SetKind::window:
      case SetKind::segment:
      case SetKind::lag:
      case SetKind::sink:
      case SetKind::global:
      case SetKind::prefix:
        return fmt::format("{}({})", word, fmt::join(set.args, ", "));
      case SetKind::dilated:
        return dilated(set);
      case SetKind::strided:
        return fmt::format("strided({}, phase: {})", set.args[0], set.args[1]);
      case SetKind::neighborhood:
        return neighborhood(set);
      case SetKind::blocks:
        return fmt::format("blocks({}, {})", set.args[0], print(*set.children[0]));
      case SetKind::random:
        return fmt::format("random({}, seed: {})", set.args[0], set.args[1]);
      case SetKind::document:
      case SetKind::lengths:
      case SetKind::table:
        return fmt::format("{}({})", word, name(set.input));
      case SetKind::top:
        return top(set);
      case SetKind::where:
        return fmt::format("where({})", ir::print(*set.expr, names));
      case SetKind::intersection:
      case SetKind::unite:
      case SetKind::difference:
        return infix(set);
      case SetKind::complement:
        return fmt::format("!{}", operand(*set.children[0], 3));
      case SetKind::own_query:
      case SetKind::own_key:
        return fmt::format("{}({} of {}, {})", word, set.args[1], set.args[0], to_string(set.layout));
    }
    return word;
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
