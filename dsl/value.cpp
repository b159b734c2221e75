#include "dsl/value.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weft::dsl {
namespace {

constexpr std::int64_t kSmallest = std::numeric_limits<std::int64_t>::min();

Folded known(std::int64_t value) { return {.value = Value{value}}; }
Folded known(double value) { return {.value = Value{value}}; }
Folded known(bool value) { return {.value = Value{value}}; }
Folded trouble(Trouble kind) { return {.value = {}, .trouble = kind}; }

Folded negated(std::int64_t a) { return a == kSmallest ? trouble(Trouble::overflow) : known(-a); }

Folded fold_integers(Operator op, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  bool overflows = false;
  if (op == Operator::add) overflows = __builtin_add_overflow(a, b, &out);
  if (op == Operator::subtract) overflows = __builtin_sub_overflow(a, b, &out);
  if (op == Operator::multiply) overflows = __builtin_mul_overflow(a, b, &out);
  if (overflows) return trouble(Trouble::overflow);
  if (op == Operator::add || op == Operator::subtract || op == Operator::multiply) return known(out);
  if (op != Operator::divide && op != Operator::modulo) return {};
  if (b == 0) return trouble(Trouble::zero_division);
  if (a == kSmallest && b == -1) return op == Operator::divide ? trouble(Trouble::overflow) : known(std::int64_t{0});
  return known(op == Operator::divide ? floor_quotient(a, b) : floor_rest(a, b));
}

Folded fold_reals(Operator op, double a, double b) {
  if (op == Operator::add) return known(a + b);
  if (op == Operator::subtract) return known(a - b);
  if (op == Operator::multiply) return known(a * b);
  if (op != Operator::divide && op != Operator::modulo) return {};
  if (b == 0) return trouble(Trouble::zero_division);
  return known(op == Operator::divide ? a / b : a - std::floor(a / b) * b);
}

template <typename T>
Folded fold_comparison(Operator op, const T& a, const T& b) {
  if (op == Operator::less) return known(a < b);
  if (op == Operator::less_equal) return known(a <= b);
  if (op == Operator::greater) return known(a > b);
  if (op == Operator::greater_equal) return known(a >= b);
  if (op == Operator::equal) return known(a == b);
  if (op == Operator::not_equal) return known(a != b);
  return {};
}

Folded fold_booleans(Operator op, bool a, bool b) {
  if (op == Operator::logical_and) return known(a && b);
  if (op == Operator::logical_or) return known(a || b);
  if (op == Operator::equal || op == Operator::not_equal) return known((a == b) == (op == Operator::equal));
  return {};
}

Folded fold_real_function(const std::string& name, double a) {
  if (name == "exp") return known(std::exp(a));
  if (name == "log") return known(std::log(a));
  if (name == "sqrt") return known(std::sqrt(a));
  if (name == "tanh") return known(std::tanh(a));
  if (name == "sigmoid") return known(1 / (1 + std::exp(-a)));
  if (name == "abs") return known(std::fabs(a));
  return {};
}

Folded smaller_or_larger(bool smaller, const Value& a, const Value& b) {
  if (a.integer() && b.integer()) {
    return known(smaller ? std::min(*a.integer(), *b.integer()) : std::max(*a.integer(), *b.integer()));
  }
  if (a.number() && b.number()) {
    return known(smaller ? std::fmin(*a.number(), *b.number()) : std::fmax(*a.number(), *b.number()));
  }
  return {};
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

std::int64_t floor_quotient(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

std::int64_t floor_rest(std::int64_t a, std::int64_t b) {
  const std::int64_t rest = a % b;
  return rest >= 0 ? rest : rest + (b < 0 ? -b : b);
}

Folded fold(Operator op, const Value& a) {
  if (op == Operator::logical_not && a.boolean()) return known(!*a.boolean());
  if (op != Operator::negate) return {};
  if (a.integer()) return negated(*a.integer());
  return a.number() ? known(-*a.number()) : Folded{};
}

Folded fold(Operator op, const Value& a, const Value& b) {
  if (a.boolean() && b.boolean()) return fold_booleans(op, *a.boolean(), *b.boolean());
  if (a.integer() && b.integer()) {
    const Folded compared = fold_comparison(op, *a.integer(), *b.integer());
    return compared.value ? compared : fold_integers(op, *a.integer(), *b.integer());
  }
  if (!a.number() || !b.number()) return {};
  const Folded compared = fold_comparison(op, *a.number(), *b.number());
  return compared.value ? compared : fold_reals(op, *a.number(), *b.number());
}

Folded fold_function(const std::string& name, const std::vector<Value>& args) {
  if (name == "len" && args[0].items()) return known(static_cast<std::int64_t>(args[0].items()->size()));
  if (name == "select" && args[0].boolean()) return {.value = *args[0].boolean() ? args[1] : args[2]};
  if (name == "min" || name == "max") return smaller_or_larger(name == "min", args[0], args[1]);
  if (name == "abs" && args[0].integer()) {
    const std::int64_t a = *args[0].integer();
    return a >= 0 ? known(a) : negated(a);
  }
  if (name == "softcap" && args[0].number() && args[1].number()) {
    const double cap = *args[1].number();
    if (cap == 0) return trouble(Trouble::zero_division);
    return known(cap * std::tanh(*args[0].number() / cap));
  }
  return args[0].number() && args.size() == 1 ? fold_real_function(name, *args[0].number()) : Folded{};
}

}  // namespace weft::dsl
