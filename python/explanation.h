#pragma once

#include <nanobind/nanobind.h>

namespace weft::python {

/// `_weft.explain` and `_weft.doctor`: what a kernel will do, and what is on the machine.
void bind_explanation(nanobind::module_& module);

}  // namespace weft::python
