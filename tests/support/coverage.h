#pragma once

#include "compiler/ir/pattern.h"
#include "compiler/ir/pattern_interpreter.h"
#include "compiler/ir/plan.h"
#include "compiler/ir/tensor.h"

#include <cstdint>
#include <string>
#include <vector>

namespace weft::test {

/// Weight of each pair as plans visit it, by branch for sum and mean.
class Coverage {
 public:
  Coverage(const ir::Pattern& pattern, const ir::Shape& shape);

  /// Adds a plan's visits; several plans add up (hops of a ring). Says what is wrong, if anything. q and k are what
  /// pooled `top` reads, here and below.
  std::string add(const ir::Plan& plan, const ir::InputValues& inputs, const ir::Tensor* q = nullptr,
                  const ir::Tensor* k = nullptr);

  /// The first pair whose weight is not the one it is meant to have; empty when there is none.
  std::string difference(const ir::Pattern& pattern, const ir::InputValues& inputs, const ir::Tensor* q = nullptr,
                         const ir::Tensor* k = nullptr);

  bool empty() const;

 private:
  int& at(std::int64_t slot, std::int64_t b, std::int64_t h, std::int64_t row, std::int64_t k);

  ir::Shape shape_;
  std::int64_t slots_;
  std::vector<int> weight_;
};

}  // namespace weft::test
