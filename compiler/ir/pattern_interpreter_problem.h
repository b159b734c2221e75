#pragma once

#include "compiler/ir/pattern.h"
#include "compiler/ir/pattern_interpreter.h"
#include "compiler/ir/tensor.h"

#include <array>
#include <cstdint>
#include <map>
#include <vector>

/// What the parts of the pattern interpreter share: one file evaluates sets, one scores, one the
/// drawn sets (`random`, `top`). Not for use outside the interpreters.
namespace weft::ir {

struct ChosenKeys;

/// The pair in question; `q` and `k` are positions, or block numbers inside `blocks`.
struct Pair {
  std::int64_t b = 0, h = 0, q = 0, k = 0;
};

/// Keys that `random` or `top` chose, by batch entry, head and row; as many rows as a tile may hold and more.
struct Drawn {
  const Set* set = nullptr;
  std::int64_t block = 1;  ///< of the scope: a shared node may stand in several
  std::map<std::array<std::int64_t, 3>, std::vector<std::int64_t>> rows = {};  ///< keys ascend
};

struct Problem {
  Pattern pattern;
  Shape shape;
  const InputValues& inputs;
  const Tensor* q = nullptr;
  const Tensor* k = nullptr;
  /// The sets that the lists of a plan are drawn by, and the blocks they count.
  std::vector<std::pair<SetPtr, std::int64_t>> lists = {};
  /// What stands in for choices of the interpreter's own; null: nothing does.
  const std::vector<ChosenKeys>* chosen = nullptr;
  mutable std::vector<Drawn> drawn = {};
  mutable Clamped clamped = {};
  /// Means of the blocks of keys, by batch entry, kv head and size of a block.
  mutable std::map<std::array<std::int64_t, 3>, std::vector<std::vector<double>>> key_means = {};
};

/// How many tokens, or blocks, a set sees.
struct Scope {
  const Problem& problem;
  std::int64_t n_q = 0, n_k = 0;
  std::int64_t block = 1;  ///< tokens per position of this scope
};

bool keeps(const Set& set, const Scope& scope, const Pair& pair);

/// The row of `random` or `top` that the pair lies in.
const std::vector<std::int64_t>& drawn_keys(const Set& set, const Scope& scope, const Pair& pair);

/// Of `top`: the scores of the blocks that the row chooses among. A NaN is the least.
std::vector<double> top_scores(const Set& set, const Scope& scope, const Pair& pair);

/// Element of an input at a pair: `batch` and `heads` axes take b and h, the others `positions` in
/// turn. Out of range is clamped into the extent.
double element(const Scope& scope, int input, const Pair& pair, const std::vector<std::int64_t>& positions);

/// An element of an input, by its place in the tensor; -1 where an extent is 0 and there is none.
struct Element {
  std::size_t input = 0;
  std::int64_t at = -1;
  bool operator==(const Element&) const = default;
};

/// The element that a node of kind `input` reads at a pair, and its value; 0 where there is none.
Element element_read(const Expr& e, const Scope& scope, const Pair& pair, double s);
double value_of(const Problem& problem, const Element& element);

/// Does a choice take its first value? Where it stands for an item of a list, the index may lie outside.
bool takes_first(const Expr& e, const Scope& scope, const Pair& pair, double s);

// Expressions at a pair, by type. Arithmetic on integers wraps; division by zero gives 0.
std::int64_t evaluate_integer(const Expr& e, const Scope& scope, const Pair& pair, double s = 0);
double evaluate_real(const Expr& e, const Scope& scope, const Pair& pair, double s = 0);
bool evaluate_boolean(const Expr& e, const Scope& scope, const Pair& pair, double s = 0);

/// check_shapes, and tensors of the sizes it accepted.
Status check_operands(const Pattern& pattern, const Shape& shape, const Tensor& q, const Tensor& k, const Tensor& v,
                      const InputValues& inputs);
/// "dO has shape [2, 3], expected [4]"
Status check_tensor(const char* name, const Tensor& tensor, const std::vector<std::int64_t>& expected);

}  // namespace weft::ir
