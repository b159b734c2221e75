#include "compiler/ir/elaborate.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::ir {
namespace {

constexpr std::int64_t kMostNodes = std::int64_t{1} << 16;
constexpr int kDeepest = 4096;

}  // namespace

Context constant_context(std::string where) { return {.where = std::move(where)}; }

Context size_context(std::string where) { return {.where = std::move(where), .sizes = true}; }

Context set_context() { return {.variables = variables_at(Place::pair), .where = "a set", .inputs = true}; }

void Elaboration::begin(const dsl::Summary& summary) {
  pattern = {};
  const auto find = [&](dsl::StatementKind kind) {
    const auto found = summary.once.find(kind);
    return found == summary.once.end() ? nullptr : found->second;
  };
  const dsl::Statement* shape = find(dsl::StatementKind::grid);
  grid = shape ? shape->extents.size() : 0;
  const dsl::Statement* count = find(dsl::StatementKind::heads);
  const bool literal = count && count->value && count->value->kind == ExprKind::integer;
  heads = literal ? std::optional(count->value->integer) : std::nullopt;
}

bool is_too_large(const Set& set) { return set.nodes > kMostNodes || set.depth > kDeepest; }

std::optional<int> Elaboration::find_input(const std::string& name) const {
  for (std::size_t i = 0; i < pattern.inputs.size(); ++i) {
    if (pattern.inputs[i].name == name) return static_cast<int>(i);
  }
  return std::nullopt;
}

bool Elaborator::step(std::size_t count, SourceRange range) {
  constexpr std::int64_t kMostSteps = std::int64_t{1} << 19;
  if (run_.holes) return true;  // Everything is looked at once.
  run_.steps += static_cast<std::int64_t>(count);
  if (run_.steps <= kMostSteps) return true;
  if (!std::exchange(run_.exhausted, true)) too_large(range);
  return false;
}

void Elaborator::too_large(SourceRange range) { findings_.add(Code::too_large, range, std::string(kTooLarge)); }

Value Elaborator::limited(Value value, SourceRange range) {
  const ExprPtr& e = value.expr;
  if (!e || (e->nodes <= kMostNodes && e->depth <= kDeepest)) return value;
  too_large(range);
  return {};
}

SetPtr Elaborator::limited(SetPtr set, SourceRange range) {
  if (!set || !is_too_large(*set)) return set;
  too_large(range);
  return nullptr;
}

Value Elaborator::value(const dsl::Expr& e, const Context& context) {
  // A name is looked for in every comprehension around it.
  if (findings_.full() || !step(1 + bound_.size() / 8, e.range)) return {};
  switch (e.kind) {
    case ExprKind::integer:
      return value_of(constant(e.integer, e.range));
    case ExprKind::real:
      return value_of(constant_real(e.real, e.range));
    case ExprKind::boolean:
      return value_of(constant_bool(e.boolean, e.range));
    case ExprKind::name:
      return name(e, context);
    case ExprKind::list:
      return list(e, context);
    case ExprKind::range:
      return range(e, context);
    case ExprKind::call:
      return call(e, context);
    case ExprKind::comprehension:
      return comprehension(e, context);
    case ExprKind::index:
      return index(e, context);
    case ExprKind::unary:
      return unary(e, context);
    case ExprKind::binary:
      return binary(e, context);
    case ExprKind::compare:
      return compare(e, context);
  }
  return {};
}

Value Elaborator::list(const dsl::Expr& e, const Context& context) {
  Kind kind = Kind::unknown;
  std::vector<Value> items;
  bool known = true;
  for (const dsl::Arg& arg : e.args) {
    Value item = value(*arg.value, context);
    if (item.kind == Kind::unknown) return {};
    const bool fits = is_number(item.kind) || item.kind == Kind::boolean || item.kind == Kind::range;
    const bool alike = kind == Kind::unknown || kind == item.kind || (is_number(kind) && is_number(item.kind));
    if (!fits || !alike) {
      wrong_type(*arg.value, item, fits ? fmt::format("a list of {}", plural(kind)) : "a list");
      return {};
    }
    if (kind != Kind::real) kind = item.kind;
    known = known && !is_hole(item);
    items.push_back(std::move(item));
  }
  if (!known) return {.kind = Kind::list, .item = kind, .length = items.size()};
  if (kind == Kind::real) std::transform(items.begin(), items.end(), items.begin(), to_real);
  return list_of(kind, std::move(items));
}

