#include "compiler/ir/lower_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <utility>

namespace weft::ir {
namespace {

constexpr std::int64_t kLargestSize = std::int64_t{1} << 31;
constexpr std::size_t kMostParts = std::size_t{1} << 21;  ///< of the intersections of all branches
constexpr int kDeepestUse = 64;

template <typename T, std::size_t N>
T word_to_enum(const std::string& word, const std::array<T, N>& all) {
  const auto* found = std::find_if(all.begin(), all.end(), [&](T t) { return word == to_string(t); });
  return found == all.end() ? all.front() : *found;
}

/// A pattern whose statements are being taken, and who takes them.
struct Scope {
  Names names;
  Scope* user = nullptr;
};

/// A statement with the names in force in its pattern.
struct Placed {
  const dsl::Statement* statement;
  const Scope* scope;
};

class Assembler {
 public:
  explicit Assembler(Lowering& l) : l_(l) {}

  void run(const dsl::PatternDef& def, const Params& params) {
    for (const auto& definition : l_.file.constants) {
      constants_.values[definition.name] = lower_value(l_, constants_, *definition.value);
    }
    Scope& scope = open(nullptr);
    bind_params(l_, def, params, scope.names);
    l_.pattern.name = def.name;
    l_.pattern.name_range = def.name_range;
    // Parameters that have no value would only repeat themselves in what follows.
    if (l_.failed()) return;
    collect(def, scope);
    for (const Placed& placed : rest_) lower_statement(*placed.statement, placed.scope->names);
    check_together();
    combine_branches(def);
    if (!l_.failed()) finish(l_);
  }

 private:
  Scope& open(Scope* user) {
    scopes_.push_back({.names = {.outer = &constants_}, .user = user});
    return scopes_.back();
  }

  /// Sizes and inputs first, so that sets know them; then `let` and `use` in order, and the rest is
  /// kept until all names are known.
  void collect(const dsl::PatternDef& def, Scope& scope) {
    for (const auto& statement : def.statements) lower_header(statement, scope.names);
    for (const auto& statement : def.statements) {
      if (statement.kind == dsl::StatementKind::let) {
        define(scope, statement.word, definition(scope.names, *statement.value));
      } else if (statement.kind == dsl::StatementKind::use) {
        use(statement, scope);
      } else {
        rest_.push_back({&statement, &scope});
      }
    }
  }

  Value definition(const Names& names, const dsl::Expr& e) {
    BlockUses before = std::exchange(l_.uses, {});
    Value value = lower_value(l_, names, e);
    if (!l_.uses.empty()) value.uses = std::make_shared<const BlockUses>(l_.uses);
    before.merge(l_.uses);
    l_.uses = std::move(before);
    return value;
  }

  /// Names of a used pattern are also its user's, unless the user has one of its own.
  void define(Scope& scope, const std::string& name, const Value& value) {
    scope.names.values[name] = value;
    for (Scope* s = scope.user; s; s = s->user) s->names.values.emplace(name, value);
  }

  void use(const dsl::Statement& statement, Scope& scope) {
    const dsl::PatternDef* def = l_.file.find(statement.value->word);
    if (!def || depth_ == kDeepestUse) {
      l_.lose();
      return;
    }
    ++depth_;
    Scope& inner = open(&scope);
    bind_arguments(l_, *def, *statement.value, scope.names, inner.names);
    if (!l_.failed()) collect(*def, inner);
    --depth_;
  }

  std::optional<std::int64_t> positive(const Names& names, const dsl::ExprPtr& e) {
    if (!e) return std::nullopt;
    const auto value = lower_integer(l_, names, *e);
    if (!value || (*value >= 1 && *value <= kLargestSize)) return value;
    l_.report(revealed(Code::value_range, e->range, fmt::format("{} is not in 1..{}", *value, kLargestSize)));
    return std::nullopt;
  }

