#include "tools/drawn_inputs.h"

#include "runtime/engine/reference.h"
#include "tools/operands.h"

#include <algorithm>

namespace weft::tools {

namespace {

/// Inputs with more elements are made up one by one.
constexpr double kMostElements = 1 << 20;

bool reads(const ir::Expr& e, int input) {
  return (e.op == ir::Op::input && e.input == input) ||
         std::any_of(e.args.begin(), e.args.end(), [&](const auto& arg) { return reads(*arg, input); });
}

/// Scores of blocks are not read: any choice shows the pattern.
bool reads(const ir::Set& set, int input) {
  return (set.input == input && set.kind != ir::SetKind::top) || (set.expr && reads(*set.expr, input)) ||
         std::any_of(set.children.begin(), set.children.end(), [&](const auto& child) { return reads(*child, input); });
}

bool is_lengths(const ir::Input& input) {
  return input.type == ir::InputType::i32 && input.axes.size() == 1 && input.axes[0].kind == ir::Axis::Kind::batch;
}

double elements(const std::vector<std::int64_t>& shape) {
  double count = 1;
  for (const auto extent : shape) count *= static_cast<double>(extent);
  return count;
}

/// Any bits of a counter (the finaliser of SplitMix64).
std::uint64_t bits_of(std::int64_t number) {
  auto x = static_cast<std::uint64_t>(number) * 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// As random_input() makes it, by the number of the element: eight equal documents stand for about eight.
double element(ir::InputType type, std::int64_t row, std::int64_t number) {
  switch (type) {
    case ir::InputType::u8:
      return static_cast<double>(bits_of(number) & 1U);
    case ir::InputType::i32:
      return static_cast<double>(number % row * 8 / row);
    case ir::InputType::f32:
      break;
  }
  return static_cast<double>(bits_of(number) >> 11) * 0x1p-51 - 2;
}

ir::Tensor made_up(const ir::Pattern& pattern, const ir::Shape& shape, std::size_t i) {
  const auto& input = pattern.inputs[i];
  ir::Tensor tensor;
  tensor.shape = input_shape(input, shape);
  const auto number = static_cast<int>(i);
  const auto& branches = pattern.branches;
  if (std::none_of(branches.begin(), branches.end(), [&](const auto& one) { return reads(*one.set, number); })) {
    return tensor;
  }
  if (elements(tensor.shape) > kMostElements) {
    tensor.made = [type = input.type, row = std::max<std::int64_t>(tensor.shape.back(), 1)](std::int64_t at) {
      return element(type, row, at);
    };
    return tensor;
  }
  tensor = to_f64(random_input(input, shape, 0, i).view());
  if (is_lengths(input)) std::fill(tensor.data.begin(), tensor.data.end(), static_cast<double>(shape.n_k));
  return tensor;
}

}  // namespace

Result<ir::InputValues> inputs_to_draw(const Options& options, const ir::Pattern& pattern, const ir::Shape& shape) {
  WEFT_TRY(auto given, given_inputs(options, pattern, shape));
  ir::InputValues values;
  for (std::size_t i = 0; i < pattern.inputs.size(); ++i) {
    values.push_back(given[i] ? to_f64(given[i]->view()) : made_up(pattern, shape, i));
  }
  return values;
}

}  // namespace weft::tools
