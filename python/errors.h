#pragma once

#include <nanobind/nanobind.h>
#include <weft/c.h>

#include <string>

/// From the C face's errors to the exceptions of weft/errors.py.
namespace weft::python {

namespace nb = nanobind;

/// What a user error without a place in the text is about.
enum class Stage { pattern, arguments };

/// Throws what the error says and frees it; nothing where there is none.
void check(weft_error* error, Stage stage);

/// The same of what `call` returns, without the interpreter's lock.
template <typename Call>
void check_unlocked(Stage stage, const Call& call) {
  weft_error* error = nullptr;
  {
    const nb::gil_scoped_release unlocked;
    error = call();
  }
  check(error, stage);
}

/// Throws an exception of weft.errors.
[[noreturn]] void throw_named(const char* name, const std::string& message);

nb::tuple to_python(const weft_diagnostic& diagnostic);

}  // namespace weft::python
