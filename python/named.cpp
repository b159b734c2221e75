#include "python/named.h"

#include "python/errors.h"

#include <nanobind/stl/string.h>

#include <string_view>

namespace weft::python {

namespace {

const ElementType* wanted_type(const weft_pattern* pattern, std::string_view name) {
  for (size_t i = 0; i < weft_pattern_input_count(pattern); ++i) {
    const auto input = weft_pattern_input(pattern, i);
    if (name == input.name) return element_type(input.dtype);
  }
  return nullptr;
}

}  // namespace

NamedViews::NamedViews(const nb::object& inputs, const weft_pattern* pattern, Stream& stream) {
  if (inputs.is_none()) return;
  for (const nb::handle item : inputs.attr("items")()) {
    auto one = std::make_unique<One>(nb::cast<std::string>(item[0]));
    nb::object value = item[1];
    const ElementType* const wanted = wanted_type(pattern, one->name);
    const bool numbers = nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value);
    if (numbers && wanted != nullptr && wanted->dtype == WEFT_I32) {
      value = nb::module_::import_("array").attr("array")("i", value);
    }
    view_input(one->view, value, "the input '" + one->name + "'", stream);
    const std::string& found = one->view->dtype();
    if (wanted != nullptr && found != wanted->name && !(wanted->dtype == WEFT_U8 && found == "bool")) {
      throw_named("ArgumentError", one->view->name() + " is " + found + "; expected " + std::string(wanted->name));
    }
    tensors_.push_back({one->name.c_str(), one->view->tensor(false)});
    views_.push_back(std::move(one));
  }
}

const View* NamedViews::find(const char* name) const {
  for (const auto& one : views_) {
    if (one->name == name) return &*one->view;
  }
  return nullptr;
}

}  // namespace weft::python
