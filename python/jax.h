#pragma once

#include <nanobind/nanobind.h>

namespace weft::python {

/// What XLA runs kernels by: `jax_keep` names a kernel, `jax_function` is a jax::Function of weft/_jax/call.h.
void bind_jax(nanobind::module_& module);

}  // namespace weft::python
