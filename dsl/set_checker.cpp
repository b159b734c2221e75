// Arguments: which belongs to which parameter, and whether it is what the parameter wants.

#include "dsl/expression_checker.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::dsl {

std::vector<const Expr*> ExpressionChecker::match(const Expr& call, const std::vector<Parameter>& parameters) {
  std::vector<const Expr*> found(parameters.size(), nullptr);
  std::vector<std::string> names;
  for (const Parameter& p : parameters) names.emplace_back(p.name);
  bool named = false;
  std::size_t next = 0;
  for (const Arg& arg : call.args) {
    std::size_t place = next;
    if (arg.name.empty()) {
      if (named) {
        findings_.add(Code::argument_order, arg.value->outer,
                      fmt::format("an argument without a name stands behind one with a name in '{}'", call.word));
        return found;
      }
      ++next;
      if (place >= parameters.size()) {
        findings_.add(Code::argument_count, arg.value->outer,
                      parameters.empty() ? fmt::format("'{}' takes no arguments", call.word)
                                         : fmt::format("'{}' takes at most {} argument{}", call.word, parameters.size(),
                                                       parameters.size() == 1 ? "" : "s"));
        return found;
      }
    } else {
      named = true;
      place = static_cast<std::size_t>(std::find(names.begin(), names.end(), arg.name) - names.begin());
      if (place == names.size()) {
        auto& d = findings_.add(Code::unknown_argument, arg.name_range,
                                fmt::format("'{}' has no argument '{}'", call.word, arg.name));
        d.notes.push_back(names.empty() ? std::string("it takes none")
                                        : fmt::format("its arguments are {}", fmt::join(names, ", ")));
        suggest(d, arg.name, arg.name_range, names);
        continue;
      }
    }
    if (found[place]) {
      auto& d = findings_.add(Code::argument_twice, arg.name.empty() ? arg.value->outer : arg.name_range,
                              fmt::format("argument '{}' of '{}' is given twice", names[place], call.word));
      d.places.push_back({found[place]->outer, "given here"});
      continue;
    }
    found[place] = arg.value.get();
  }
  return found;
}

Typed ExpressionChecker::set_call(const Expr& e, const SetWord& word, const Context& context) {
  if (word.parameters.empty()) {
    auto& d = findings_.add(Code::not_callable, e.range, fmt::format("the set '{}' takes no arguments", word.name));
    d.fix = Fix{e.range, std::string(word.name), "leave out the parentheses"};
    return {.kind = Kind::set};
  }
  if (word.name == "where" && e.args.size() == 3) {
    auto& d = findings_.add(Code::argument_count, e.range, "'where' makes a set of one condition");
    d.fix = Fix{e.word_range, "select", "choose between two values with 'select'"};
    return {};
  }
  const std::size_t before = findings_.count();
  const std::vector<const Expr*> args = match(e, word.parameters);
  const bool matched = findings_.count() == before;
  std::string missing;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const Parameter& parameter = word.parameters[i];
    if (args[i]) argument(*args[i], parameter, word.name, context, e.range);
    if (!args[i] && parameter.required)
      missing += fmt::format("{}'{}'", missing.empty() ? "" : " and ", parameter.name);
  }
  if (!missing.empty() && matched) {
    findings_.add(Code::argument_count, e.range, fmt::format("'{}' needs {}", word.name, missing));
  }
  if (word.name == "top" && !context.in_blocks) {
    effects_.needs_blocks = true;
    if (!context.deferred) {
      findings_.add(Code::needs_blocks, e.range, "'top' chooses blocks and stands inside 'blocks(…)' only");
    }
  }
  return {.kind = Kind::set};
}

