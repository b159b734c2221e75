#include "compiler/ir/lower_context.h"
#include "dsl/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace weft::ir {
namespace {

using Actual = std::vector<const dsl::Expr*>;

std::vector<std::string_view> names_of(const std::vector<dsl::Parameter>& parameters) {
  std::vector<std::string_view> out;
  for (const auto& parameter : parameters) out.push_back(parameter.name);
  return out;
}

bool in_range(Lowering& l, std::int64_t value, const dsl::Parameter& parameter, SourceRange range) {
  if (value < parameter.minimum) {
    l.report(revealed(parameter.below, range,
                      fmt::format("'{}' is {}; the least is {}", parameter.name, value, parameter.minimum)));
    return false;
  }
  if (value <= kLargestNumber && value >= -kLargestNumber) return true;
  l.report(revealed(Code::value_range, range,
                    fmt::format("'{}' is {}; the largest is {}", parameter.name, value, kLargestNumber)));
  return false;
}

std::optional<std::int64_t> number(Lowering& l, const Names& names, const dsl::Expr* e,
                                   const dsl::Parameter& parameter) {
  if (!e) return 0;
  const auto value = lower_integer(l, names, *e);
  if (!value || parameter.name == "seed") return value;
  return in_range(l, *value, parameter, e->range) ? value : std::nullopt;
}

/// A call of one word with its arguments in the order of the word's parameters.
struct Call {
  Lowering& l;
  const Names& names;
  const dsl::Expr& e;
  const std::vector<dsl::Parameter>& parameters;
  Actual actual;

  std::optional<std::int64_t> integer(std::size_t i) const { return number(l, names, actual[i], parameters[i]); }

  std::optional<bool> flag(const dsl::Expr& value) const {
    const ExprPtr flag = lower_expr(l, names, value);
    if (!flag) return std::nullopt;
    if (flag->op == Op::constant) return flag->boolean;
    l.report(revealed(Code::parameter_type, value.range, "this must be known before the kernel runs"));
    return std::nullopt;
  }
};

/// Sets whose arguments are all plain numbers.
SetPtr numbers(const Call& call, SetKind kind) {
  std::vector<std::int64_t> args;
  for (std::size_t i = 0; i < call.parameters.size(); ++i) {
    const auto value = call.integer(i);
    if (!value) return nullptr;
    args.push_back(*value);
  }
  return make_set(kind, std::move(args), call.e.range);
}

/// No keys drawn is the empty set, which has one form only.
SetPtr random(const Call& call, SetKind kind) {
  SetPtr drawn = numbers(call, kind);
  if (!drawn || drawn->args[0] > 0) return drawn;
  return make_set(SetKind::complement, std::vector<SetPtr>{make_set(SetKind::all)}, call.e.range);
}

SetPtr dilated(const Call& call, SetKind) {
  const auto segment = call.integer(0), rate = call.integer(1);
  if (!segment || !rate) return nullptr;
  ExprPtr phase = constant(0, call.e.range);
  if (call.actual[2]) {
    Names own{.outer = &call.names};
    own.values["segment"] = value_of(constant(*segment));
    own.values["rate"] = value_of(constant(*rate));
    phase = lower_phase(call.l, own, *call.actual[2]);
  }
  return phase ? make_dilated(*segment, *rate, std::move(phase), call.actual[3] != nullptr, call.e.range) : nullptr;
}

/// One value for all axes, or a list with one for each.
std::optional<std::vector<ExprPtr>> per_axis(const Call& call, std::size_t i, std::size_t axes, ExprPtr fallback) {
  if (!call.actual[i]) return std::vector<ExprPtr>(axes, std::move(fallback));
  const dsl::Expr& e = *call.actual[i];
  const Value value = lower_value(call.l, call.names, e);
  if (value.kind == Value::Kind::expr) return std::vector<ExprPtr>(axes, value.expr);
  if (value.kind != Value::Kind::list) return std::nullopt;
  if (value.list.size() == axes) return value.list;
  call.l.report(revealed(
      Code::grid_axes, e.range,
      fmt::format("'{}' has {} values, the grid has {} axes", call.parameters[i].name, value.list.size(), axes)));
  return std::nullopt;
}

bool fits(const Call& call, std::int64_t size, std::int64_t dilation, std::int64_t stride, std::size_t axis) {
  const auto report = [&](std::string message) {
    call.l.report(revealed(Code::value_range, call.e.range, std::move(message)));
    return false;
  };
  if (stride > size) return report(fmt::format("the stride {} is larger than the size {}", stride, size));
  const auto& grid = call.l.pattern.grid;
  if (grid.empty() || bounded_product(size, dilation) <= grid[axis]) return true;
  return report(fmt::format("size {} times dilation {} is more than the grid's {}", size, dilation, grid[axis]));
}

SetPtr neighborhood(const Call& call, SetKind kind) {
  const std::size_t axes = std::max<std::size_t>(1, call.l.pattern.grid.size());
  const std::array fallbacks = {constant(0), constant(1), constant(1), constant_bool(false)};
  std::vector<std::int64_t> args(4 * axes);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto column = per_axis(call, i, axes, fallbacks[i]);
    if (!column) return nullptr;
    for (std::size_t axis = 0; axis < axes; ++axis) {
      const Expr& value = *(*column)[axis];
      args[4 * axis + i] = i == 3 ? value.boolean : value.integer;
      if (i < 3 && !in_range(call.l, value.integer, call.parameters[i], call.e.range)) return nullptr;
    }
  }
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const std::int64_t* a = &args[4 * axis];
    if (!fits(call, a[0], a[1], a[2], axis)) return nullptr;
  }
  return make_set(kind, std::move(args), call.e.range);
}

