#pragma once

#include <nanobind/nanobind.h>

namespace weft::python {

/// Rings, over messages that Python sends: see weft/ring.py.
void bind_ring(nanobind::module_& module);

}  // namespace weft::python
