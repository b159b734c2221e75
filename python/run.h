#pragma once

#include <nanobind/nanobind.h>

namespace weft::python {

/// `forward` and `backward`: arrays in, arrays out, and one launch in between. Arguments are those of weft/_weft.pyi.
void bind_run(nanobind::module_& module);

}  // namespace weft::python
