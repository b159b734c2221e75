#include "dsl/value.h"

#include "dsl/operators.h"

#include <algorithm>
#include <cmath>

namespace weft::dsl {
namespace {

Folded known(std::int64_t value) { return {.value = Value{value}}; }
Folded known(double value) { return {.value = Value{value}}; }
Folded known(bool value) { return {.value = Value{value}}; }
Folded trouble(Trouble kind) { return {.value = {}, .trouble = kind}; }

Folded fold_booleans(Op op, bool a, bool b) {
  if (op == Op::logical_not) return known(!a);
  if (op == Op::logical_and) return known(a && b);
  if (op == Op::logical_or) return known(a || b);
  return facts(op).signature == Signature::equality ? known(holds(op, a, b)) : Folded{};
}

Folded fold_integers(Op op, std::int64_t a, std::int64_t b) {
  const auto value = fold_integer(op, a, b);
  return value ? known(*value) : trouble(Trouble::overflow);
}

/// Of one operand: twice the same.
Folded fold(Op op, const Value& a, const Value& b) {
  const Signature signature = facts(op).signature;
  if (a.boolean() && b.boolean()) return fold_booleans(op, *a.boolean(), *b.boolean());
  if (!a.number() || !b.number()) return {};
  const bool whole = a.integer() && b.integer();
  if (is_comparison(op))
    return known(whole ? holds(op, *a.integer(), *b.integer()) : holds(op, *a.number(), *b.number()));
  if (divides(op) && *b.number() == 0) return trouble(Trouble::zero_division);
  if (signature == Signature::numbers && whole) return fold_integers(op, *a.integer(), *b.integer());
  const bool real = signature == Signature::numbers || signature == Signature::reals;
  return real ? known(apply_real(op, *a.number(), *b.number())) : Folded{};
}

Folded rounded(const std::string& name, double a) {
  const double whole = name == "floor" ? std::floor(a) : name == "ceil" ? std::ceil(a) : std::round(a);
  if (!(whole >= -0x1p63 && whole < 0x1p63)) return trouble(Trouble::overflow);
  return known(static_cast<std::int64_t>(whole));
}

}  // namespace

const std::vector<Value>* Value::items() const {
  const Values* list = std::get_if<Values>(&data);
  return list ? list->get() : nullptr;
}

std::optional<double> Value::number() const {
  if (const auto* whole = integer()) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&data)) return *real;
  return std::nullopt;
}

Folded fold(Operator op, const Value& a) {
  const Operation operation = operation_of(op, 1);
  return operation.op ? fold(*operation.op, a, a) : Folded{};
}

Folded fold(Operator op, const Value& a, const Value& b) {
  const Operation operation = operation_of(op, 2);
  if (!operation.op) return {};
  return operation.swapped ? fold(*operation.op, b, a) : fold(*operation.op, a, b);
}

Folded fold_function(const std::string& name, const std::vector<Value>& args) {
  if (name == "len" && args[0].items()) return known(static_cast<std::int64_t>(args[0].items()->size()));
  if (name == "select" && args[0].boolean()) return {.value = *args[0].boolean() ? args[1] : args[2]};
  const bool rounds = name == "floor" || name == "ceil" || name == "round";
  if (rounds && args[0].integer()) return {.value = args[0]};
  if (rounds && args[0].number()) return rounded(name, *args[0].number());
  if (name == "softcap" && args[0].number() && args[1].number()) {
    const double cap = *args[1].number();
    if (cap == 0) return trouble(Trouble::zero_division);
    return known(cap * std::tanh(*args[0].number() / cap));
  }
  const auto op = find_op(name, std::min<std::size_t>(args.size(), 2));
  if (!op) return {};
  Folded out = fold(*op, args.front(), args.size() > 1 ? args[1] : args.front());
  for (std::size_t i = 2; i < args.size() && out.value; ++i) out = fold(*op, Value(*out.value), args[i]);
  return out;
}

}  // namespace weft::dsl
