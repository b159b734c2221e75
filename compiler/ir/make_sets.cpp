// The set that a call means, once its arguments are known: one function for each word of dsl/sets.def that needs one.

#include "compiler/ir/elaborate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace weft::ir {
namespace {

bool is_given(const Value& arg) { return arg.kind != Kind::unknown; }

/// 0 where it is left out.
std::int64_t whole(const Value& arg) { return integer_of(arg).value_or(0); }

}  // namespace

int Elaborator::number_of_input(const Value& input) {
  const auto number = input.input ? run_.find_input(input.input->word) : std::nullopt;
  if (number) use(*number);
  return number.value_or(-1);
}

/// Sets whose arguments are all plain numbers.
SetPtr Elaborator::numbers(const SetCall& call, SetKind kind) {
  std::vector<std::int64_t> args;
  std::transform(call.args.begin(), call.args.end(), std::back_inserter(args), whole);
  return make_set(kind, std::move(args), call.e.range);
}

/// No keys drawn is the empty set, which has one form only.
SetPtr Elaborator::random(const SetCall& call, SetKind kind) {
  if (whole(call.args[0]) > 0) return numbers(call, kind);
  return make_set(SetKind::complement, std::vector<SetPtr>{make_set(SetKind::all)}, call.e.range);
}

SetPtr Elaborator::dilated(const SetCall& call, SetKind) {
  ExprPtr phase = is_given(call.args[2]) ? call.args[2].expr : constant(0, call.e.range);
  return make_dilated(whole(call.args[0]), whole(call.args[1]), std::move(phase), is_given(call.args[3]), call.e.range);
}

bool Elaborator::fits_grid(const SetCall& call, const std::int64_t* row, std::size_t axis) {
  const std::int64_t size = row[0], dilation = row[1], stride = row[2];
  const auto& grid = run_.pattern.grid;
  std::string message;
  if (stride > size) {
    message = fmt::format("the stride {} is larger than the size {}", stride, size);
  } else if (!grid.empty() && bounded_product(size, dilation) > grid[axis]) {
    message = fmt::format("size {} times dilation {} is more than the grid's {}", size, dilation, grid[axis]);
  }
  if (message.empty()) return true;
  findings_.add(Code::value_range, call.e.range, std::move(message));
  return false;
}

/// One value for all axes, or a list with one for each.
SetPtr Elaborator::neighborhood(const SetCall& call, SetKind kind) {
  const std::size_t axes = std::max<std::size_t>(1, run_.grid.value_or(0));
  constexpr std::array<std::int64_t, 4> kDefaults = {0, 1, 1, 0};
  std::vector<std::int64_t> args;
  for (std::size_t axis = 0; axis < axes; ++axis) {
    for (std::size_t i = 0; i < kDefaults.size(); ++i) {
      const Value& arg = call.args[i];
      const bool is_list = arg.kind == Kind::list;
      const ExprPtr& number = is_list ? (*arg.items)[axis].expr : arg.expr;
      args.push_back(!is_given(arg) ? kDefaults[i] : i == 3 ? number->boolean : number->integer);
    }
    if (!fits_grid(call, &args[4 * axis], axis)) return nullptr;
  }
  return make_set(kind, std::move(args), call.e.range);
}

SetPtr Elaborator::blocks(const SetCall& call, SetKind) {
  return make_blocks(whole(call.args[0]), call.args[1].set, call.e.range);
}

SetPtr Elaborator::from_input(const SetCall& call, SetKind kind) {
  return make_input_set(kind, number_of_input(call.args[0]), call.e.range);
}

SetPtr Elaborator::top(const SetCall& call, SetKind) {
  SetPtr set = make_top(whole(call.args[0]), number_of_input(call.args[1]), is_known(call.args[2], true), call.e.range);
  if (!is_given(call.args[2])) run_.default_tops.push_back(set);
  return set;
}

SetPtr Elaborator::where(const SetCall& call, SetKind) { return make_where(call.args[0].expr, call.e.range); }

SetPtr Elaborator::made_set(const SetCall& call) {
#define WEFT_SET(kind, make, ...) \
  if (call.e.word == #kind) return make(call, SetKind::kind);
#include "dsl/sets.def"
  return nullptr;
}

}  // namespace weft::ir
