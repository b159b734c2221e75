#pragma once

#include "codegen/cuda/intervals.h"

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

/// An expression as a list of its different nodes, which is what a text is written from.
namespace weft::codegen::cuda {

/// Of C++: an operand that binds less tightly than its place wants gets parentheses.
enum Tightness { loosest, comparison, shift, sum, product, unary, primary };

struct Node {
  const ir::Expr* e = nullptr;
  std::vector<int> args = {};  ///< numbers of nodes, smaller than the node's own
  Interval values = {};        ///< of integers
  bool wide = false;           ///< an integer of 64 bits
  bool sharp = false;          ///< a comparison or a remainder sees its last digit
  int uses = 0;
  std::string text = {};  ///< filled by the writer
  Tightness tightness = primary;
};

/// Operands come first. Equal sub-expressions are one node whether or not they are shared in memory, so that a plan
/// and its text give the same kernel. Takes time linear in the nodes in memory, and keeps pointers to them.
class Nodes {
 public:
  Nodes(const ir::Expr& e, const std::vector<ir::Input>& inputs);

  std::vector<Node> all;
  const Node& arg(const Node& node, std::size_t i) const { return all[static_cast<std::size_t>(node.args[i])]; }

 private:
  using Key = std::tuple<ir::Op, ir::Type, std::int64_t, std::uint64_t, bool, ir::Variable, int, std::vector<int>>;

  int add(const ir::Expr& e);
  Node make(const ir::Expr& e, std::vector<int> args);
  Interval values_of(const ir::Expr& e, const std::vector<int>& args) const;
  void find_sharp();

  const std::vector<ir::Input>& inputs_;
  std::map<Key, int> numbers_;
  std::unordered_map<const ir::Expr*, int> seen_;
};

}  // namespace weft::codegen::cuda
