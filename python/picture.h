#pragma once

#include <nanobind/nanobind.h>

namespace weft::python {

/// `_weft.Picture`: which pairs a text keeps.
void bind_picture(nanobind::module_& module);

}  // namespace weft::python
