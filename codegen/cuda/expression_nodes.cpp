#include "codegen/cuda/expression_nodes.h"

#include <bit>

namespace weft::codegen::cuda {

using ir::Op;
using ir::Type;

Nodes::Nodes(const ir::Expr& e, const std::vector<ir::Input>& inputs) : inputs_(inputs) {
  add(e);
  find_sharp();
}

int Nodes::add(const ir::Expr& e) {
  if (const auto it = seen_.find(&e); it != seen_.end()) return it->second;
  std::vector<int> args;
  for (const auto& arg : e.args) args.push_back(add(*arg));
  const Key key{e.op, e.type, e.integer, std::bit_cast<std::uint64_t>(e.real), e.boolean, e.variable, e.input, args};
  const auto [it, is_new] = numbers_.emplace(key, static_cast<int>(all.size()));
  if (is_new) all.push_back(make(e, std::move(args)));
  seen_.emplace(&e, it->second);
  return it->second;
}

Node Nodes::make(const ir::Expr& e, std::vector<int> args) {
  for (int number : args) ++all[static_cast<std::size_t>(number)].uses;
  Node node{.e = &e};
  if (e.type == Type::integer) {
    node.values = values_of(e, args);
    node.wide = !node.values.fits_int();
  }
  node.args = std::move(args);
  return node;
}

Interval Nodes::values_of(const ir::Expr& e, const std::vector<int>& args) const {
  if (e.op == Op::constant) return {e.integer, e.integer};
  if (e.op == Op::variable) return interval_of(e.variable);
  if (e.op == Op::input) return interval_of(inputs_[static_cast<std::size_t>(e.input)].type);
  std::vector<Interval> values;
  for (std::size_t i = e.op == Op::select ? 1 : 0; i < args.size(); ++i) {
    values.push_back(all[static_cast<std::size_t>(args[i])].values);
  }
  return interval_of(e.op, values);
}

/// Where a step follows, a quotient must not be one unit beside it.
void Nodes::find_sharp() {
  for (auto node = all.rbegin(); node != all.rend(); ++node) {
    const bool sees =
        node->sharp || is_comparison(node->e->op) || node->e->op == Op::modulo || node->e->op == Op::floor;
    for (int number : node->args) {
      Node& operand = all[static_cast<std::size_t>(number)];
      operand.sharp = operand.sharp || sees;
    }
  }
}

}  // namespace weft::codegen::cuda
