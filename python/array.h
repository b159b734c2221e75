#pragma once

#include "python/dlpack.h"
#include "python/dtypes.h"

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace weft::python {

namespace nb = nanobind;

/// Memory of Weft's own, for results where the arrays' library cannot be asked for some. Dense, row-major, on the host,
/// aligned to 64 bytes.
class Array {
 public:
  Array(std::vector<std::int64_t> shape, const std::string& dtype);

  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::string dtype() const { return std::string(type_->name); }
  void* data() const { return memory_.get(); }

  /// A capsule as `numpy.from_dlpack`, `torch.from_dlpack` and their like take it. Nothing is copied: the array stays
  /// as long as somebody uses its memory.
  nb::object capsule(nb::object max_version) const;

 private:
  std::vector<std::int64_t> shape_;
  const ElementType* type_;
  std::shared_ptr<void> memory_;
};

void bind_array(nb::module_& module);

}  // namespace weft::python