/// Lists are written out before a kernel runs, and so are ranges.
Value Elaborator::range(const dsl::Expr& e, const Context& context) {
  Context ends = context;
  ends.variables = 0;
  ends.inputs = false;
  ends.where = "a range";
  Value lo = integer(*e.args[0].value, ends), hi = integer(*e.args[1].value, ends);
  if (lo.kind == Kind::unknown || hi.kind == Kind::unknown) return {};
  Value out{.kind = Kind::range};
  if (lo.expr && hi.expr)
    out.items = std::make_shared<const std::vector<Value>>(std::vector<Value>{std::move(lo), std::move(hi)});
  return out;
}

Value Elaborator::name(const dsl::Expr& e, const Context& context) {
  for (auto bound = bound_.rbegin(); bound != bound_.rend(); ++bound) {
    if (bound->name == e.word) return bound->value;
  }
  Symbol* known = names_.find(e.word);
  const dsl::VariableWord* word = dsl::find_variable(e.word);
  const bool has_value = word && (context.variables & bit_of(e.word)) != 0;
  if (known && has_value && (word->place == Place::own || word->place == Place::branches)) {
    known->used = true;
    if (run_.holes) {
      auto& d = findings_.add(Code::hidden_name, e.range, fmt::format("'{}' is the branch's own number here", e.word),
                              "not the one defined above");
      d.places.push_back({known->place, "hidden inside the phase"});
    }
    known = nullptr;
  }
  if (known) return symbol(e, *known, context);
  // `segment` is a set, too.
  if (word && (e.word != "segment" || has_value)) return variable(e, *word, context);
  if (const dsl::SetWord* set = dsl::find_set(e.word)) return set_name(e, *set);
  if (dsl::find_function(e.word)) {
    findings_.add(Code::not_callable, e.range, fmt::format("the function '{}' needs arguments", e.word));
    return {};
  }
  return unknown_name(e);
}

Value Elaborator::set_name(const dsl::Expr& e, const dsl::SetWord& word) {
  if (e.word == "axial" && run_.grid == 0U) {
    findings_.add(Code::needs_grid, e.range, "'axial' needs a 'grid' statement");
  }
  if (word.parameters.empty())
    return {.kind = Kind::set, .set = run_.holes ? nullptr : made_set({e, word.parameters, {}})};
  std::string list;
  for (const Parameter& p : word.parameters) {
    if (p.required) list += fmt::format("{}{}", list.empty() ? "" : ", ", p.name);
  }
  findings_.add(Code::not_callable, e.range, fmt::format("the set '{}' needs arguments: {}({})", e.word, e.word, list));
  return {};
}

