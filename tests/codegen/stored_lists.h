#pragma once

#include "codegen/args.h"
#include "compiler/ir/plan.h"
#include "compiler/ir/tensor.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::testing {

/// What a plan's kernel reads of its prepass: the lists of chosen key blocks as the interpreter draws them, and the
/// summaries as its conditions tell.
class StoredLists {
 public:
  StoredLists() = default;
  StoredLists(const ir::Plan& plan, const ir::Shape& shape, const ir::Tensor& q, const ir::Tensor& k,
              const std::vector<ir::Tensor>& inputs);

  /// Makes every summary say that no key meets its condition.
  void deny_all(const ir::Plan& plan);

  /// Points the argument block at them.
  void put(weft_args& args) const;

  std::size_t size() const { return lists_.size(); }
  const std::vector<std::int32_t>& numbers(std::size_t i) const { return lists_[i].numbers; }

 private:
  struct Stored {
    weft_list view{};
    std::int64_t first_row = 0;
    std::vector<std::int32_t> numbers;
  };
  void summarize(const ir::Plan& plan, const ir::List& list, const ir::Shape& shape,
                 const std::vector<ir::Tensor>& inputs, std::int64_t first_row, std::int64_t rows);

  std::vector<Stored> lists_;
};

}  // namespace weft::testing
