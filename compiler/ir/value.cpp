#include "compiler/ir/value.h"

#include <fmt/format.h>

#include <utility>

namespace weft::ir {
namespace {

bool is_constant(const Value& value) { return value.expr && value.expr->op == Op::constant; }

}  // namespace

bool is_hole(const Value& value) {
  if (value.kind == Kind::set) return !value.set;
  if (value.kind == Kind::list || value.kind == Kind::range) return !value.items;
  return value.kind == Kind::unknown || (value.kind != Kind::input && !value.expr);
}

Value value_of(ExprPtr e) {
  if (!e) return {};
  const Kind kind = e->type == Type::integer ? Kind::integer : e->type == Type::real ? Kind::real : Kind::boolean;
  return {.kind = kind, .expr = std::move(e)};
}

Value list_of(Kind item, std::vector<Value> items) {
  return {.kind = Kind::list,
          .item = item,
          .length = items.size(),
          .items = std::make_shared<const std::vector<Value>>(std::move(items))};
}

ExprPtr zero_of(Kind kind, SourceRange range) {
  if (kind == Kind::boolean) return constant_bool(false, range);
  return kind == Kind::real ? constant_real(0, range) : constant(0, range);
}

std::optional<std::int64_t> integer_of(const Value& value) {
  return value.kind == Kind::integer && is_constant(value) ? std::optional(value.expr->integer) : std::nullopt;
}

std::optional<double> number_of(const Value& value) {
  if (value.kind == Kind::real && is_constant(value)) return value.expr->real;
  const auto whole = integer_of(value);
  return whole ? std::optional(static_cast<double>(*whole)) : std::nullopt;
}

bool is_known(const Value& value, bool boolean) {
  return value.kind == Kind::boolean && is_constant(value) && value.expr->boolean == boolean;
}

Value to_real(Value value) {
  if (value.kind == Kind::integer) {
    value.kind = Kind::real;
    if (value.expr) value.expr = apply(Op::to_real, {value.expr}, value.expr->range);
  } else if (value.kind == Kind::list && value.item == Kind::integer) {
    value.item = Kind::real;
    if (!value.items) return value;
    std::vector<Value> items;
    for (const Value& item : *value.items) items.push_back(to_real(item));
    value.items = std::make_shared<const std::vector<Value>>(std::move(items));
  }
  return value;
}

std::string_view plural(Kind kind) {
  if (kind == Kind::integer) return "integers";
  if (kind == Kind::real) return "reals";
  if (kind == Kind::boolean) return "booleans";
  return kind == Kind::range ? "ranges" : "items";
}

std::string describe(const Value& value) {
  switch (value.kind) {
    case Kind::unknown:
      return "unknown";
    case Kind::set:
      return "a set";
    case Kind::integer:
      return "an integer";
    case Kind::real:
      return "a real";
    case Kind::boolean:
      return "a boolean";
    case Kind::list:
      return value.length == 0U ? "an empty list" : fmt::format("a list of {}", plural(value.item));
    case Kind::range:
      return "a range";
    case Kind::input:
      return "a whole input";
  }
  return "";
}

}  // namespace weft::ir
