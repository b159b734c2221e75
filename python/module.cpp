#include "python/array.h"
#include "python/calls.h"
#include "python/engine.h"
#include "python/explanation.h"
#include "python/jax.h"
#include "python/pattern.h"
#include "python/picture.h"
#include "python/ring.h"
#include "python/run.h"
#include "python/view.h"

#include <nanobind/nanobind.h>
#include <weft/c.h>

/// weft._weft: what python/weft needs of the C face, and nothing that Python can do itself.

// NOLINTNEXTLINE: nanobind's macro
NB_MODULE(_weft, module) {
  using namespace weft::python;  // NOLINT(google-build-using-namespace)
  module.def("version", &weft_version);
  module.def("library_text", &weft_library_text, nb::arg("number"), "None behind the last");
  module.def(
      "leaks_are_known", [] { nb::set_leak_warnings(false); },
      "Whoever registers functions of this package in a library that never lets go of them says so");
  bind_view(module);
  bind_array(module);
  bind_pattern(module);
  bind_engine(module);
  bind_run(module);
  bind_calls(module);
  bind_picture(module);
  bind_explanation(module);
  bind_ring(module);
  bind_jax(module);
}
