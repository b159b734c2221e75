#pragma once

#include "python/dlpack.h"
#include "python/dtypes.h"

#include <nanobind/nanobind.h>
#include <weft/c.h>

#include <cstdint>
#include <string>
#include <vector>

namespace weft::python {

namespace nb = nanobind;

/// Somebody's array, looked at where it lies: by the buffer protocol or by DLPack. The owner keeps the memory as long
/// as the view is there.
class View {
 public:
  /// `name` is what messages call it. `stream`: what a GPU's array shall be ready for, as DLPack has it; None: nothing.
  View(nb::object array, const std::string& name, nb::object stream);
  ~View();
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  nb::tuple shape() const;
  nb::tuple strides() const;
  const std::string& dtype() const { return dtype_; }
  /// The same bytes as another type of their size: what bf16 is to libraries that have no name for it.
  void set_dtype(const std::string& dtype);
  std::string device() const;
  bool read_only() const { return read_only_; }
  std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(data_); }
  int rank() const { return static_cast<int>(shape_.size()); }
  std::int64_t extent(int axis) const { return shape_[static_cast<std::size_t>(axis)]; }

  /// Exception where Weft has no such tensor. `heads_first`: [B, H, n, d], to be taken as [B, n, H, d].
  weft_tensor tensor(bool heads_first) const;

 private:
  bool read_buffer(nb::handle array);
  bool read_exchange(nb::handle array);
  void read_capsule(nb::handle array, const nb::object& stream);
  void take(const dlpack::Tensor& tensor);

  std::string name_;
  std::string dtype_;
  void* data_ = nullptr;
  std::vector<std::int64_t> shape_, strides_;
  dlpack::Device device_ = {static_cast<std::int32_t>(dlpack::DeviceType::cpu), 0};
  bool read_only_ = false;

  Py_buffer buffer_ = {};
  dlpack::Managed* managed_ = nullptr;
  dlpack::Versioned* versioned_ = nullptr;
};

void bind_view(nb::module_& module);

}  // namespace weft::python
