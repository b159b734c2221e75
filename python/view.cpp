#include "python/view.h"

#include "python/array.h"
#include "python/errors.h"
#include "python/library.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <algorithm>

namespace weft::python {

namespace {

constexpr int kMostAxes = 4;

/// The letter of a buffer's format; 0 for structs and for bytes in the other order.
char letter_of(const Py_buffer& buffer) {
  std::string_view format = buffer.format == nullptr ? "B" : buffer.format;
  const bool swapped = !format.empty() && (format[0] == '>' || format[0] == '!') && buffer.itemsize > 1;
  if (!format.empty() && std::string_view("@=<>!").find(format[0]) != std::string_view::npos) format.remove_prefix(1);
  return format.size() == 1 && !swapped ? format[0] : '\0';
}

std::string dtype_of(const Py_buffer& buffer) {
  const char letter = letter_of(buffer);
  for (const auto& row : kElementTypes) {
    if (letter != 0 && row.format == letter && row.bytes == buffer.itemsize) return std::string(row.name);
  }
  return "of format '" + std::string(buffer.format == nullptr ? "" : buffer.format) + "'";
}

std::string dtype_of(const dlpack::DataType& type) {
  for (const auto& row : kElementTypes) {
    if (static_cast<std::uint8_t>(row.code) == type.code && row.bytes * 8 == type.bits && type.lanes == 1) {
      return std::string(row.name);
    }
  }
  return "of DLPack's code " + std::to_string(type.code) + " with " + std::to_string(type.bits) + " bits";
}

bool is_cuda(std::int32_t type) {
  return type == static_cast<std::int32_t>(dlpack::DeviceType::cuda) ||
         type == static_cast<std::int32_t>(dlpack::DeviceType::cuda_managed);
}

}  // namespace

Stream::Stream(nb::handle said) {
  if (said.is_none()) return;
  said_ = asked_ = true;
  known_ = nb::cast<std::uintptr_t>(of_arrays("stream_address")(said));
}

Stream Stream::unready() {
  Stream stream{nb::none()};
  stream.asked_ = true;
  return stream;
}

std::optional<std::uintptr_t> Stream::of(nb::handle array) {
  if (!asked_) {
    asked_ = true;
    const nb::object current = of_arrays("current_stream")(array);
    if (!current.is_none()) known_ = nb::cast<std::uintptr_t>(current);
  }
  return known_;
}

View::View(nb::object array, std::string name, Stream& stream) : owner_(std::move(array)), name_(std::move(name)) {
  if (read_exchange(stream) || read_own() || read_buffer(owner_) || read_bfloat16()) return;
  if (!nb::hasattr(owner_, "__dlpack__") || !nb::hasattr(owner_, "__dlpack_device__")) {
    throw nb::type_error((name_ + " is of type " + std::string(nb::inst_name(owner_).c_str()) +
                          "; expected an array of NumPy, PyTorch or another library that has __dlpack__")
                             .c_str());
  }
  read_capsule(stream);
}

View::~View() {
  if (buffer_.obj != nullptr) PyBuffer_Release(&buffer_);
  if (managed_ != nullptr && managed_->deleter != nullptr) managed_->deleter(managed_);
  if (versioned_ != nullptr && versioned_->deleter != nullptr) versioned_->deleter(versioned_);
}

bool View::read_buffer(nb::handle array) {
  if (PyObject_CheckBuffer(array.ptr()) == 0) return false;
  if (PyObject_GetBuffer(array.ptr(), &buffer_, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
    PyErr_Clear();  // arrays of types that the protocol cannot name
    buffer_ = {};
    return false;
  }
  dtype_ = dtype_of(buffer_);
  data_ = buffer_.buf;
  read_only_ = buffer_.readonly != 0;
  for (int axis = 0; axis < buffer_.ndim; ++axis) {
    if (buffer_.strides[axis] % buffer_.itemsize != 0) {
      const auto bytes = std::to_string(buffer_.strides[axis]), size = std::to_string(buffer_.itemsize);
      PyBuffer_Release(&buffer_);
      throw_named("ArgumentError", name_ + ": axis " + std::to_string(axis) + " has a stride of " + bytes +
                                       " bytes; expected a multiple of its elements' " + size);
    }
    shape_.push_back(buffer_.shape[axis]);
    strides_.push_back(buffer_.strides[axis] / buffer_.itemsize);
  }
  return true;
}

bool View::read_own() {
  const Array* array = nullptr;
  if (!nb::try_cast<const Array*>(owner_, array) || array == nullptr) return false;
  shape_.assign(array->shape().begin(), array->shape().end());
  strides_.assign(shape_.size(), 1);
  for (std::size_t axis = shape_.size(); axis-- > 1;) strides_[axis - 1] = strides_[axis] * shape_[axis];
  dtype_ = array->dtype();
  data_ = array->data();
  return true;
}

/// Arrays of ml_dtypes, for which the protocol has no letter.
bool View::read_bfloat16() {
  if (library_of(owner_) != Library::numpy || nb::cast<std::string>(owner_.attr("dtype").attr("name")) != "bfloat16") {
    return false;
  }
  if (!read_buffer(owner_.attr("view")("uint16"))) return false;
  dtype_ = "bf16";
  return true;
}

/// Arrays of a GPU are taken if the launch goes where their library works; else `__dlpack__` makes them ready.
bool View::read_exchange(Stream& stream) {
  const auto [type, library, exchange] = array_type(owner_);
  if (exchange == nullptr || library == Library::numpy) return false;  // NumPy's buffers say whether they are read-only
  dlpack::Tensor seen;
  if (exchange->look != nullptr) {
    if (exchange->look(owner_.ptr(), &seen) != 0) {
      PyErr_Clear();  // what `__dlpack__` says is the message
      return false;
    }
  } else {
    if (exchange->from_object(owner_.ptr(), &versioned_) != 0) {
      PyErr_Clear();
      versioned_ = nullptr;
      return false;
    }
    seen = versioned_->tensor;
    read_only_ = (versioned_->flags & dlpack::kReadOnly) != 0;
  }
  const bool on_host = seen.device.type == static_cast<std::int32_t>(dlpack::DeviceType::cpu);
  if (!on_host && !(is_cuda(seen.device.type) && stream.is_library_s())) {
    if (versioned_ != nullptr) versioned_->deleter(versioned_);
    versioned_ = nullptr;
    return false;
  }
  if (!on_host) stream.of(owner_);
  take(seen);
  return true;
}

void View::read_capsule(Stream& stream) {
  nb::dict how;
  const auto place = nb::cast<std::pair<std::int32_t, std::int32_t>>(owner_.attr("__dlpack_device__")());
  if (is_cuda(place.first)) {
    constexpr std::uintptr_t kLegacyDefault = 1;  // how DLPack calls the stream 0
    if (const auto address = stream.of(owner_)) how["stream"] = *address == 0 ? kLegacyDefault : *address;
  }
  const bool records = library_of(owner_) == Library::torch && nb::cast<bool>(owner_.attr("requires_grad"));
  const nb::object export_array = (records ? owner_.attr("detach")() : owner_).attr("__dlpack__");
  nb::object capsule;
  how["max_version"] = nb::make_tuple(1, 0);
  try {
    capsule = export_array(**how);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
    nb::del(how["max_version"]);  // libraries older than versions
    capsule = export_array(**how);
  }
  if (PyCapsule_IsValid(capsule.ptr(), dlpack::kVersioned) != 0) {
    versioned_ = static_cast<dlpack::Versioned*>(PyCapsule_GetPointer(capsule.ptr(), dlpack::kVersioned));
    PyCapsule_SetName(capsule.ptr(), dlpack::kVersionedUsed);
    read_only_ = (versioned_->flags & dlpack::kReadOnly) != 0;
    take(versioned_->tensor);
  } else if (PyCapsule_IsValid(capsule.ptr(), dlpack::kManaged) != 0) {
    managed_ = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule.ptr(), dlpack::kManaged));
    PyCapsule_SetName(capsule.ptr(), dlpack::kManagedUsed);
    take(managed_->tensor);
  } else {
    throw nb::type_error((name_ + ": __dlpack__ returned no capsule of DLPack").c_str());
  }
}

