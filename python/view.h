#pragma once

#include "python/dlpack.h"
#include "python/dtypes.h"

#include <nanobind/nanobind.h>
#include <weft/c.h>
#include <boost/container/small_vector.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft::python {

namespace nb = nanobind;

/// Of an array, or its strides: four, nearly always, for which no memory is asked.
using Extents = boost::container::small_vector<std::int64_t, 4>;

/// The stream that a launch is queued on: what the caller says, else the one that the library of the first array of a
/// GPU is working on, which is asked once.
class Stream {
 public:
  /// `said`: None, an int, or what has `__cuda_stream__`.
  explicit Stream(nb::handle said);
  /// Arrays are looked at, and no work on them is queued.
  static Stream unready();

  /// Of work on this array, which is on a GPU. None: its library has no streams, or no work is queued.
  std::optional<std::uintptr_t> of(nb::handle array);
  /// Is it the one that the library works on anyway, so that arrays are ready for it?
  bool is_library_s() const { return !said_; }
  /// 0 where nobody has asked.
  std::uintptr_t address() const { return known_.value_or(0); }

 private:
  std::optional<std::uintptr_t> known_;
  bool said_ = false, asked_ = false;
};

/// Somebody's array, looked at where it lies: by the buffer protocol or by DLPack. The owner keeps the memory as long
/// as the view is there.
class View {
 public:
  /// `name` is what messages call it. An array of a GPU is made ready for the stream.
  View(nb::object array, std::string name, Stream& stream);
  ~View();
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  const std::string& name() const { return name_; }
  const nb::object& array() const { return owner_; }
  const Extents& shape() const { return shape_; }
  const Extents& strides() const { return strides_; }
  const std::string& dtype() const { return dtype_; }
  /// `cpu`, `cuda:0`, …
  std::string device() const;
  bool same_device(const View& other) const {
    return device_.type == other.device_.type && device_.id == other.device_.id;
  }
  /// Do elements of the last axis lie side by side?
  bool is_dense_last() const { return shape_.empty() || shape_.back() <= 1 || strides_.back() == 1; }
  bool read_only() const { return read_only_; }
  std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(data_); }
  int rank() const { return static_cast<int>(shape_.size()); }
  std::int64_t extent(int axis) const { return shape_[static_cast<std::size_t>(axis)]; }

  /// Exception where Weft has no such tensor. `heads_first`: [B, H, n, d], to be taken as [B, n, H, d].
  weft_tensor tensor(bool heads_first) const;

 private:
  bool read_buffer(nb::handle array);
  bool read_bfloat16();
  bool read_own();
  bool read_exchange(Stream& stream);
  void read_capsule(Stream& stream);
  void take(const dlpack::Tensor& tensor);

  nb::object owner_;
  std::string name_;
  std::string dtype_;
  void* data_ = nullptr;
  Extents shape_, strides_;
  dlpack::Device device_ = {static_cast<std::int32_t>(dlpack::DeviceType::cpu), 0};
  bool read_only_ = false;

  Py_buffer buffer_ = {};
  dlpack::Managed* managed_ = nullptr;
  dlpack::Versioned* versioned_ = nullptr;
};

/// The array's memory, or where its last axis is not dense that of a copy, which its library makes.
void view_input(std::optional<View>& out, nb::object array, const std::string& name, Stream& stream);

nb::tuple tuple_of(const Extents& numbers);
/// As messages show it: `[1, 2]`.
std::string shown(const Extents& shape);

void bind_view(nb::module_& module);

}  // namespace weft::python
