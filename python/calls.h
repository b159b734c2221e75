#pragma once

#include <nanobind/nanobind.h>

namespace weft::python {

/// What stands before a launch in weft.attention: by which way it goes, and which kernel it takes.
void bind_calls(nanobind::module_& module);

}  // namespace weft::python
