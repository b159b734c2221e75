#include "python/view.h"

#include "python/errors.h"

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

nb::tuple tuple_of(const std::vector<std::int64_t>& numbers) {
  nb::list out;
  for (const auto number : numbers) out.append(number);
  return nb::tuple(out);
}

bool is_cuda(std::int32_t type) {
  return type == static_cast<std::int32_t>(dlpack::DeviceType::cuda) ||
         type == static_cast<std::int32_t>(dlpack::DeviceType::cuda_managed);
}

}  // namespace

View::View(nb::object array, const std::string& name, nb::object stream) : name_(name) {
  if (read_buffer(array) || read_exchange(array)) return;
  if (!nb::hasattr(array, "__dlpack__")) {
    throw nb::type_error((name + " is of type " + std::string(nb::inst_name(array).c_str()) +
                          "; expected an array of NumPy, PyTorch or another library that has __dlpack__")
                             .c_str());
  }
  read_capsule(array, stream);
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

/// Of arrays on the host: those of GPUs have to be made ready for a stream, which `__dlpack__` does.
bool View::read_exchange(nb::handle array) {
  PyObject* const found =
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(array.ptr())), "__dlpack_c_exchange_api__");
  if (found == nullptr) {
    PyErr_Clear();
    return false;
  }
  const nb::object capsule = nb::steal(found);
  if (PyCapsule_IsValid(capsule.ptr(), dlpack::kExchange) == 0) return false;
  const auto* header = static_cast<dlpack::ExchangeHeader*>(PyCapsule_GetPointer(capsule.ptr(), dlpack::kExchange));
  while (header != nullptr && header->major != 1) header = header->older;
  if (header == nullptr) return false;
  if (reinterpret_cast<const dlpack::Exchange*>(header)->from_object(array.ptr(), &versioned_) != 0) {
    PyErr_Clear();  // what `__dlpack__` says is the message
    versioned_ = nullptr;
    return false;
  }
  if (versioned_->tensor.device.type != static_cast<std::int32_t>(dlpack::DeviceType::cpu)) {
    versioned_->deleter(versioned_);
    versioned_ = nullptr;
    return false;
  }
  read_only_ = (versioned_->flags & dlpack::kReadOnly) != 0;
  take(versioned_->tensor);
  return true;
}

void View::read_capsule(nb::handle array, const nb::object& stream) {
  nb::dict how;
  const auto place = nb::cast<std::pair<std::int32_t, std::int32_t>>(array.attr("__dlpack_device__")());
  if (is_cuda(place.first) && !stream.is_none()) how["stream"] = stream;
  const nb::object export_array = array.attr("__dlpack__");
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

nb::tuple View::shape() const { return tuple_of(shape_); }
nb::tuple View::strides() const { return tuple_of(strides_); }

void View::set_dtype(const std::string& dtype) {
  const auto *from = element_type(dtype_), *to = element_type(dtype);
  if (from == nullptr || to == nullptr || from->bytes != to->bytes) throw nb::value_error("dtypes of other sizes");
  dtype_ = dtype;
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

void bind_view(nb::module_& module) {
  nb::class_<View>(module, "View")
      .def(nb::init<nb::object, const std::string&, nb::object>(), nb::arg("array"), nb::arg("name"),
           nb::arg("stream").none() = nb::none())
      .def_prop_ro("shape", &View::shape)
      .def_prop_ro("strides", &View::strides)
      .def_prop_rw("dtype", &View::dtype, &View::set_dtype)
      .def_prop_ro("device", &View::device)
      .def_prop_ro("read_only", &View::read_only)
      .def_prop_ro("address", &View::address);
}

}  // namespace weft::python
