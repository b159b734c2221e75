#include "compiler/ir/lower_context.h"
#include "dsl/parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace weft::ir {
namespace {

const char* describe(dsl::ParamType type) {
  constexpr std::array kNames = {"an integer", "a number", "true or false", "a list of integers", "a list of numbers"};
  return kNames[static_cast<std::size_t>(type)];
}

ExprPtr literal(std::int64_t value, SourceRange range) { return constant(value, range); }
ExprPtr literal(double value, SourceRange range) { return constant_real(value, range); }
ExprPtr literal(bool value, SourceRange range) { return constant_bool(value, range); }

template <typename T>
Value to_value(const T& scalar, SourceRange range) {
  return value_of(literal(scalar, range));
}

template <typename T>
Value to_value(const std::vector<T>& items, SourceRange range) {
  std::vector<ExprPtr> list;
  for (const T& item : items) list.push_back(literal(item, range));
  return value_of(std::move(list));
}

/// The value as the parameter's type wants it: integers become real where it does. Nothing when it
/// cannot be.
std::optional<Value> converted(const Value& value, dsl::ParamType type) {
  const bool wants_list = type == dsl::ParamType::integers || type == dsl::ParamType::reals;
  const bool wants_real = type == dsl::ParamType::real || type == dsl::ParamType::reals;
  const Type wanted = wants_real ? Type::real : type == dsl::ParamType::boolean ? Type::boolean : Type::integer;
  if (value.kind != (wants_list ? Value::Kind::list : Value::Kind::expr)) return std::nullopt;
  const auto convert = [&](ExprPtr e) {
    if (e->type == Type::integer && wants_real) e = apply(Op::to_real, {e}, e->range);
    return e->op == Op::constant && e->type == wanted ? e : nullptr;
  };
  Value out = value;
  if (!wants_list) out.expr = convert(value.expr);
  for (auto& item : out.list) item = convert(item);
  const bool lost = std::any_of(out.list.begin(), out.list.end(), [](const ExprPtr& e) { return !e; });
  return lost || (!wants_list && !out.expr) ? std::nullopt : std::optional(out);
}

void bind(Lowering& l, const dsl::Param& param, const Value& value, SourceRange range, Names& names) {
  if (value.kind == Value::Kind::none) return;
  if (value.list.size() > kMostListItems) {
    return l.report(
        revealed(Code::list_too_long, range,
                 fmt::format("'{}' has {} items; the most are {}", param.name, value.list.size(), kMostListItems)));
  }
  const auto fit = converted(value, param.type);
  if (fit) {
    names.values[param.name] = *fit;
  } else {
    l.report(revealed(Code::parameter_type, range,
                      fmt::format("the parameter '{}' must be {}", param.name, describe(param.type))));
  }
}

void bind_default(Lowering& l, const dsl::Param& param, Names& names) {
  if (param.fallback) return bind(l, param, lower_value(l, names, *param.fallback), param.range, names);
  l.report(revealed(Code::missing_parameter, param.range,
                    fmt::format("the parameter '{}' has no default and was not given a value", param.name)));
}

ParamValue item_value(const Expr& e) {
  if (e.type == Type::boolean) return e.boolean;
  if (e.type == Type::real) return e.real;
  return e.integer;
}

std::optional<ParamValue> param_value(const Value& value) {
  if (value.kind == Value::Kind::expr) {
    return value.expr->op == Op::constant ? std::optional(item_value(*value.expr)) : std::nullopt;
  }
  if (value.kind != Value::Kind::list) return std::nullopt;
  bool real = false;
  for (const auto& item : value.list) {
    if (item->op != Op::constant || item->type == Type::boolean) return std::nullopt;
    real = real || item->type == Type::real;
  }
  std::vector<std::int64_t> integers;
  std::vector<double> reals;
  for (const auto& item : value.list) {
    integers.push_back(item->integer);
    reals.push_back(item->type == Type::real ? item->real : static_cast<double>(item->integer));
  }
  return real ? ParamValue(std::move(reals)) : ParamValue(std::move(integers));
}

}  // namespace

void bind_params(Lowering& l, const dsl::PatternDef& def, const Params& given, Names& names) {
  std::vector<std::string> known;
  for (const auto& param : def.params) known.push_back(param.name);
  for (const auto& [name, value] : given) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    Diagnostic d = revealed(Code::unknown_parameter, def.name_range,
                            fmt::format("the pattern '{}' has no parameter '{}'", def.name, name));
    if (const std::string near = nearest_word(name, known); !near.empty()) {
      d.notes.push_back(fmt::format("did you mean '{}'?", near));
    }
    l.report(std::move(d));
  }
  for (const auto& param : def.params) {
    const auto found = given.find(param.name);
    if (found == given.end()) {
      bind_default(l, param, names);
      continue;
    }
    const Value value = std::visit([&](const auto& v) { return to_value(v, param.range); }, found->second);
    bind(l, param, value, param.range, names);
  }
}

void bind_arguments(Lowering& l, const dsl::PatternDef& def, const dsl::Expr& call, const Names& outer, Names& names) {
  std::vector<std::string_view> known;
  for (const auto& param : def.params) known.push_back(param.name);
  const auto actual = arguments(call, known);
  for (std::size_t i = 0; i < def.params.size(); ++i) {
    if (actual[i]) {
      bind(l, def.params[i], lower_value(l, outer, *actual[i]), actual[i]->range, names);
    } else {
      bind_default(l, def.params[i], names);
    }
  }
}

Result<std::pair<std::string, ParamValue>> parse_param(std::string_view text) {
  const auto shown = [](std::string_view part) {
    constexpr std::size_t kLongest = 60;
    return std::string(part.substr(0, kLongest)) + (part.size() > kLongest ? "…" : "");
  };
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return user_error(fmt::format("'{}' is not of the form name=value", shown(text)));
  }
  const std::string name(text.substr(0, equals)), written(text.substr(equals + 1));
  const Error bad = user_error(fmt::format("'{}' is not a value that '{}' can have", shown(written), shown(name)));
  // The language's own reader takes the value as that of a constant, and must find nothing else.
  const auto file = dsl::parse({"-D", fmt::format("const value = {}\n;", written)});
  if (!file.ok() || file.value().constants.size() != 1 || !file.value().patterns.empty()) return bad;
  Lowering l{.file = file.value()};
  const Value value = lower_value(l, {}, *file.value().constants[0].value);
  auto result = value.kind == Value::Kind::none || l.failed() ? std::nullopt : param_value(value);
  if (!result) return bad;
  return std::pair(name, std::move(*result));
}

}  // namespace weft::ir