void View::take(const dlpack::Tensor& tensor) {
  dtype_ = dtype_of(tensor.dtype);
  data_ = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  device_ = tensor.device;
  shape_.assign(tensor.shape, tensor.shape + tensor.rank);
  if (tensor.strides != nullptr) {
    strides_.assign(tensor.strides, tensor.strides + tensor.rank);
    return;
  }
  strides_.resize(shape_.size());
  std::int64_t stride = 1;
  for (std::size_t axis = shape_.size(); axis-- > 0;) {
    strides_[axis] = stride;
    stride *= shape_[axis];
  }
}

std::string View::device() const {
  if (is_cuda(device_.type)) return "cuda:" + std::to_string(device_.id);
  if (device_.type == static_cast<std::int32_t>(dlpack::DeviceType::cpu) ||
      device_.type == static_cast<std::int32_t>(dlpack::DeviceType::cuda_host)) {
    return "cpu";
  }
  return "DLPack's device type " + std::to_string(device_.type);
}

weft_tensor View::tensor(bool heads_first) const {
  const auto* type = element_type(dtype_);
  if (type == nullptr || type->dtype == WEFT_DTYPE_OPEN) {
    throw_named("ArgumentError",
                name_ + " is " + dtype_ + "; expected f32, f16, bf16 or f64, for inputs f32, i32 or u8");
  }
  if (rank() > kMostAxes) {
    throw_named("ArgumentError", name_ + " has " + std::to_string(rank()) + " axes; expected at most 4");
  }
  weft_tensor out = {};
  out.data = data_;
  out.dtype = type->dtype;
  out.rank = rank();
  std::copy(shape_.begin(), shape_.end(), std::begin(out.extent));
  std::copy(strides_.begin(), strides_.end(), std::begin(out.stride));
  if (heads_first && rank() == kMostAxes) {
    std::swap(out.extent[1], out.extent[2]);
    std::swap(out.stride[1], out.stride[2]);
  }
  return out;
}

