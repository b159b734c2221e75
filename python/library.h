#pragma once

#include "python/dlpack.h"

#include <nanobind/nanobind.h>

/// Whose arrays there are, and what this package's Python knows of them.
namespace weft::python {

namespace nb = nanobind;

enum class Library { numpy, torch, cupy, jax, other };

/// A type of arrays.
struct ArrayType {
  PyTypeObject* type = nullptr;
  Library library = Library::other;
  const dlpack::Exchange* exchange = nullptr;  ///< how its arrays are looked at without Python; null: not at all
};

/// Asks Python once for each type.
ArrayType array_type(nb::handle array);
inline Library library_of(nb::handle array) { return array_type(array).library; }

/// A function of weft._arrays: for what is rare, and differs between libraries.
nb::object of_arrays(const char* name);

/// Something of a module, looked up once and held until the process ends. Nothing where the module is not imported.
class Held {
 public:
  constexpr Held(const char* module, const char* path) : module_(module), path_(path) {}
  nb::handle get();

 private:
  const char* module_;
  const char* path_;  ///< names, joined by dots
  PyObject* found_ = nullptr;
};

}  // namespace weft::python