void ExpressionChecker::argument(const Expr& e, const Parameter& parameter, std::string_view callee,
                                 const Context& context, SourceRange call) {
  const std::string where = fmt::format("'{}' of '{}'", parameter.name, callee);
  switch (parameter.type) {
    case ArgType::integer:
      at_least(integer(e, constant_context(where)), e, where, parameter.minimum, parameter.below);
      break;
    case ArgType::boolean:
      (void)boolean(e, constant_context(where));
      break;
    case ArgType::per_axis:
      per_axis(e, parameter, Kind::integer);
      break;
    case ArgType::flag_per_axis:
      per_axis(e, parameter, Kind::boolean);
      break;
    case ArgType::phase:
    case ArgType::branches_phase: {
      const Place place = parameter.type == ArgType::phase ? Place::own : Place::branches;
      const Context phase{.variables = variables_at(place), .where = "a phase", .strict = true};
      at_least(integer(e, phase), e, "a phase", parameter.minimum, parameter.below);
      break;
    }
    case ArgType::set: {
      Context inner = context;
      inner.in_blocks = true;
      set(e, inner);
      break;
    }
    case ArgType::condition: {
      Context inner = context;
      inner.variables = variables_at(Place::pair);
      inner.where = "'where'";
      inner.strict = true;
      if (sets_in_condition(e, call)) break;
      const Effects outside = effects_;
      (void)boolean(e, inner);
      effects_.variables = outside.variables;  // A set has all it reads.
      effects_.mixed = outside.mixed;
      break;
    }
    case ArgType::queries:
      queries(e);
      break;
    case ArgType::scorer:
      scorer(e, context);
      break;
    case ArgType::document_input:
    case ArgType::lengths_input:
    case ArgType::table_input:
      fit_input(e, parameter, callee, context);
      break;
    case ArgType::integers:
      (void)integers(e, parameter);
      break;
    case ArgType::policy:
      policy(e);
      break;
  }
}

void ExpressionChecker::per_axis(const Expr& e, const Parameter& parameter, Kind wanted) {
  const std::string where = fmt::format("'{}' of a neighborhood", parameter.name);
  const Typed typed = check(e, constant_context(where));
  if (typed.kind == Kind::unknown) return;
  const bool is_list = typed.kind == Kind::list;
  if (typed.kind != wanted && (!is_list || typed.item != wanted)) {
    wrong_type(e, typed,
               wanted == Kind::integer ? "an integer or a list of integers" : "a boolean or a list of booleans");
    return;
  }
  if (!is_list) return at_least(typed, e, where, parameter.minimum, parameter.below);
  for (std::size_t i = 0; typed.value && e.kind == ExprKind::list && i < e.args.size(); ++i) {
    at_least({.kind = wanted, .value = (*typed.value->items())[i]}, *e.args[i].value, where, parameter.minimum,
             parameter.below);
  }
  if (!typed.length || !grid_) return;
  if (*grid_ == 0 && *typed.length > 1) {
    findings_.add(Code::needs_grid, e.outer, "a list with one value for each axis needs a 'grid' statement");
  } else if (*grid_ > 0 && *typed.length != *grid_) {
    findings_.add(Code::list_lengths, e.outer,
                  fmt::format("{} has {} values, and the grid has {} axes", where, *typed.length, *grid_));
  }
}

void ExpressionChecker::queries(const Expr& e) {
  if (e.kind == ExprKind::name && e.word == "all") return;
  auto& d = findings_.add(Code::wrong_type, e.outer,
                          fmt::format("'queries' is 'all' or left out, not '{}'", findings_.text(e.outer)));
  d.fix = Fix{e.outer, "all", "write 'all'"};
}

void ExpressionChecker::scorer(const Expr& e, const Context& context) {
  if (e.kind == ExprKind::name && e.word == "pooled") return;
  if (e.kind == ExprKind::call && e.word == "input" && e.args.size() == 1 && e.args[0].name.empty()) {
    const Statement* input = input_named(*e.args[0].value, "top", context);
    if (!input) return;
    std::size_t blocks = 0;
    for (const Axis& axis : input->axes) blocks += axis.word == "blocks" ? 1U : 0U;
    if (input->type == "f32" && blocks == 2) return;
    auto& d =
        findings_.add(Code::unfit_input, e.outer, fmt::format("'{}' does not hold scores of blocks", input->word));
    d.places.push_back({input->name_range, "declared here"});
    d.notes.push_back(
        fmt::format("scores are declared like this: input {}: f32[batch, heads, blocks, blocks];", input->word));
    return;
  }
  auto& d = findings_.add(Code::unknown_word, e.outer,
                          fmt::format("'by' is 'pooled' or 'input(…)', not '{}'", findings_.text(e.outer)));
  if (e.kind == ExprKind::name) suggest(d, e.word, e.range, {"pooled"});
}

