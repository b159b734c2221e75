// Arguments: which belongs to which parameter, and whether it is what the parameter wants.

#include "compiler/ir/elaborate.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::ir {

using dsl::ArgType;

std::vector<const dsl::Expr*> Elaborator::match(const dsl::Expr& call, const std::vector<Parameter>& parameters) {
  std::vector<const dsl::Expr*> found(parameters.size(), nullptr);
  std::vector<std::string> names;
  for (const Parameter& p : parameters) names.emplace_back(p.name);
  bool named = false;
  std::size_t next = 0;
  for (const dsl::Arg& arg : call.args) {
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
        dsl::suggest(d, arg.name, arg.name_range, names);
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

Value Elaborator::set_call(const dsl::Expr& e, const dsl::SetWord& word, const Context& context) {
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
  const std::vector<const dsl::Expr*> given = match(e, word.parameters);
  const bool matched = findings_.count() == before;
  std::string missing;
  std::vector<Value> args(given.size());
  bool known = !run_.holes;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Parameter& parameter = word.parameters[i];
    if (parameter.type == ArgType::phase) own_ = {{"segment", args[0]}, {"rate", args[1]}};
    const std::int64_t around = run_.block;
    if (parameter.type == ArgType::set) {
      const std::int64_t size = std::max<std::int64_t>(integer_of(args[0]).value_or(1), 1);
      run_.block = bounded_product(std::max<std::int64_t>(around, 1), size);
    }
    if (given[i]) {
      args[i] = argument(*given[i], parameter, word.name, context, e.range);
      known = known && !is_hole(args[i]);
    } else if (parameter.required) {
      missing += fmt::format("{}'{}'", missing.empty() ? "" : " and ", parameter.name);
    }
    run_.block = around;
    own_.clear();
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
  known = known && matched && missing.empty();
  return {.kind = Kind::set, .set = known ? limited(made_set({e, word.parameters, args}), e.range) : nullptr};
}

Value Elaborator::argument(const dsl::Expr& e, const Parameter& parameter, std::string_view callee,
                           const Context& context, SourceRange call) {
  const std::string where = fmt::format("'{}' of '{}'", parameter.name, callee);
  switch (parameter.type) {
    case ArgType::integer: {
      Value found = integer(e, constant_context(where));
      return within(found, e, where, parameter.minimum, parameter.maximum, parameter.below) ? found : Value{};
    }
    case ArgType::boolean:
      return boolean(e, constant_context(where));
    case ArgType::per_axis:
      return per_axis(e, parameter, Kind::integer);
    case ArgType::flag_per_axis:
      return per_axis(e, parameter, Kind::boolean);
    case ArgType::phase:
    case ArgType::branches_phase:
      return phase(e, parameter);
    case ArgType::set: {
      Context inner = context;
      inner.in_blocks = true;
      return {.kind = Kind::set, .set = set(e, inner)};
    }
    case ArgType::condition: {
      Context inner = context;
      inner.variables = variables_at(Place::pair);
      inner.where = "'where'";
      inner.inputs = true;
      inner.strict = true;
      if (sets_in_condition(e, call)) return {};
      const Effects outside = effects_;
      Value found = boolean(e, inner);
      effects_.variables = outside.variables;  // A set has all it reads.
      effects_.inputs = outside.inputs;
      effects_.mixed = outside.mixed;
      return found;
    }
    case ArgType::queries:
      queries(e);
      return {.kind = Kind::boolean, .expr = constant_bool(true)};
    case ArgType::scorer:
      return scorer(e, context);
    case ArgType::document_input:
    case ArgType::lengths_input:
    case ArgType::table_input:
      return fit_input(e, parameter, callee, context);
    case ArgType::integers:
      return integers(e, parameter);
    case ArgType::policy:
      if (is_policy(e) && run_.holes && e.kind != ExprKind::name)
        (void)head_ranges(e.kind == ExprKind::call ? *e.args[0].value : e, e.kind == ExprKind::call);
      return {};
  }
  return {};
}

Value Elaborator::phase(const dsl::Expr& e, const Parameter& parameter) {
  const Place place = parameter.type == ArgType::phase ? Place::own : Place::branches;
  const Value found = integer(e, {.variables = variables_at(place), .where = "a phase", .strict = true});
  if (!within(found, e, "a phase", parameter.minimum, parameter.maximum, parameter.below)) return {};
  if (!found.expr) return found;
  // Head 0 exists in every pattern; more is known when the pattern says how many there are.
  const std::int64_t heads = run_.pattern.heads.value_or(reads(*found.expr, Variable::heads) ? 0 : 1);
  for (std::int64_t h = 0; h < std::min<std::int64_t>(heads, 1024); ++h) {
    const std::int64_t at = evaluate_head(*found.expr, h, heads);
    if (at >= 0) continue;
    findings_.add(Code::negative_phase, e.outer, fmt::format("the phase is {} for head {}", at, h));
    return {};
  }
  return found;
}

Value Elaborator::phase(const dsl::Expr& e, const Parameter& parameter, Value segment, Value rate, Value index) {
  own_ = {{"segment", std::move(segment)}, {"rate", std::move(rate)}, {"i", std::move(index)}};
  Value found = phase(e, parameter);
  own_.clear();
  return found;
}

Value Elaborator::per_axis(const dsl::Expr& e, const Parameter& parameter, Kind wanted) {
  const std::string where = fmt::format("'{}' of a neighborhood", parameter.name);
  Value found = value(e, constant_context(where));
  if (found.kind == Kind::unknown) return {};
  const bool is_list = found.kind == Kind::list;
  if (found.kind != wanted && (!is_list || found.item != wanted)) {
    wrong_type(e, found,
               wanted == Kind::integer ? "an integer or a list of integers" : "a boolean or a list of booleans");
    return {};
  }
  const auto fits = [&](const Value& one, const dsl::Expr& place) {
    return within(one, place, where, parameter.minimum, parameter.maximum, parameter.below);
  };
  if (!is_list) return fits(found, e) ? found : Value{};
  bool fine = true;
  for (std::size_t i = 0; found.items && i < found.items->size() && (fine || e.kind == ExprKind::list); ++i)
    fine = fits((*found.items)[i], e.kind == ExprKind::list ? *e.args[i].value : e) && fine;
  if (!found.length || !run_.grid || *found.length == std::max<std::size_t>(1, *run_.grid))
    return fine ? found : Value{};
  const bool no_grid = *run_.grid == 0;
  findings_.add(!run_.holes ? Code::grid_axes
                : no_grid   ? Code::needs_grid
                            : Code::list_lengths,
                e.outer,
                no_grid ? "a list with one value for each axis needs a 'grid' statement"
                        : fmt::format("{} has {} values, and the grid has {} axes", where, *found.length, *run_.grid));
  return {};
}

void Elaborator::queries(const dsl::Expr& e) {
  if (e.kind == ExprKind::name && e.word == "all") return;
  auto& d = findings_.add(Code::wrong_type, e.outer,
                          fmt::format("'queries' is 'all' or left out, not '{}'", findings_.text(e.outer)));
  d.fix = Fix{e.outer, "all", "write 'all'"};
}

Value Elaborator::scorer(const dsl::Expr& e, const Context& context) {
  const bool by_input = e.kind == ExprKind::call && e.word == "input" && e.args.size() == 1 && e.args[0].name.empty();
  if (e.kind == ExprKind::name && e.word == "pooled") return {.kind = Kind::input};
  if (!by_input) {
    auto& d = findings_.add(Code::unknown_word, e.outer,
                            fmt::format("'by' is 'pooled' or 'input(…)', not '{}'", findings_.text(e.outer)));
    if (e.kind == ExprKind::name) dsl::suggest(d, e.word, e.range, {"pooled"});
    return {};
  }
  const dsl::Statement* input = input_named(*e.args[0].value, "top", context);
  if (!input) return {};
  const auto blocks = std::count_if(input->axes.begin(), input->axes.end(),
                                    [](const dsl::Axis& axis) { return axis.word == "blocks"; });
  if (input->type == "f32" && blocks == 2) return {.kind = Kind::input, .input = input};
  auto& d = findings_.add(Code::unfit_input, e.outer, fmt::format("'{}' does not hold scores of blocks", input->word));
  d.places.push_back({input->name_range, "declared here"});
  d.notes.push_back(
      fmt::format("scores are declared like this: input {}: f32[batch, heads, blocks, blocks];", input->word));
  return {};
}

const dsl::Statement* Elaborator::input_named(const dsl::Expr& e, std::string_view callee, const Context& context) {
  Symbol* known = e.kind == ExprKind::name ? names_.find(e.word) : nullptr;
  if (known && known->value.kind == Kind::input) {
    known->used = true;
    return known->value.input;
  }
  if (known || e.kind != ExprKind::name) {
    wrong_type(e, value(e, context), fmt::format("an input for '{}'", callee));
    return nullptr;
  }
  auto& d = findings_.add(Code::undeclared_input, e.range,
                          fmt::format("'{}' is used, but no input of that name is declared", e.word));
  dsl::suggest(d, e.word, e.range, names_.list());
  return nullptr;
}

Value Elaborator::fit_input(const dsl::Expr& e, const Parameter& parameter, std::string_view callee,
                            const Context& context) {
  const dsl::Statement* input = input_named(e, callee, context);
  if (!input) return {};
  std::vector<std::string_view> rest;  // axes behind `batch` and `heads`
  bool batch = false;
  bool heads = false;
  for (const dsl::Axis& axis : input->axes) {
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
    return {.kind = Kind::input, .input = input};
  }
  const std::string_view wanted = is_table     ? "u8[batch, heads, queries, keys]"
                                  : is_lengths ? "i32[batch]"
                                               : "i32[batch, tokens]";
  auto& d = findings_.add(Code::unfit_input, e.range,
                          fmt::format("the type or axes of '{}' do not fit '{}'", e.word, callee));
  d.places.push_back({input->name_range, "declared here"});
  d.notes.push_back(fmt::format("'{}' wants {}", callee, wanted));
  return {};
}

}  // namespace weft::ir
