#include "runtime/draw/made_up.h"

#include <algorithm>

namespace weft::draw {

namespace {

constexpr std::int64_t kTokens = 512;  // where neither the pattern nor the user says

/// So many that every neighborhood fits; `block`: tokens of a position where the set stands.
std::int64_t fewest_tokens(const ir::Set& set, std::int64_t block) {
  std::int64_t fewest = 1;
  if (set.kind == ir::SetKind::neighborhood && set.args.size() == 4) fewest = set.args[0] * set.args[1] * block;
  if (set.kind == ir::SetKind::blocks) block *= set.args[0];
  for (const auto& child : set.children) fewest = std::max(fewest, fewest_tokens(*child, block));
  return fewest;
}

bool reads(const ir::Expr& e, int input) {
  return (e.op == ir::Op::input && e.input == input) ||
         std::any_of(e.args.begin(), e.args.end(), [&](const auto& arg) { return reads(*arg, input); });
}

bool reads(const ir::Set& set, int input) {
  return (set.input == input && set.kind != ir::SetKind::top) || (set.expr && reads(*set.expr, input)) ||
         std::any_of(set.children.begin(), set.children.end(), [&](const auto& child) { return reads(*child, input); });
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

}  // namespace

std::int64_t tokens_to_draw(const ir::Pattern& pattern) {
  if (!pattern.grid.empty()) return ir::Tensor::count(pattern.grid);
  if (pattern.tokens.kind == ir::Tokens::Kind::exact) return pattern.tokens.count;
  std::int64_t tokens = kTokens;
  for (const auto& branch : pattern.branches) tokens = std::max(tokens, fewest_tokens(*branch.set, 1));
  if (pattern.tokens.kind != ir::Tokens::Kind::multiple_of) return tokens;
  return (tokens + pattern.tokens.count - 1) / pattern.tokens.count * pattern.tokens.count;
}

std::vector<std::int64_t> input_shape(const ir::Input& input, const ir::Shape& shape) {
  using Kind = ir::Axis::Kind;
  std::vector<std::int64_t> extents;
  for (const auto& axis : input.axes) {
    switch (axis.kind) {
      case Kind::batch:
        extents.push_back(shape.batch);
        break;
      case Kind::heads:
        extents.push_back(shape.heads);
        break;
      case Kind::queries:
        extents.push_back(shape.n_q);
        break;
      case Kind::keys:
      case Kind::tokens:
        extents.push_back(shape.n_k);
        break;
      case Kind::blocks:
        extents.push_back((shape.n_k + input.block - 1) / std::max<std::int64_t>(input.block, 1));
        break;
      case Kind::extent:
        extents.push_back(axis.extent);
        break;
    }
  }
  return extents;
}

bool is_read(const ir::Pattern& pattern, std::size_t input) {
  return std::any_of(pattern.branches.begin(), pattern.branches.end(),
                     [&](const auto& branch) { return reads(*branch.set, static_cast<int>(input)); });
}

bool is_large(const std::vector<std::int64_t>& shape) {
  constexpr double kMostElements = 1 << 20;
  double count = 1;
  for (const auto extent : shape) count *= static_cast<double>(extent);
  return count > kMostElements;
}

bool is_lengths(const ir::Input& input) {
  return input.type == ir::InputType::i32 && input.axes.size() == 1 && input.axes[0].kind == ir::Axis::Kind::batch;
}

ir::Tensor made_up(const ir::Pattern& pattern, const ir::Shape& shape, std::size_t input) {
  const auto& one = pattern.inputs[input];
  ir::Tensor tensor;
  tensor.shape = input_shape(one, shape);
  if (!is_read(pattern, input)) return tensor;
  if (is_lengths(one)) {
    tensor.data.assign(static_cast<std::size_t>(shape.batch), static_cast<double>(shape.n_k));
    return tensor;
  }
  const auto row = std::max<std::int64_t>(tensor.shape.back(), 1);
  if (!is_large(tensor.shape)) {
    const auto count = ir::Tensor::count(tensor.shape);
    for (std::int64_t at = 0; at < count; ++at) tensor.data.push_back(element(one.type, row, at));
    return tensor;
  }
  tensor.made = [type = one.type, row](std::int64_t at) { return element(type, row, at); };
  return tensor;
}

}  // namespace weft::draw