SetPtr blocks(const Call& call, SetKind) {
  const auto size = call.integer(0);
  const std::int64_t around = call.l.block;
  call.l.block = bounded_product(std::max<std::int64_t>(around, 1), std::max<std::int64_t>(size.value_or(1), 1));
  SetPtr inside = lower_set(call.l, call.names, *call.actual[1]);
  call.l.block = around;
  return size && inside ? make_blocks(*size, std::move(inside), call.e.range) : nullptr;
}

SetPtr from_input(const Call& call, SetKind kind) {
  const auto input = call.l.find_input(call.actual[0]->word);
  if (!input) return call.l.lose();
  call.l.use(*input);
  return make_input_set(kind, *input, call.e.range);
}

SetPtr top(const Call& call, SetKind) {
  const auto count = call.integer(0);
  int input = -1;
  if (const dsl::Expr& by = *call.actual[1]; by.kind == dsl::ExprKind::call) {
    const auto given = call.l.find_input(by.args[0].value->word);
    if (!given) return call.l.lose();
    call.l.use(*given);
    input = *given;
  }
  std::optional<bool> causal = false;
  if (call.actual[2]) causal = call.flag(*call.actual[2]);
  if (!count || !causal) return nullptr;
  SetPtr set = make_top(*count, input, *causal, call.e.range);
  if (!call.actual[2]) call.l.default_tops.push_back(set);
  return set;
}

SetPtr where(const Call& call, SetKind) {
  ExprPtr condition = lower_expr(call.l, call.names, *call.actual[0]);
  return condition ? make_where(std::move(condition), call.e.range) : nullptr;
}

SetPtr lower_word(const Call& call) {
#define WEFT_SET(kind, lower, ...) \
  if (call.e.word == #kind) return lower(call, SetKind::kind);
#include "dsl/sets.def"
  return call.l.lose();
}

SetPtr lower_combination(Lowering& l, const Names& names, const dsl::Expr& e) {
  std::vector<SetPtr> children;
  for (const auto& arg : e.args) children.push_back(lower_set(l, names, *arg.value));
  if (std::any_of(children.begin(), children.end(), [](const SetPtr& s) { return !s; })) return nullptr;
  const SetKind kind = e.op == dsl::Operator::complement  ? SetKind::complement
                       : e.op == dsl::Operator::intersect ? SetKind::intersection
                       : e.op == dsl::Operator::unite     ? SetKind::unite
                                                          : SetKind::difference;
  return make_set(kind, std::move(children), e.range);
}

}  // namespace

Actual arguments(const dsl::Expr& call, const std::vector<std::string_view>& parameters) {
  Actual actual(parameters.size());
  for (std::size_t i = 0; i < call.args.size(); ++i) {
    const dsl::Arg& arg = call.args[i];
    const auto named = std::find(parameters.begin(), parameters.end(), arg.name);
    const auto at = arg.name.empty() ? i : static_cast<std::size_t>(named - parameters.begin());
    if (at < actual.size()) actual[at] = arg.value.get();
  }
  return actual;
}

ExprPtr lower_phase(Lowering& l, const Names& names, const dsl::Expr& e) {
  ExprPtr phase = lower_expr(l, names, e);
  if (!phase) return nullptr;
  // Head 0 exists in every pattern; more is known when the pattern says how many there are.
  const std::int64_t heads = l.pattern.heads.value_or(reads(*phase, Variable::heads) ? 0 : 1);
  for (std::int64_t h = 0; h < std::min<std::int64_t>(heads, 1024); ++h) {
    const std::int64_t value = evaluate_head(*phase, h, heads);
    if (value >= 0) continue;
    l.report(revealed(Code::negative_phase, e.range, fmt::format("the phase is {} for head {}", value, h)));
    return nullptr;
  }
  return phase;
}

SetPtr lower_set(Lowering& l, const Names& names, const dsl::Expr& e) {
  const bool word = e.kind == dsl::ExprKind::name || e.kind == dsl::ExprKind::call;
  if (!word) return limited(l, lower_combination(l, names, e), e.range);
  if (const Value* value = recall(l, names, e)) return value->set;
  const dsl::SetWord* row = dsl::find_set(e.word);
  if (!row) return l.lose();
  const Call call{l, names, e, row->parameters, arguments(e, names_of(row->parameters))};
  return limited(l, lower_word(call), e.range);
}

}  // namespace weft::ir
