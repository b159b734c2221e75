// What stands before `[…]`: inputs and lists.

#include "compiler/ir/elaborate.h"
#include "compiler/ir/never_holds.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace weft::ir {
namespace {

/// Bounds of an index, as far as they follow from its form; 2^62, where the arithmetic ends, is no bound.
WideInterval bounds_of(const Expr& e, const Pattern& pattern) {
  constexpr Wide kEnd = Wide{1} << 62;
  if (e.op == Op::constant) return {e.integer, e.integer};
  if (e.op == Op::variable) {
    if (e.variable != Variable::h) return {-kEnd, kEnd};
    return {0, pattern.heads ? *pattern.heads - 1 : kEnd};
  }
  const WideInterval a = bounds_of(*e.args.front(), pattern);
  const auto value = interval_of(e.op, a, e.args.size() > 1 ? bounds_of(*e.args[1], pattern) : a);
  return value ? WideInterval{std::clamp(value->lo, -kEnd, kEnd), std::clamp(value->hi, -kEnd, kEnd)}
               : WideInterval{-kEnd, kEnd};
}

bool by_block(const dsl::Axis& axis) { return axis.word == "blocks"; }

}  // namespace

Value Elaborator::index(const dsl::Expr& e, const Context& context) {
  const dsl::Expr& base = *e.args[0].value;
  if (base.kind == ExprKind::name && !names_.find(base.word) && !dsl::find_variable(base.word)) {
    auto& d =
        findings_.add(Code::undeclared_input, base.range,
                      fmt::format("'{}' is indexed like an input, but no input of that name is declared", base.word));
    dsl::suggest(d, base.word, base.range, names_.list());
    if (!d.fix) d.notes.push_back(fmt::format("inputs are declared like this: input {}: f32[heads, 257];", base.word));
    return {};
  }
  const Value of = value(base, context);
  if (of.kind == Kind::unknown) return {};
  if (of.kind == Kind::input) return input_index(e, *of.input, context);
  if (of.kind == Kind::list) return list_index(e, of, context);
  wrong_type(base, of, "an input or a list");
  return {};
}

bool Elaborator::index_bound(const dsl::Expr& e, const Value& index, std::int64_t extent, std::string_view what) {
  const auto at = integer_of(index);
  if (!at || (*at >= 0 && *at < extent)) return true;
  (void)troubled(Code::index_range, e, Kind::integer,
                 fmt::format("{} has {} elements, and this is number {}", what, extent, *at), "the first is number 0");
  return false;
}

Value Elaborator::list_index(const dsl::Expr& e, const Value& base, const Context& context) {
  if (e.args.size() != 2) {
    findings_.add(Code::index_count, e.range, fmt::format("a list has one index, and {} are given", e.args.size() - 1));
    return {};
  }
  Context strict = context;
  strict.strict = true;
  strict.where = "an index";
  const dsl::Expr& place = *e.args[1].value;
  const Value at = integer(place, strict);
  if (at.kind == Kind::unknown) return {};
  if (base.length == 0U) {
    return troubled(Code::index_range, place, base.item, "the list is empty, and this is an index of it");
  }
  const bool inside = !base.length || index_bound(place, at, static_cast<std::int64_t>(*base.length), "the list");
  // What a text says once, its values may say right.
  if (!inside && run_.unreachable == 0) return run_.holes ? Value{.kind = base.item} : Value{};
  if (!base.items || !at.expr) return {.kind = base.item};
  const auto known = integer_of(at);
  if (!known) return choose(e, base, at.expr);
  return inside ? (*base.items)[static_cast<std::size_t>(*known)] : base.items->front();
}

/// A list under an index that varies is a choice; beyond its ends the nearest item.
Value Elaborator::choose(const dsl::Expr& e, const Value& base, const ExprPtr& at) {
  const auto& items = *base.items;
  Value out = items.back();
  for (std::size_t i = items.size() - 1; i-- > 0 && out.expr;) {
    const Value here = made(e, Kind::boolean, Op::less_equal, {at, constant(static_cast<std::int64_t>(i))});
    out = made(e, base.item, Op::select, {here.expr, items[i].expr, out.expr});
  }
  if (out.expr && out.expr->op == Op::select) out.expr = item_of_list(out.expr, std::ssize(items));
  return out;
}

