#pragma once

#include "codegen/args.h"
#include "compiler/ir/plan.h"
#include "compiler/ir/tensor.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::testing {

/// The lists of chosen key blocks that a plan's kernel reads, as the interpreter draws them.
class StoredLists {
 public:
  StoredLists() = default;
  StoredLists(const ir::Plan& plan, const ir::Shape& shape, const ir::Tensor& q, const ir::Tensor& k,
              const std::vector<ir::Tensor>& inputs);

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
  std::vector<Stored> lists_;
};

}  // namespace weft::testing