  void lower_header(const dsl::Statement& s, const Names& names) {
    using dsl::StatementKind;
    Pattern& p = l_.pattern;
    if (s.kind == StatementKind::heads) {
      p.heads = positive(names, s.value);
      p.kv_heads = positive(names, s.second);
      p.heads_range = s.range;
      check_heads(s);
    } else if (s.kind == StatementKind::dim) {
      p.dim = positive(names, s.value);
      p.dim_v = positive(names, s.second);
      p.dim_range = s.range;
    } else if (s.kind == StatementKind::dtype) {
      p.dtype = word_to_enum(s.word, std::array{DType::f32, DType::f16, DType::bf16});
      p.dtype_range = s.range;
    } else if (s.kind == StatementKind::tokens) {
      p.tokens.kind = s.word == "any"           ? Tokens::Kind::any
                      : s.word == "multiple_of" ? Tokens::Kind::multiple_of
                                                : Tokens::Kind::exact;
      p.tokens.count = positive(names, s.value).value_or(0);
    } else if (s.kind == StatementKind::grid) {
      for (const auto& extent : s.extents) p.grid.push_back(positive(names, extent).value_or(1));
    } else if (s.kind == StatementKind::input) {
      lower_input(s, names);
    }
  }

  void check_heads(const dsl::Statement& s) {
    const auto heads = l_.pattern.heads, shared = l_.pattern.kv_heads;
    if (!heads || !shared || *heads % *shared == 0) return;
    l_.report(revealed(Code::heads_multiple, s.range,
                       fmt::format("{} heads are not a multiple of {} key/value heads", *heads, *shared)));
  }

  void lower_input(const dsl::Statement& s, const Names& names) {
    Input input{.name = s.word, .axes = {}, .range = s.name_range};
    input.type = word_to_enum(s.type, std::array{InputType::i32, InputType::u8, InputType::f32});
    constexpr std::array kWords = {"batch", "heads", "queries", "keys", "tokens", "blocks"};
    for (const auto& axis : s.axes) {
      const auto* word = std::find(kWords.begin(), kWords.end(), axis.word);
      input.axes.push_back({.kind = static_cast<Axis::Kind>(word - kWords.begin())});
      if (word == kWords.end()) input.axes.back().extent = positive(names, axis.extent).value_or(1);
    }
    l_.pattern.inputs.push_back(std::move(input));
  }

  void lower_statement(const dsl::Statement& s, const Names& names) {
    using dsl::StatementKind;
    switch (s.kind) {
      case StatementKind::branch:
        return lower_branch(s, names);
      case StatementKind::branches:
        return add(lower_branches(l_, names, s));
      case StatementKind::keep:
        return lower_keep(s, names);
      case StatementKind::combine:
        return lower_combine(s);
      case StatementKind::scale:
        lower_factor(s, names, l_.pattern.scale);
        return check_scale(s);
      case StatementKind::score:
        return lower_factor(s, names, l_.pattern.score);
      case StatementKind::sink_logit:
        sink_range_ = s.range;
        return lower_factor(s, names, l_.pattern.sink_logit);
      case StatementKind::weights:
        return lower_weights(s, names);
      case StatementKind::dropout:
        return lower_dropout(s, names);
      case StatementKind::ring:
        return lower_ring(s, names);
      case StatementKind::schedule:
        return lower_schedule(s, names);
      case StatementKind::heads:
      case StatementKind::dim:
      case StatementKind::dtype:
      case StatementKind::tokens:
      case StatementKind::grid:
      case StatementKind::input:
      case StatementKind::let:
      case StatementKind::use:
        return;
    }
  }

  void add(std::vector<Branch> branches) {
    const bool was_full = l_.pattern.branches.size() > kMostBranches;
    for (auto& branch : branches) l_.pattern.branches.push_back(std::move(branch));
    if (was_full || l_.pattern.branches.size() <= kMostBranches) return;
    l_.report(revealed(Code::too_many, l_.pattern.branches.back().range,
                       fmt::format("a pattern has {} branches at most", kMostBranches)));
  }

