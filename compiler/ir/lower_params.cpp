// Values of parameters from outside.

#include "compiler/ir/elaborate_pattern.h"
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

Value to_value(std::int64_t value, SourceRange range) { return value_of(constant(value, range)); }
Value to_value(double value, SourceRange range) { return value_of(constant_real(value, range)); }
Value to_value(bool value, SourceRange range) { return value_of(constant_bool(value, range)); }

template <typename T>
Value to_value(const std::vector<T>& numbers, SourceRange range) {
  std::vector<Value> items;
  for (const T& number : numbers) items.push_back(to_value(number, range));
  const Kind kind = items.empty() ? Kind::unknown : items.front().kind;
  return list_of(kind, std::move(items));
}

std::optional<ParamValue> param_value(const Value& value) {
  if (value.kind == Kind::boolean && value.expr->op == Op::constant) return value.expr->boolean;
  if (const auto whole = integer_of(value)) return *whole;
  if (const auto real = number_of(value)) return *real;
  if (value.kind != Kind::list || value.item == Kind::boolean || value.item == Kind::range) return std::nullopt;
  std::vector<std::int64_t> integers;
  std::vector<double> reals;
  for (const Value& item : *value.items) {
    if (!number_of(item)) return std::nullopt;
    reals.push_back(*number_of(item));
    integers.push_back(integer_of(item).value_or(0));
  }
  return value.item == Kind::real ? ParamValue(std::move(reals)) : ParamValue(std::move(integers));
}

}  // namespace

std::vector<Value> values_of(Elaboration& run, const dsl::PatternDef& def, const Params& given) {
  std::vector<std::string> known;
  for (const auto& param : def.params) known.push_back(param.name);
  for (const auto& [name, value] : given) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    auto& d = run.findings.add(Code::unknown_parameter, def.name_range,
                               fmt::format("the pattern '{}' has no parameter '{}'", def.name, name));
    if (const std::string near = nearest_word(name, known); !near.empty()) {
      d.notes.push_back(fmt::format("did you mean '{}'?", near));
    }
  }
  std::vector<Value> values(def.params.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const dsl::Param& param = def.params[i];
    const auto found = given.find(param.name);
    if (found == given.end()) continue;
    const Value value = std::visit([&](const auto& v) { return to_value(v, param.range); }, found->second);
    values[i] = fitted(value, param.type);
    if (values[i].kind != Kind::unknown) continue;
    run.findings.add(Code::parameter_type, param.range,
                     fmt::format("the parameter '{}' must be {}", param.name, describe(param.type)));
  }
  return values;
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
  Elaboration run(*file, false);
  Names none;
  const Value value = Elaborator(run, none).value(*file->constants[0].value, constant_context("-D"));
  auto result = run.findings.failed() ? std::nullopt : param_value(value);
  if (!result) return bad;
  return std::pair(name, std::move(*result));
}

}  // namespace weft::ir
