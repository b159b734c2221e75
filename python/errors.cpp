#include "python/errors.h"

#include <memory>

namespace weft::python {

namespace {

[[noreturn]] void throw_object(const nb::object& exception) {
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw nb::python_error();
}

}  // namespace

nb::tuple to_python(const weft_diagnostic& d) {
  return nb::make_tuple(d.code, d.message, d.begin, d.end, d.line, d.column);
}

void check(weft_error* error, Stage stage) {
  if (error == nullptr) return;
  const std::unique_ptr<weft_error, decltype(&weft_error_free)> owned(error, &weft_error_free);
  nb::list diagnostics;
  for (size_t i = 0; i < weft_error_diagnostic_count(error); ++i) {
    diagnostics.append(to_python(weft_error_diagnostic(error, i)));
  }
  const nb::object make = nb::module_::import_("weft.errors").attr("_from_core");
  throw_object(make(static_cast<int>(weft_error_kind_of(error)), weft_error_message(error), weft_error_report(error),
                    diagnostics, stage == Stage::pattern));
}

void throw_named(const char* name, const std::string& message) {
  throw_object(nb::module_::import_("weft.errors").attr(name)(message.c_str()));
}

}  // namespace weft::python