  void lower_branch(const dsl::Statement& s, const Names& names) {
    SetPtr set = lower_set(l_, names, *s.value);
    const auto heads = s.second ? lower_head_range(l_, names, *s.second) : HeadSet{};
    if (set && heads) add({{std::move(set), *heads, s.range}});
  }

  void lower_keep(const dsl::Statement& s, const Names& names) {
    if (SetPtr set = lower_set(l_, names, *s.value)) keeps_.push_back(std::move(set));
  }

  void lower_combine(const dsl::Statement& s) {
    combine_range_ = s.range;
    l_.pattern.combine = word_to_enum(s.word, std::array{Combine::joint, Combine::unite, Combine::sum, Combine::mean});
    if (s.detached) l_.pattern.combine = Combine::joint_detached;
  }

  void lower_factor(const dsl::Statement& s, const Names& names, ExprPtr& out) {
    out = lower_expr(l_, names, *s.value);
    if (out && out->type == Type::integer) out = apply(Op::to_real, {out}, out->range);
  }

  void check_scale(const dsl::Statement& s) {
    const ExprPtr& scale = l_.pattern.scale;
    if (!scale || scale->op != Op::constant || std::isfinite(scale->real)) return;
    l_.report(revealed(Code::value_range, s.value->range, "a scale is a finite number"));
  }

  /// Without an expression the sum of the weights stays near 1 at any length.
  void lower_weights(const dsl::Statement& s, const Names& names) {
    if (s.word != "sigmoid") return;
    weights_range_ = s.range;
    if (s.value) return lower_factor(s, names, l_.pattern.sigmoid);
    const ExprPtr keys = apply(Op::log, {apply(Op::to_real, {variable(Variable::n_k)})});
    l_.pattern.sigmoid = apply(Op::subtract, {variable(Variable::s), keys}, s.range);
  }

  /// A row's sink and its sigmoids have nothing to do with softmaxes of its branches.
  void check_together() {
    const Pattern& p = l_.pattern;
    const auto refuse = [&](SourceRange range, std::string message, SourceRange other, std::string note) {
      Diagnostic d = revealed(Code::contradiction, range, std::move(message));
      if (other.end > other.begin) d.places.push_back({other, "beside this"});
      d.notes.push_back(std::move(note));
      l_.report(std::move(d));
    };
    if (p.sigmoid && p.sink_logit)
      refuse(sink_range_, "'sink_logit' joins a denominator, and 'weights sigmoid' has none", weights_range_,
             "leave one of both out");
    if (p.sigmoid && p.combine != Combine::joint && p.combine != Combine::unite)
      refuse(combine_range_, fmt::format("'combine {}' is about softmaxes of branches", to_string(p.combine)),
             weights_range_, "'weights sigmoid' goes with 'joint' and 'union'");
    if (p.sink_logit && per_branch(p.combine))
      refuse(combine_range_, fmt::format("'combine {}' has a softmax for each branch", to_string(p.combine)),
             sink_range_, "'sink_logit' goes with 'joint' and 'union', where a row has one");
  }

  void lower_dropout(const dsl::Statement& s, const Names& names) {
    const auto p = lower_real(l_, names, *s.value);
    if (!p) return;
    l_.pattern.dropout = *p;
    if (*p >= 0 && *p < 1) return;
    l_.report(revealed(Code::dropout_range, s.value->range, fmt::format("dropout is {}, outside [0, 1)", *p)));
  }

  void lower_ring(const dsl::Statement& s, const Names& names) {
    l_.pattern.ring = Ring{.ranks = positive(names, s.value)};
    l_.pattern.ring->layout =
        word_to_enum(s.word, std::array{RingLayout::contiguous, RingLayout::zigzag, RingLayout::striped});
  }