void ExpressionChecker::policy(const Expr& e) {
  if (e.kind == ExprKind::name && e.word != "partial" && is_one_of(WordKind::policy, e.word)) return;
  const bool partial = e.kind == ExprKind::call && e.word == "partial" && e.args.size() == 1;
  const Expr& list = partial ? *e.args[0].value : e;
  if (list.kind != ExprKind::list) {
    auto& d =
        findings_.add(Code::unknown_word, e.outer, fmt::format("'{}' is not a head policy", findings_.text(e.outer)));
    d.notes.push_back("the policies are all, groups, groups_last, [lo..hi, …] and partial([lo..hi, …])");
    if (e.kind == ExprKind::name) suggest(d, e.word, e.range, words_of(WordKind::policy));
    return;
  }
  struct Known {
    std::int64_t lo, hi;
    const Expr* place;
  };
  std::vector<Known> ranges;
  for (const Arg& arg : list.args) {
    if (const auto known = head_range(*arg.value)) ranges.push_back({known->first, known->second, arg.value.get()});
  }
  if (ranges.size() != list.args.size()) return;
  std::sort(ranges.begin(), ranges.end(), [](const Known& a, const Known& b) { return a.lo < b.lo; });
  std::int64_t covered = 0;
  for (const Known& range : ranges) {
    if (range.lo < covered) {
      findings_.add(Code::head_ranges, range.place->outer,
                    fmt::format("head {} is in an earlier range, too", range.lo));
      return;
    }
    if (range.lo > covered && !partial) {
      auto& d = findings_.add(Code::head_ranges, range.place->outer, fmt::format("head {} is in no range", covered));
      d.fix = Fix{list.outer, fmt::format("partial({})", findings_.whole(list.outer)), "say that it is meant"};
      return;
    }
    covered = range.hi;
  }
  if (heads_ && covered < *heads_ && !partial) {
    auto& d = findings_.add(Code::head_ranges, list.outer, fmt::format("head {} is in no range", covered));
    d.fix = Fix{list.outer, fmt::format("partial({})", findings_.whole(list.outer)), "say that it is meant"};
  }
}

const Statement* ExpressionChecker::input_named(const Expr& e, std::string_view callee, const Context& context) {
  Symbol* known = e.kind == ExprKind::name ? scope_.find(e.word) : nullptr;
  if (known && known->typed.kind == Kind::input) {
    known->used = true;
    return known->typed.input;
  }
  if (known || e.kind != ExprKind::name) {
    const Typed typed = check(e, context);
    wrong_type(e, typed, fmt::format("an input for '{}'", callee));
    return nullptr;
  }
  auto& d = findings_.add(Code::undeclared_input, e.range,
                          fmt::format("'{}' is used, but no input of that name is declared", e.word));
  suggest(d, e.word, e.range, scope_.names());
  return nullptr;
}

void ExpressionChecker::fit_input(const Expr& e, const Parameter& parameter, std::string_view callee,
                                  const Context& context) {
  const Statement* input = input_named(e, callee, context);
  if (!input) return;
  std::vector<std::string_view> rest;  // axes behind `batch` and `heads`
  bool batch = false;
  bool heads = false;
  for (const Axis& axis : input->axes) {
    batch |= axis.word == "batch";
    heads |= axis.word == "heads";
    if (axis.word != "batch" && axis.word != "heads") rest.push_back(axis.word);
  }
  const bool is_table = parameter.type == ArgType::table_input;
  const bool is_lengths = parameter.type == ArgType::lengths_input;
  const bool fits = is_table     ? rest.size() == 2 && rest[1] != "queries"
                    : is_lengths ? rest.empty() && batch && !heads
                                 : rest.size() == 1 && !heads && rest[0] != "queries";
  if (fits && input->type == (is_table ? "u8" : "i32")) {
    const bool by_block = std::find(rest.begin(), rest.end(), "blocks") != rest.end();
    effects_.needs_blocks |= by_block && !context.in_blocks;
    if (by_block && !context.in_blocks && !context.deferred) {
      findings_.add(Code::needs_blocks, e.range,
                    fmt::format("'{}' goes by block numbers, which exist inside 'blocks(…)' only", e.word));
    }
    return;
  }
  const std::string_view wanted = is_table     ? "u8[batch, heads, queries, keys]"
                                  : is_lengths ? "i32[batch]"
                                               : "i32[batch, tokens]";
  auto& d = findings_.add(Code::unfit_input, e.range,
                          fmt::format("the type or axes of '{}' do not fit '{}'", e.word, callee));
  d.places.push_back({input->name_range, "declared here"});
  d.notes.push_back(fmt::format("'{}' wants {}", callee, wanted));
}

}  // namespace weft::dsl