Value Elaborator::symbol(const dsl::Expr& e, Symbol& symbol, const Context& context) {
  symbol.used = true;
  const auto refuse = [&](Code code, std::string message) -> Diagnostic& {
    auto& d = findings_.add(code, e.range, std::move(message));
    d.places.push_back({symbol.place, "defined here"});
    return d;
  };
  const Effects& effects = symbol.effects;
  if (context.sizes && symbol.kind == SymbolKind::let) {
    auto& d = refuse(Code::variable_not_here,
                     fmt::format("'{}' is a 'let', which has no value in {}", e.word, context.where));
    d.notes.emplace_back("sizes are made of constants and parameters");
    return {};
  }
  if (!symbol.defined) {
    refuse(Code::used_early, fmt::format("'{}' is used before its definition", e.word));
    return {};
  }
  const Variables missing = effects.variables & ~context.variables;
  for (const dsl::VariableWord& row : dsl::variable_words()) {
    if ((bit_of(row.name) & missing) == 0) continue;
    refuse(Code::variable_not_here,
           fmt::format("'{}' reads '{}', which has no value in {}", e.word, row.name, context.where));
    return {};
  }
  if (effects.inputs && !context.inputs) {
    refuse(Code::variable_not_here,
           fmt::format("'{}' reads an input, which has no value in {}", e.word, context.where));
    return {};
  }
  if (effects.mixed && context.strict) {
    refuse(Code::mixed_numbers,
           fmt::format("'{}' mixes integers and reals, which {} does not allow", e.word, context.where));
    return {};
  }
  if (effects.rounds && !context.rounds) {
    auto& d = refuse(Code::mixed_numbers,
                     fmt::format("'{}' rounds what a kernel computes, which {} does not allow", e.word, context.where));
    d.notes.emplace_back(kExact);
    return {};
  }
  if (effects.needs_blocks && !context.in_blocks) {
    refuse(Code::needs_blocks, fmt::format("'{}' has a meaning inside 'blocks(…)' only", e.word));
    return {};
  }
  if (!step(effects.uses.size(), e.range)) return {};
  const BlockUses uses = std::exchange(symbol.effects.uses, {});
  effects_.merge(symbol.effects);
  for (const BlockUse& inner : uses) use(inner.input, inner.block);
  symbol.effects.uses = uses;
  return symbol.value;
}

Value Elaborator::variable(const dsl::Expr& e, const dsl::VariableWord& word, const Context& context) {
  const Variables bit = bit_of(word.name);
  if ((context.variables & bit) == 0) {
    auto& d =
        findings_.add(Code::variable_not_here, e.range, fmt::format("'{}' has no value in {}", e.word, context.where));
    if (word.place == Place::own) {
      d.notes.push_back(fmt::format("'{}' is a branch's own number inside the phase of 'dilated(…)'", e.word));
    } else if (word.place == Place::branches) {
      d.notes.push_back(fmt::format("'{}' is a branch's number inside the phase of 'branches dilated(…)'", e.word));
    } else if (context.variables == 0) {
      d.notes.push_back("only constants and parameters are known before a kernel runs");
    }
    return {};
  }
  effects_.variables |= bit;
  for (const auto& [name, number] : own_) {
    if (name == e.word) return number;
  }
  if (run_.holes) return {.kind = e.word == "s" ? Kind::real : Kind::integer};
  constexpr std::array kVariables = {Variable::b,   Variable::h,   Variable::q,     Variable::k,
                                     Variable::n_q, Variable::n_k, Variable::heads, Variable::s};
  const auto* found =
      std::find_if(kVariables.begin(), kVariables.end(), [&](Variable v) { return e.word == to_string(v); });
  return value_of(ir::variable(*found, e.range));
}

Value Elaborator::unknown_name(const dsl::Expr& e) {
  if (const std::string_view known = dsl::word_elsewhere(e.word); !known.empty()) {
    auto& d = findings_.add(Code::unknown_word, e.range, fmt::format("'{}' is called '{}' here", e.word, known));
    d.fix = Fix{e.range, std::string(known), fmt::format("write '{}'", known)};
    return {};
  }
  std::vector<std::string> candidates = names_.list();
  for (const auto& list : {dsl::set_names(), dsl::function_names()})
    candidates.insert(candidates.end(), list.begin(), list.end());
  for (const dsl::VariableWord& row : dsl::variable_words()) {
    if (row.name.size() > 1 && row.place != Place::own) candidates.emplace_back(row.name);
  }
  for (const std::string& literal : dsl::words_of(dsl::WordKind::literal)) candidates.push_back(literal);
  auto& d =
      findings_.add(Code::unknown_word, e.range, fmt::format("'{}' is not a name or word that is known here", e.word));
  dsl::suggest(d, e.word, e.range, candidates);
  d.notes.emplace_back("all words: weft help sets, weft help functions, weft help variables");
  return {};
}