  void lower_schedule(const dsl::Statement& s, const Names& names) {
    for (const auto& entry : s.schedule) {
      const auto value = lower_integer(l_, names, *entry.value);
      if (value) l_.pattern.schedule.push_back({entry.key, *value, entry.key_range});
    }
  }

  /// Every branch holds them all: what is short to say must not be long to hold.
  std::size_t parts_of_keeps() const {
    std::size_t parts = 0;
    for (const auto& keep : keeps_) parts += std::max<std::size_t>(1, keep->children.size());
    return parts;
  }

  void combine_branches(const dsl::PatternDef& def) {
    auto& branches = l_.pattern.branches;
    if (l_.failed()) return;
    if (branches.empty()) branches.push_back({make_set(SetKind::all), {}, def.name_range});
    if (parts_of_keeps() * branches.size() > kMostParts) {
      return l_.report(
          revealed(Code::too_large, def.name_range, "so many 'keep' statements on so many branches are too large"));
    }
    for (auto& branch : branches) {
      std::vector<SetPtr> parts{branch.set};
      parts.insert(parts.end(), keeps_.begin(), keeps_.end());
      branch.set = limited(l_, make_set(SetKind::intersection, std::move(parts), branch.set->range), branch.range);
    }
  }

  Lowering& l_;
  Names constants_ = {};
  std::deque<Scope> scopes_ = {};
  std::vector<Placed> rest_ = {};
  std::vector<SetPtr> keeps_ = {};
  SourceRange combine_range_ = {}, sink_range_ = {}, weights_range_ = {};
  int depth_ = 0;
};

}  // namespace

void Lowering::report(Diagnostic d) {
  if (unreachable > 0) return;
  if (findings.size() < dsl::kMostFindings) findings.push_back(std::move(d));
}

bool Lowering::failed() const {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Diagnostic& d) { return d.severity == Severity::error; });
}

std::optional<int> Lowering::find_input(const std::string& name) const {
  for (std::size_t i = 0; i < pattern.inputs.size(); ++i) {
    if (pattern.inputs[i].name == name) return static_cast<int>(i);
  }
  return std::nullopt;
}

void Lowering::use(int input, std::int64_t inner_block) {
  const auto& axes = pattern.inputs[static_cast<std::size_t>(input)].axes;
  const auto by_block = [](const Axis& axis) { return axis.kind == Axis::Kind::blocks; };
  if (std::none_of(axes.begin(), axes.end(), by_block)) return;
  const std::int64_t tokens = block > 0 && inner_block > 0 ? bounded_product(block, inner_block) : block + inner_block;
  uses.insert({input, tokens});
}

bool Lowering::step(std::int64_t count, SourceRange range) {
  constexpr std::int64_t kMostSteps = std::int64_t{1} << 19;
  steps += count;
  if (steps <= kMostSteps) return true;
  if (!std::exchange(exhausted, true)) report_too_large(*this, range);
  return false;
}

const Value* recall(Lowering& l, const Names& names, const dsl::Expr& e) {
  const Value* value = names.find(e.word);
  if (!value || !value->uses || !l.step(static_cast<std::int64_t>(value->uses->size()), e.range)) return value;
  for (const BlockUse& use : *value->uses) l.use(use.input, use.block);
  return value;
}

Result<Pattern> lower(const dsl::File& file, const std::string& name, const Params& params,
                      std::vector<Diagnostic>* warnings) {
  const dsl::PatternDef* def = file.find(name);
  if (!def) return user_error(fmt::format("the file has no pattern '{}'", name));
  Lowering l{.file = file};
  Assembler(l).run(*def, params);
  if (l.failed()) return user_error(std::move(l.findings));
  if (l.lost) return internal_error(fmt::format("the pattern '{}' passed the checks and cannot be lowered", name));
  if (warnings) warnings->insert(warnings->end(), l.findings.begin(), l.findings.end());
  return std::move(l.pattern);
}

}  // namespace weft::ir
