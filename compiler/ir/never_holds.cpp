#include "compiler/ir/never_holds.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace weft::ir {
namespace {

/// A sum of variables times whole numbers, and a whole number. Small enough that nothing overflows.
struct Linear {
  std::map<Variable, std::int64_t> factors;
  std::int64_t constant = 0;
};

constexpr std::int64_t kLargest = std::int64_t{1} << 40;

bool is_small(std::int64_t value) { return -kLargest <= value && value <= kLargest; }

std::optional<Linear> times(Linear a, std::int64_t by) {
  const auto multiply = [by](std::int64_t& value) {
    return !__builtin_mul_overflow(value, by, &value) && is_small(value);
  };
  bool fits = multiply(a.constant);
  for (auto& [variable, factor] : a.factors) fits = fits && multiply(factor);
  return fits ? std::optional(std::move(a)) : std::nullopt;
}

std::optional<Linear> sum(Linear a, const Linear& b) {
  for (const auto& [variable, factor] : b.factors) {
    auto& to = a.factors[variable];
    to += factor;
    if (!is_small(to)) return std::nullopt;
    if (to == 0) a.factors.erase(variable);
  }
  a.constant += b.constant;
  return is_small(a.constant) ? std::optional(std::move(a)) : std::nullopt;
}

std::optional<Linear> linear(const Expr& e) {
  if (e.type != Type::integer) return std::nullopt;
  if (e.op == Op::constant) return is_small(e.integer) ? std::optional(Linear{{}, e.integer}) : std::nullopt;
  if (e.op == Op::variable) return Linear{{{e.variable, 1}}, 0};
  const auto of = [&](std::size_t i) { return linear(*e.args[i]); };
  if (e.op == Op::negate) {
    const auto a = of(0);
    return a ? times(*a, -1) : std::nullopt;
  }
  if (e.op == Op::add || e.op == Op::subtract) {
    const auto a = of(0), b = of(1);
    const auto signed_b = b ? times(*b, e.op == Op::add ? 1 : -1) : std::nullopt;
    return a && signed_b ? sum(*a, *signed_b) : std::nullopt;
  }
  if (e.op != Op::multiply) return std::nullopt;
  const std::size_t number = e.args[0]->op == Op::constant ? 0 : 1;
  const auto a = of(1 - number);
  return a && e.args[number]->op == Op::constant ? times(*a, e.args[number]->integer) : std::nullopt;
}

/// `form >= least` for every conjunct that says so.
void collect(const Expr& e, std::vector<Linear>& at_least_zero, bool& never) {
  if (e.op == Op::logical_and) {
    for (const auto& arg : e.args) collect(*arg, at_least_zero, never);
    return;
  }
  if (e.op == Op::constant && e.type == Type::boolean) never = never || !e.boolean;
  if (e.op == Op::logical_or) {
    never = never || std::all_of(e.args.begin(), e.args.end(), [](const ExprPtr& arg) { return never_holds(*arg); });
  }
  if (e.op != Op::less && e.op != Op::less_equal && e.op != Op::equal) return;
  const auto a = linear(*e.args[0]), b = linear(*e.args[1]);
  const auto minus_a = a ? times(*a, -1) : std::nullopt;
  auto difference = minus_a && b ? sum(*b, *minus_a) : std::nullopt;
  if (!difference) return;
  if (e.op == Op::equal) {
    if (auto other = times(*difference, -1)) at_least_zero.push_back(std::move(*other));
  }
  difference->constant -= e.op == Op::less ? 1 : 0;
  at_least_zero.push_back(std::move(*difference));
}

/// The largest that the form can be, where it has a largest. A query's position may be negative; nothing else is.
std::optional<std::int64_t> most(const Linear& form) {
  std::int64_t out = form.constant;
  for (const auto& [variable, factor] : form.factors) {
    if (variable == Variable::q || factor > 0) return std::nullopt;
    const bool at_least_one = variable == Variable::n_q || variable == Variable::n_k || variable == Variable::heads;
    if (at_least_one) out += factor;
  }
  return out;
}

bool is_bare(const SetPtr& set) { return keeps_nothing(*set); }
bool some_part(const Set& set) { return std::any_of(set.children.begin(), set.children.end(), is_bare); }
bool every_part(const Set& set) { return std::all_of(set.children.begin(), set.children.end(), is_bare); }

}  // namespace

bool never_holds(const Expr& condition) {
  std::vector<Linear> forms;
  bool never = false;
  collect(condition, forms, never);
  constexpr std::size_t kMost = 64;
  forms.resize(std::min(forms.size(), kMost));
  const auto is_negative = [](const std::optional<Linear>& form) {
    const auto largest = form ? most(*form) : std::nullopt;
    return largest && *largest < 0;
  };
  for (std::size_t i = 0; i < forms.size() && !never; ++i) {
    never = is_negative(forms[i]);
    for (std::size_t j = 0; j < i && !never; ++j) never = is_negative(sum(forms[i], forms[j]));
  }
  return never;
}

std::optional<std::int64_t> beyond_own_row(const Expr& index) {
  const auto form = linear(index);
  const std::map<Variable, std::int64_t> own = {{Variable::q, 1}, {Variable::n_q, 1}, {Variable::n_k, -1}};
  return form && form->factors == own ? std::optional(form->constant) : std::nullopt;
}

bool keeps_nothing(const Set& set) {
#define WEFT_ANY_SET(name, word, print, nothing, ...) \
  if (set.kind == SetKind::name) return nothing;
#include "dsl/sets.def"
  return false;
}

}  // namespace weft::ir
