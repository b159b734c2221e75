#pragma once

#include <cstddef>
#include <cstdint>

/// The CUDA driver's functions as a table, filled by dlsym. Our own declarations: no CUDA header is needed to
/// build Weft, and no CUDA library to link it.
namespace weft::cuda {

// The driver's opaque types; only their addresses pass through here.
struct ContextHandle;
struct EventHandle;
struct FunctionHandle;
struct ModuleHandle;
struct StreamHandle;
using DeviceHandle = int;
using DeviceAddress = std::uint64_t;

// The driver's enumerations, as far as they are used.
inline constexpr int kSuccess = 0;
inline constexpr int kErrorNoDevice = 100;
inline constexpr int kErrorInvalidImage = 200, kErrorNoBinaryForGpu = 209, kErrorInvalidPtx = 218,
                     kErrorUnsupportedPtxVersion = 222;
inline constexpr int kErrorInvalidHandle = 400, kErrorNotReady = 600;
inline constexpr int kDeviceMultiprocessors = 16;
inline constexpr int kDeviceMajor = 75;
inline constexpr int kDeviceMinor = 76;
inline constexpr int kFunctionMostDynamicShared = 8;
inline constexpr int kPointerMemoryType = 2;
inline constexpr int kPointerIsManaged = 8;
inline constexpr int kPointerDevice = 9;
inline constexpr int kMemoryHost = 1, kMemoryDevice = 2;
/// A stream handle that means another stream in each thread.
inline constexpr std::uintptr_t kStreamPerThread = 2;

inline constexpr unsigned kEventWithoutTime = 2;
/// Does not wait for what others queue on the default stream.
inline constexpr unsigned kStreamOfItsOwn = 1;

/// CUDA_MEMCPY2D: lines of bytes, from memory of the type to memory of the type. Arrays are textures' and not used.
struct Copy2D {
  std::size_t from_x = 0, from_y = 0;
  unsigned from_type = 0;
  const void* from_host = nullptr;
  DeviceAddress from_device = 0;
  void* from_array = nullptr;
  std::size_t from_pitch = 0;
  std::size_t to_x = 0, to_y = 0;
  unsigned to_type = 0;
  void* to_host = nullptr;
  DeviceAddress to_device = 0;
  void* to_array = nullptr;
  std::size_t to_pitch = 0;
  std::size_t width = 0, height = 0;
};

/// CUmemAllocationProp: pinned memory of a device.
struct MemoryProperties {
  int type = 1, handles = 0;  // pinned; nobody else is to see it
  int location = 1;           // a device
  int device = 0;
  void* security = nullptr;
  std::uint64_t flags = 0;
};
/// CUmemAccessDesc: a device reads and writes it.
struct MemoryAccess {
  int location = 1;
  int device = 0;
  int rights = 3;
};
using MemoryHandle = std::uint64_t;
inline constexpr int kDeviceMapsMemory = 102, kLeastGranularity = 0;

struct Functions {
#define WEFT_CUDA_FUNCTION(name, parameters) int(*name) parameters = nullptr;
#include "runtime/cuda/functions.def"
};

}  // namespace weft::cuda
