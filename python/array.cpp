#include "python/array.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>
#include <new>

namespace weft::python {

namespace {

constexpr std::size_t kAlignment = 64;

std::size_t bytes_of(const std::vector<std::int64_t>& shape, const ElementType& type) {
  std::size_t bytes = type.bytes;
  for (const auto extent : shape) {
    if (extent < 0) throw nb::value_error("a negative extent");
    if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(extent), &bytes)) throw std::bad_alloc();
  }
  return bytes;
}

std::shared_ptr<void> allocate(std::size_t bytes) {
  void* memory = std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment);
  if (memory == nullptr) throw std::bad_alloc();
  return {memory, &std::free};
}

/// What a consumer's tensor points into.
struct Kept {
  std::vector<std::int64_t> shape, strides;
  std::shared_ptr<void> memory;
};

template <typename Wrapped>
void drop(Wrapped* wrapped) {
  delete static_cast<Kept*>(wrapped->context);
  delete wrapped;
}

std::vector<std::int64_t> dense_strides(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> out(shape.size(), 1);
  for (std::size_t axis = shape.size(); axis-- > 1;) out[axis - 1] = out[axis] * shape[axis];
  return out;
}

dlpack::Tensor tensor_of(Kept& kept, const ElementType& type) {
  return {.data = kept.memory.get(),
          .device = {static_cast<std::int32_t>(dlpack::DeviceType::cpu), 0},
          .rank = static_cast<std::int32_t>(kept.shape.size()),
          .dtype = {static_cast<std::uint8_t>(type.code), static_cast<std::uint8_t>(8 * type.bytes), 1},
          .shape = kept.shape.data(),
          .strides = kept.strides.data(),
          .byte_offset = 0};
}

/// A capsule that owns `kept` until somebody takes the tensor out of it.
template <typename Wrapped>
nb::object capsule_of(std::unique_ptr<Wrapped> wrapped, std::unique_ptr<Kept> kept, const ElementType& type,
                      const char* name, PyCapsule_Destructor destroy) {
  wrapped->tensor = tensor_of(*kept, type);
  wrapped->deleter = &drop<Wrapped>;
  PyObject* made = PyCapsule_New(wrapped.get(), name, destroy);
  if (made == nullptr) throw nb::python_error();
  wrapped.release()->context = kept.release();
  return nb::steal(made);
}

/// Of a capsule that nobody took the tensor out of.
template <typename Wrapped>
void drop_capsule(PyObject* capsule, const char* name) {
  if (PyCapsule_IsValid(capsule, name) != 0) drop(static_cast<Wrapped*>(PyCapsule_GetPointer(capsule, name)));
}

}  // namespace

Array::Array(std::vector<std::int64_t> shape, const std::string& dtype)
    : shape_(std::move(shape)), type_(element_type(dtype)) {
  if (type_ == nullptr) throw nb::value_error(("no dtype '" + dtype + "'").c_str());
  memory_ = allocate(bytes_of(shape_, *type_));
}

nb::object Array::capsule(nb::object max_version) const {
  auto kept = std::make_unique<Kept>(Kept{shape_, dense_strides(shape_), memory_});
  const bool versions = !max_version.is_none() && nb::cast<int>(max_version[0]) >= 1;
  if (!versions) {
    return capsule_of(std::make_unique<dlpack::Managed>(), std::move(kept), *type_, dlpack::kManaged,
                      [](PyObject* self) { drop_capsule<dlpack::Managed>(self, dlpack::kManaged); });
  }
  auto wrapped = std::make_unique<dlpack::Versioned>();
  wrapped->major = 1;
  return capsule_of(std::move(wrapped), std::move(kept), *type_, dlpack::kVersioned,
                    [](PyObject* self) { drop_capsule<dlpack::Versioned>(self, dlpack::kVersioned); });
}

void bind_array(nb::module_& module) {
  nb::class_<Array>(module, "Array")
      .def(nb::init<std::vector<std::int64_t>, const std::string&>(), nb::arg("shape"), nb::arg("dtype"))
      .def_prop_ro("shape", [](const Array& self) { return nb::tuple(nb::cast(self.shape())); })
      .def_prop_ro("dtype", &Array::dtype)
      .def(
          "__dlpack__",
          [](const Array& self, nb::object, nb::object max_version, nb::object, nb::object copy) {
            if (!copy.is_none() && nb::cast<bool>(copy))
              throw nb::buffer_error("weft.Array lends its memory, it does not copy it");
            return self.capsule(std::move(max_version));
          },
          nb::kw_only(), nb::arg("stream").none() = nb::none(), nb::arg("max_version").none() = nb::none(),
          nb::arg("dl_device").none() = nb::none(), nb::arg("copy").none() = nb::none())
      .def("__dlpack_device__",
           [](const Array&) { return nb::make_tuple(static_cast<std::int32_t>(dlpack::DeviceType::cpu), 0); });
}

}  // namespace weft::python
