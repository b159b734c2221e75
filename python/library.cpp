#include "python/library.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace weft::python {

namespace {

constexpr std::size_t kMostTypes = 16;

Library library_by_name(nb::handle type) {
  const auto name = nb::cast<std::string>(of_arrays("library_of_type")(type));
  if (name == "numpy") return Library::numpy;
  if (name == "torch") return Library::torch;
  if (name == "jax") return Library::jax;
  return name == "cupy" ? Library::cupy : Library::other;
}

const dlpack::Exchange* exchange_of(nb::handle type) {
  const nb::object capsule = nb::getattr(type, "__dlpack_c_exchange_api__", nb::none());
  if (PyCapsule_IsValid(capsule.ptr(), dlpack::kExchange) == 0) return nullptr;
  const auto* header = static_cast<dlpack::ExchangeHeader*>(PyCapsule_GetPointer(capsule.ptr(), dlpack::kExchange));
  while (header != nullptr && header->major != 1) header = header->older;
  return reinterpret_cast<const dlpack::Exchange*>(header);
}

}  // namespace

ArrayType array_type(nb::handle array) {
  static std::array<ArrayType, kMostTypes> known;
  static std::size_t count = 0;
  static nb::ft_mutex mutex;
  PyTypeObject* const type = Py_TYPE(array.ptr());
  {
    const nb::ft_lock_guard locked(mutex);
    for (std::size_t i = 0; i < count; ++i) {
      if (known[i].type == type) return known[i];
    }
  }
  const nb::handle object(reinterpret_cast<PyObject*>(type));
  const ArrayType found = {type, library_by_name(object), exchange_of(object)};
  const nb::ft_lock_guard locked(mutex);
  if (count < kMostTypes) {
    object.inc_ref();  // an address that was seen stays that type's
    known[count++] = found;
  }
  return found;
}

nb::object of_arrays(const char* name) { return nb::module_::import_("weft._arrays").attr(name); }

nb::handle Held::get() {
  if (found_ != nullptr) return found_;
  const nb::dict modules = nb::module_::import_("sys").attr("modules");
  if (!modules.contains(module_)) return {};
  nb::object at = modules[module_];
  for (std::string_view rest = path_; !rest.empty();) {
    const auto end = std::min(rest.find('.'), rest.size());
    at = at.attr(std::string(rest.substr(0, end)).c_str());
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  found_ = at.release().ptr();
  return found_;
}

}  // namespace weft::python
