#pragma once

#include <nanobind/nanobind.h>

namespace weft::python {

/// `run(kernel, …)`: one launch over views. What is None is not given.
void bind_run(nanobind::module_& module);

}  // namespace weft::python