nb::tuple tuple_of(const Extents& numbers) {
  nb::object made = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(numbers.size())));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    PyTuple_SetItem(made.ptr(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(numbers[i]));
  }
  return nb::borrow<nb::tuple>(made);
}

std::string shown(const Extents& shape) {
  std::string out = "[";
  for (const auto extent : shape) out += (out.size() == 1 ? "" : ", ") + std::to_string(extent);
  return out + "]";
}

void view_input(std::optional<View>& out, nb::object array, const std::string& name, Stream& stream) {
  out.emplace(array, name, stream);
  if (!out->is_dense_last()) out.emplace(of_arrays("dense_last")(array, name, out->strides().back()), name, stream);
}

void bind_view(nb::module_& module) {
  nb::class_<View>(module, "View")
      .def(
          "__init__",
          [](View* self, nb::object array, std::string name, nb::object stream) {
            Stream at(stream);
            new (self) View(std::move(array), std::move(name), at);
          },
          nb::arg("array"), nb::arg("name"), nb::arg("stream").none() = nb::none())
      .def_prop_ro("shape", [](const View& self) { return tuple_of(self.shape()); })
      .def_prop_ro("strides", [](const View& self) { return tuple_of(self.strides()); })
      .def_prop_ro("dtype", &View::dtype)
      .def_prop_ro("device", &View::device)
      .def_prop_ro("read_only", &View::read_only)
      .def_prop_ro("address", &View::address);
}

}  // namespace weft::python