void Elaborator::wrong_type(const dsl::Expr& e, const Value& found, std::string_view wanted) {
  if (found.kind == Kind::unknown) return;
  auto& d =
      findings_.add(Code::wrong_type, e.outer,
                    fmt::format("'{}' is {}, but {} is wanted here", findings_.text(e.outer), describe(found), wanted));
  if (found.kind == Kind::input) d.notes.push_back("an element of an input is written with indices: bias[h, q - k]");
}

/// A value that reads nothing is known, but where there is none: the logarithm of -1.
bool Elaborator::is_number_at(const Value& value, const dsl::Expr& e, const Context& context) {
  if (context.variables != 0 || context.inputs || !value.expr || value.expr->op == Op::constant) return true;
  findings_.add(Code::value_range, e.outer, fmt::format("'{}' is not a number", findings_.text(e.outer)));
  return false;
}

Value Elaborator::integer(const dsl::Expr& e, const Context& context) {
  Value found = value(e, context);
  if (found.kind == Kind::integer) return is_number_at(found, e, context) ? found : Value{};
  wrong_type(e, found, "an integer");
  return {};
}

Value Elaborator::number(const dsl::Expr& e, const Context& context) {
  Value found = value(e, context);
  if (is_number(found.kind)) return is_number_at(found, e, context) ? found : Value{};
  wrong_type(e, found, "a number");
  return {};
}

Value Elaborator::boolean(const dsl::Expr& e, const Context& context) {
  Value found = value(e, context);
  if (found.kind == Kind::boolean) return is_number_at(found, e, context) ? found : Value{};
  wrong_type(e, found, "a boolean");
  return {};
}

SetPtr Elaborator::set(const dsl::Expr& e, const Context& context) {
  // Conditions are let through here, to be told apart from nonsense below.
  Context loose = context;
  loose.variables = variables_at(Place::pair);
  loose.inputs = true;
  Value found = value(e, loose);
  if (found.kind == Kind::set) return found.set;
  if (found.kind == Kind::unknown) return nullptr;
  auto& d =
      findings_.add(Code::not_a_set, e.outer,
                    fmt::format("'{}' is {}, but a set is wanted here", findings_.text(e.outer), describe(found)));
  if (found.kind != Kind::boolean) return nullptr;
  d.label = "a condition makes a set inside 'where(…)' only";
  d.fix = Fix{e.outer, fmt::format("where({})", findings_.whole(e.range)), "put it into 'where(…)'"};
  return nullptr;
}

Value Elaborator::integers(const dsl::Expr& e, const Parameter& parameter) {
  Value found = value(e, constant_context(fmt::format("the {}", parameter.name)));
  if (found.kind == Kind::unknown) return {};
  if (found.kind != Kind::list || (found.item != Kind::integer && found.item != Kind::unknown)) {
    wrong_type(e, found, "a list of integers");
    return {};
  }
  if (!found.items) return found;
  const std::string what = fmt::format("each of the {}", parameter.name);
  bool fine = true;
  for (std::size_t i = 0; i < found.items->size(); ++i) {
    const dsl::Expr& place = e.kind == ExprKind::list ? *e.args[i].value : e;
    fine = within((*found.items)[i], place, what, parameter.minimum, parameter.maximum, parameter.below) && fine;
    if (!fine && &place == &e) break;
  }
  return fine ? found : Value{};
}

bool Elaborator::within(const Value& value, const dsl::Expr& e, std::string_view what, std::int64_t least,
                        std::int64_t most, Code below) {
  const auto number = integer_of(value);
  if (!number || (*number >= least && *number <= most)) return true;
  if (*number < least) {
    findings_.add(below, e.outer, fmt::format("{} must be at least {}, and this is {}", what, least, *number));
  } else {
    findings_.add(Code::value_range, e.outer,
                  fmt::format("{} must be at most {}, and this is {}", what, most, *number));
  }
  return false;
}

}  // namespace weft::ir
