#pragma once

#include "python/view.h"

#include <nanobind/nanobind.h>
#include <weft/c.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft::python {

namespace nb = nanobind;

/// Inputs by name, looked at where they lie.
class NamedViews {
 public:
  /// `inputs`: a dict, or None. `pattern`: what dtypes they must have; ArgumentError where one has not.
  NamedViews(const nb::object& inputs, const weft_pattern* pattern, Stream& stream);

  /// Null where it is not given.
  const View* find(const char* name) const;
  /// They live as long as this.
  const std::vector<weft_named_tensor>& tensors() const { return tensors_; }

 private:
  struct One {
    std::string name;
    std::optional<View> view;
    explicit One(std::string of) : name(std::move(of)) {}
  };
  std::vector<std::unique_ptr<One>> views_;
  std::vector<weft_named_tensor> tensors_;
};

}  // namespace weft::python
