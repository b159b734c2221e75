#include "tests/codegen/stored_lists.h"

#include "compiler/ir/pattern_interpreter_problem.h"

#include <algorithm>
#include <limits>

namespace weft::testing {

StoredLists::StoredLists(const ir::Plan& plan, const ir::Shape& shape, const ir::Tensor& q, const ir::Tensor& k,
                         const std::vector<ir::Tensor>& inputs) {
  for (const auto& list : plan.lists) {
    ir::Problem problem{.pattern = {}, .shape = shape, .inputs = inputs, .q = &q, .k = &k};
    problem.pattern.inputs = plan.inputs;
    const ir::SetPtr set = list.kind == ir::List::Kind::random
                               ? ir::make_set(ir::SetKind::random, {list.count, list.seed})
                               : ir::make_top(list.count, list.input, list.causal);
    std::int64_t first = shape.offset_of(0), last = first;
    for (std::int64_t b = 0; b < shape.batch; ++b) {
      first = std::min(first, shape.offset_of(b));
      last = std::max(last, shape.offset_of(b) + shape.n_q - 1);
    }
    const std::int64_t blocks = (shape.n_k + list.block - 1) / list.block;
    const std::int64_t rows = ir::floor_div(last, list.block) - ir::floor_div(first, list.block) + 1;
    Stored& made = lists_.emplace_back();
    made.first_row = ir::floor_div(first, list.block);
    made.view.count = made.view.stride_row = std::min(list.count, blocks);
    made.view.stride_h = rows * made.view.stride_row;
    made.view.stride_b = shape.heads * made.view.stride_h;
    made.numbers.assign(static_cast<std::size_t>(shape.batch * made.view.stride_b),
                        std::numeric_limits<std::int32_t>::max());
    const ir::Scope scope{.problem = problem, .n_q = blocks, .n_k = blocks, .block = list.block};
    auto at = made.numbers.begin();
    for (std::int64_t b = 0; b < shape.batch; ++b) {
      for (std::int64_t h = 0; h < shape.heads; ++h) {
        for (std::int64_t row = 0; row < rows; ++row, at += made.view.count) {
          const auto& keys = ir::drawn_keys(*set, scope, {.b = b, .h = h, .q = made.first_row + row, .k = 0});
          std::copy(keys.begin(), keys.end(), at);
        }
      }
    }
  }
}

void StoredLists::put(weft_args& args) const {
  for (std::size_t i = 0; i < lists_.size(); ++i) {
    const Stored& list = lists_[i];
    args.lists[i] = list.view;
    // Rows are counted from position 0.
    const auto* numbers = list.numbers.data() - list.first_row * list.view.stride_row;
    args.lists[i].data = const_cast<std::int32_t*>(numbers);
  }
}

}  // namespace weft::testing