Value Elaborator::input_index(const dsl::Expr& e, const dsl::Statement& input, const Context& context) {
  const std::size_t given = e.args.size() - 1;
  if (given != input.axes.size()) {
    auto& d =
        findings_.add(Code::index_count, e.range,
                      fmt::format("'{}' has {} ax{}, and {} ind{} given", input.word, input.axes.size(),
                                  input.axes.size() == 1 ? "is" : "es", given, given == 1 ? "ex is" : "ices are"));
    d.places.push_back({input.name_range, "declared here"});
    return {};
  }
  if (!context.inputs) {
    findings_.add(Code::variable_not_here, e.range,
                  fmt::format("'{}' reads an input, which has no value in {}", findings_.text(e.range), context.where));
    return {};
  }
  Context strict = context;
  strict.strict = true;
  strict.where = "an index";
  const auto number = run_.find_input(input.word);
  Args indices;
  bool known = true;
  for (std::size_t i = 0; i < given; ++i) {
    const dsl::Expr& place = *e.args[i + 1].value;
    const Value at = integer(place, strict);
    if (by_block(input.axes[i]) && !context.in_blocks && !context.deferred) {
      auto& d =
          findings_.add(Code::needs_blocks, e.range,
                        fmt::format("'{}' goes by block numbers, which exist inside 'blocks(…)' only", input.word));
      d.places.push_back({input.axes[i].range, "this axis"});
      return {};
    }
    if (at.expr && number) check_index(place, run_.pattern.inputs[static_cast<std::size_t>(*number)], i, at);
    known = known && at.expr;
    indices.push_back(at.expr);
  }
  effects_.inputs = true;
  effects_.needs_blocks |= !context.in_blocks && std::any_of(input.axes.begin(), input.axes.end(), by_block);
  const Kind kind = input.type == "f32" ? Kind::real : Kind::integer;
  if (run_.holes || !number) return {.kind = kind};
  use(*number);
  if (!known) return {};
  const Type type = kind == Kind::real ? Type::real : Type::integer;
  return limited(value_of(input_at(*number, type, std::move(indices), e.range)), e.range);
}

/// Only an index that never lies inside is surely wrong: others may be clamped on purpose. `t[q - (n_k - n_q)]` reads
/// the row before the first where `t[q]` reads the row's own.
void Elaborator::check_index(const dsl::Expr& e, const Input& input, std::size_t axis, const Value& index) {
  const Axis& of = input.axes[axis];
  const bool known = of.kind == Axis::Kind::extent;
  if (known && integer_of(index)) {
    (void)index_bound(e, index, of.extent, fmt::format("axis {} of '{}'", axis, input.name));
    return;
  }
  const WideInterval at = bounds_of(*index.expr, run_.pattern);
  if (at.hi < 0 || (known && at.lo >= of.extent)) {
    const std::string why = at.hi < 0 ? "is always negative" : fmt::format("is never under {}", of.extent);
    (void)troubled(Code::index_range, e, Kind::integer, fmt::format("this index of '{}' {}", input.name, why));
  }
  const auto beyond = of.kind == Axis::Kind::queries ? beyond_own_row(*index.expr) : std::nullopt;
  if (!beyond || run_.unreachable > 0) return;
  auto& d = findings_.add(
      Code::offset_twice, e.outer,
      fmt::format("this index of '{}' subtracts the offset of the queries, which is done anyway", input.name),
      "a position is wanted here");
  d.notes.push_back("an index into an axis 'queries' is a position: element index - offset is read");
  if (*beyond == 0) d.fix = Fix{e.outer, "q", "index by the position"};
}

void Elaborator::use(int input, std::int64_t inner_block) {
  const auto& axes = run_.pattern.inputs[static_cast<std::size_t>(input)].axes;
  if (std::none_of(axes.begin(), axes.end(), [](const Axis& axis) { return axis.kind == Axis::Kind::blocks; })) return;
  const std::int64_t around = run_.block;
  const BlockUse found{input,
                       around > 0 && inner_block > 0 ? bounded_product(around, inner_block) : around + inner_block};
  effects_.uses.insert(found);
  run_.uses.insert(found);
}

}  // namespace weft::ir
