#include "tests/codegen/stored_lists.h"

#include "compiler/ir/pattern_interpreter_problem.h"
#include "compiler/ir/predicates.h"

#include <algorithm>
#include <limits>

namespace weft::testing {

namespace {

/// Numbers of one summary and how they lie: see runtime/engine/lists.h. Every batch entry and head has its own here.
class Summary {
 public:
  Summary(const ir::Plan& plan, const ir::List& list, const ir::Shape& shape, const std::vector<ir::Tensor>& inputs)
      : predicate_(plan.predicates[static_cast<std::size_t>(list.predicate)]),
        shape_(shape),
        values_(plan, shape, inputs),
        block_(list.block),
        blocks_((shape.n_k + list.block - 1) / list.block) {}

  std::int64_t span_words() const { return 2 * (blocks_ + (blocks_ + block_ - 1) / block_); }
  std::int64_t blocks() const { return blocks_; }

  void spans(std::int64_t b, std::int64_t h, std::int32_t* to) const {
    for (std::int64_t size : {block_, block_ * block_}) {
      for (std::int64_t first = 0; first < shape_.n_k; first += size, to += 2) {
        to[0] = std::numeric_limits<std::int32_t>::max();
        to[1] = std::numeric_limits<std::int32_t>::min();
        for (std::int64_t y = first; y < std::min(first + size, shape_.n_k); ++y) {
          const auto key = static_cast<std::int32_t>(values_.integer(*predicate_.key, b, h, 0, y));
          to[0] = std::min(to[0], key);
          to[1] = std::max(to[1], key);
        }
      }
    }
  }

  void meets(std::int64_t b, std::int64_t h, std::int64_t row, std::int32_t* to) const {
    const std::int64_t offset = shape_.offset_of(b);
    for (std::int64_t y = 0; y < shape_.n_k; ++y) {
      for (std::int64_t x = std::max(row * block_, offset); x < std::min((row + 1) * block_, offset + shape_.n_q);
           ++x) {
        to[y / block_] |= values_.holds(predicate_, b, h, x, y) ? 1 : 2;
      }
    }
  }

 private:
  const ir::Predicate& predicate_;
  const ir::Shape& shape_;
  ir::PairValues values_;
  std::int64_t block_, blocks_;
};

}  // namespace

void StoredLists::summarize(const ir::Plan& plan, const ir::List& list, const ir::Shape& shape,
                            const std::vector<ir::Tensor>& inputs, std::int64_t first_row, std::int64_t rows) {
  const Summary summary(plan, list, shape, inputs);
  const bool spans = list.kind == ir::List::Kind::spans;
  Stored& made = lists_.emplace_back();
  made.first_row = spans ? 0 : first_row;
  made.view.count = made.view.stride_row = spans ? summary.span_words() : summary.blocks();
  made.view.stride_h = (spans ? 1 : rows) * made.view.stride_row;
  made.view.stride_b = shape.heads * made.view.stride_h;
  made.numbers.assign(static_cast<std::size_t>(shape.batch * made.view.stride_b), 0);
  auto* to = made.numbers.data();
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      if (spans) summary.spans(b, h, to);
      for (std::int64_t row = 0; !spans && row < rows; ++row) {
        summary.meets(b, h, first_row + row, to + row * made.view.stride_row);
      }
      to += made.view.stride_h;
    }
  }
}

void StoredLists::deny_all(const ir::Plan& plan) {
  for (std::size_t i = 0; i < lists_.size(); ++i) {
    auto& numbers = lists_[i].numbers;
    if (plan.lists[i].kind == ir::List::Kind::meets) std::fill(numbers.begin(), numbers.end(), 2);
    if (plan.lists[i].kind != ir::List::Kind::spans) continue;
    for (std::size_t at = 0; at < numbers.size(); at += 2) {
      numbers[at] = std::numeric_limits<std::int32_t>::max();
      numbers[at + 1] = std::numeric_limits<std::int32_t>::min();
    }
  }
}

StoredLists::StoredLists(const ir::Plan& plan, const ir::Shape& shape, const ir::Tensor& q, const ir::Tensor& k,
                         const std::vector<ir::Tensor>& inputs) {
  for (const auto& list : plan.lists) {
    std::int64_t first = shape.offset_of(0), last = first;
    for (std::int64_t b = 0; b < shape.batch; ++b) {
      first = std::min(first, shape.offset_of(b));
      last = std::max(last, shape.offset_of(b) + shape.n_q - 1);
    }
    const std::int64_t blocks = (shape.n_k + list.block - 1) / list.block;
    const std::int64_t rows = ir::floor_div(last, list.block) - ir::floor_div(first, list.block) + 1;
    if (list.summarizes()) {
      summarize(plan, list, shape, inputs, ir::floor_div(first, list.block), rows);
      continue;
    }
    ir::Problem problem{.pattern = {}, .shape = shape, .inputs = inputs, .q = &q, .k = &k};
    problem.pattern.inputs = plan.inputs;
    const ir::SetPtr set = list.kind == ir::List::Kind::random
                               ? ir::make_set(ir::SetKind::random, {list.count, list.seed})
                               : ir::make_top(list.count, list.input, list.causal);
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
