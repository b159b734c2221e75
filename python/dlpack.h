#pragma once

#include <cstdint>

/// The structs that arrays are exchanged by: DLPack 1.x, of which 0.x has the tensor and another wrapping. Layouts are
/// fixed by that standard.
namespace weft::python::dlpack {

enum class DeviceType : std::int32_t { cpu = 1, cuda = 2, cuda_host = 3, cuda_managed = 13 };

struct Device {
  std::int32_t type, id;
};

enum class TypeCode : std::uint8_t { integer = 0, unsigned_integer = 1, real = 2, bfloat = 4, boolean = 6 };

struct DataType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  std::int32_t rank;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  ///< in elements; null: dense
  std::uint64_t byte_offset;
};

/// In capsules called `dltensor`.
struct Managed {
  Tensor tensor;
  void* context;
  void (*deleter)(Managed* self);
};
inline constexpr const char* kManaged = "dltensor";
inline constexpr const char* kManagedUsed = "used_dltensor";

inline constexpr std::uint64_t kReadOnly = 1;

/// In capsules called `dltensor_versioned`.
struct Versioned {
  std::uint32_t major, minor;
  void* context;
  void (*deleter)(Versioned* self);
  std::uint64_t flags;
  Tensor tensor;
};
inline constexpr const char* kVersioned = "dltensor_versioned";
inline constexpr const char* kVersionedUsed = "used_dltensor_versioned";

/// What a type of arrays has as `__dlpack_c_exchange_api__`, in a capsule called `dlpack_exchange_api` (DLPack 1.2):
/// the same as `__dlpack__` without Python. An older one may follow.
struct ExchangeHeader {
  std::uint32_t major, minor;
  ExchangeHeader* older;
};
struct Exchange {
  ExchangeHeader header;
  void* allocate;
  int (*from_object)(void* array, Versioned** out);  ///< waits for nothing
  int (*to_object)(Versioned* tensor, void** out);
  /// The array keeps extents and strides: they live as long as it does, unchanged. May be null.
  int (*look)(void* array, Tensor* out);
};
inline constexpr const char* kExchange = "dlpack_exchange_api";

}  // namespace weft::python::dlpack
