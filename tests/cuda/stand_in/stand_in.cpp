#include "stand_in.h"

#include "runtime/cuda/functions.h"

#include <elf.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string_view>

namespace {

using namespace weft::cuda;
using weft::test::Launched;
using weft::test::StandIn;

constexpr int kOutOfMemory = 2, kInvalidValue = 1, kInvalidDevice = 101, kInvalidImage = 200, kInvalidContext = 201,
              kNotFound = 500, kStreamCaptureUnsupported = 900;
constexpr std::uint64_t kFirstContext = 0x1000, kModule = 0x20'0000, kFunction = 0x3000, kEvent = 0x4000,
                        kStream = 0x5000;

thread_local std::vector<std::uint64_t> stack;

/// WEFT_STAND_IN_DEVICES=61,90 where a test cannot reach into the process.
std::vector<StandIn::Device> devices_of_environment() {
  std::vector<StandIn::Device> devices;
  const char* list = std::getenv("WEFT_STAND_IN_DEVICES");
  std::istringstream words(list == nullptr ? "61" : list);
  for (std::string word; std::getline(words, word, ',');) {
    const int sm = std::atoi(word.c_str());
    devices.push_back({"Stand-in " + std::to_string(sm / 10) + "." + std::to_string(sm % 10), sm});
  }
  return devices;
}

StandIn& state() {
  static auto* one = [] {
    auto* made = new StandIn;
    made->devices = devices_of_environment();
    return made;
  }();
  return *one;
}

std::uint64_t current() { return stack.empty() ? 0 : stack.back(); }

/// Writes the call down. 0, or the error with which it shall fail.
int called(const char* name, bool may_fail = true) {
  auto& s = state();
  if (s.records) s.calls.push_back({name, current()});
  // An asynchronous copy is allowed, but would read memory of the host when the graph is replayed.
  static constexpr std::string_view kForbidden[] = {"cuMemAlloc_v2",        "cuMemFree_v2",      "cuMemcpyHtoD_v2",
                                                    "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoH_v2",   "cuModuleLoadData",
                                                    "cuModuleUnload",       "cuEventSynchronize"};
  if (s.captured != 0 && std::find(std::begin(kForbidden), std::end(kForbidden), name) != std::end(kForbidden)) {
    s.forbidden.emplace_back(name);
    return kStreamCaptureUnsupported;
  }
  if (!may_fail || s.fail_at < 0) return 0;
  if (s.fail_at-- > 0) return 0;
  s.failed = name;
  return s.fail_with;
}

template <typename T>
T* handle(std::uint64_t number) {
  return reinterpret_cast<T*>(number);
}

/// The allocation that holds the address, or nullptr.
const std::pair<const std::uint64_t, std::size_t>* holder(std::uint64_t address) {
  for (const auto& block : state().memory) {
    if (address >= block.first && address < block.first + block.second) return &block;
  }
  return nullptr;
}

/// Does the handle or address belong to the current context?
bool is_ours(std::uint64_t number) {
  const auto owner = state().owners.find(number);
  return owner != state().owners.end() && owner->second == current();
}

bool is_foreign(StreamHandle* stream) {
  const auto owner = state().streams.find(reinterpret_cast<std::uint64_t>(stream));
  return owner != state().streams.end() && owner->second != current();
}

bool holds(std::uint64_t address, std::size_t bytes) {
  const auto* block = holder(address);
  return block != nullptr && bytes <= block->first + block->second - address;
}

std::string image_of(const void* image) {
  const auto* const text = static_cast<const char*>(image);
  if (text[0] == '/' && std::strstr(text, "\n.version ") != nullptr) return text;  // PTX, as NVRTC begins it
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return {};
  const auto end = header.e_shoff + std::uint64_t{header.e_shentsize} * header.e_shnum;
  return std::string(static_cast<const char*>(image), end);
}

}  // namespace

#define STAND_IN(name, parameters) extern "C" __attribute__((visibility("default"))) int name parameters
#define CALLED(...)                                        \
  const std::lock_guard lock(state().mutex);               \
  if (const int wrong = called(__VA_ARGS__); wrong != 0) { \
    return wrong;                                          \
  }
#define NEEDS_CONTEXT() \
  if (current() == 0) return kInvalidContext

extern "C" StandIn* weft_stand_in() { return &state(); }
extern "C" std::uint64_t weft_stand_in_current() { return current(); }
extern "C" void weft_stand_in_set_current(std::uint64_t context) {
  stack.clear();
  if (context != 0) stack.push_back(context);
}
extern "C" std::uint64_t weft_stand_in_primary(int device) {
  return kFirstContext + static_cast<std::uint64_t>(device);
}

STAND_IN(cuInit, (unsigned)) {
  CALLED("cuInit");
  return state().devices.empty() ? kErrorNoDevice : 0;
}
STAND_IN(cuDriverGetVersion, (int* version)) {
  CALLED("cuDriverGetVersion");
  *version = 12040;
  return 0;
}
STAND_IN(cuGetErrorName, (int error, const char** name)) {
  *name = error == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : nullptr;
  return *name == nullptr ? kInvalidValue : 0;
}
STAND_IN(cuGetErrorString, (int error, const char** text)) {
  *text = error == kOutOfMemory ? "out of memory" : nullptr;
  return *text == nullptr ? kInvalidValue : 0;
}

STAND_IN(cuDeviceGetCount, (int* count)) {
  CALLED("cuDeviceGetCount");
  *count = static_cast<int>(state().devices.size());
  return 0;
}
STAND_IN(cuDeviceGet, (DeviceHandle * device, int number)) {
  CALLED("cuDeviceGet");
  *device = number;
  return static_cast<std::size_t>(number) < state().devices.size() ? 0 : kInvalidDevice;
}
STAND_IN(cuDeviceGetName, (char* name, int size, DeviceHandle device)) {
  CALLED("cuDeviceGetName");
  std::strncpy(name, state().devices.at(static_cast<std::size_t>(device)).name.c_str(), static_cast<std::size_t>(size));
  return 0;
}
STAND_IN(cuDeviceGetAttribute, (int* value, int attribute, DeviceHandle device)) {
  CALLED("cuDeviceGetAttribute");
  const int sm = state().devices.at(static_cast<std::size_t>(device)).sm;
  switch (attribute) {
    case kDeviceMajor:
      *value = sm / 10;
      return 0;
    case kDeviceMinor:
      *value = sm % 10;
      return 0;
    case kDeviceMapsMemory:
      *value = state().granule > 0 ? 1 : 0;
      return 0;
    case kDeviceMultiprocessors:
      *value = 20;
      return 0;
    default:
      return kInvalidValue;
  }
}
STAND_IN(cuDeviceGetPCIBusId, (char* out, int size, DeviceHandle device)) {
  CALLED("cuDeviceGetPCIBusId");
  const auto name = "0000:" + std::to_string(10 + device) + ":00.0";
  if (size <= static_cast<int>(name.size())) return kInvalidValue;
  std::memcpy(out, name.c_str(), name.size() + 1);
  return 0;
}
STAND_IN(cuDeviceTotalMem_v2, (std::size_t * bytes, DeviceHandle)) {
  CALLED("cuDeviceTotalMem_v2");
  *bytes = std::size_t{8} << 30;
  return 0;
}

STAND_IN(cuDevicePrimaryCtxRetain, (ContextHandle * *context, DeviceHandle device)) {
  CALLED("cuDevicePrimaryCtxRetain");
  ++state().contexts;
  *context = handle<ContextHandle>(weft_stand_in_primary(device));
  return 0;
}
STAND_IN(cuDevicePrimaryCtxRelease_v2, (DeviceHandle)) {
  CALLED("cuDevicePrimaryCtxRelease_v2", false);
  --state().contexts;
  return 0;
}
STAND_IN(cuCtxGetCurrent, (ContextHandle * *context)) {
  CALLED("cuCtxGetCurrent");
  *context = handle<ContextHandle>(current());
  return 0;
}
STAND_IN(cuCtxPushCurrent_v2, (ContextHandle * context)) {
  CALLED("cuCtxPushCurrent_v2");
  stack.push_back(reinterpret_cast<std::uint64_t>(context));
  return 0;
}
STAND_IN(cuCtxPopCurrent_v2, (ContextHandle * *context)) {
  CALLED("cuCtxPopCurrent_v2", false);
  NEEDS_CONTEXT();
  *context = handle<ContextHandle>(current());
  stack.pop_back();
  return 0;
}
// Never called by Weft; here so that a test sees it if it is.
STAND_IN(cuCtxSynchronize, ()) {
  CALLED("cuCtxSynchronize");
  return 0;
}
// Of uploads alone.
STAND_IN(cuStreamSynchronize, (StreamHandle*)) {
  CALLED("cuStreamSynchronize");
  return 0;
}

STAND_IN(cuModuleLoadData, (ModuleHandle * *module, const void* image)) {
  CALLED("cuModuleLoadData");
  NEEDS_CONTEXT();
  auto bytes = image_of(image);
  if (bytes.empty()) return kInvalidImage;
  if (state().take_images > 0) {
    --state().take_images;
  } else if (state().refuse_images > 0) {
    --state().refuse_images;
    return state().refuse_with;
  }
  static std::uint64_t loaded = 0;
  const auto number = kModule + loaded++;
  state().image_of[number] = bytes;
  state().owners[number] = current();
  state().images.push_back(std::move(bytes));
  ++state().modules;
  *module = handle<ModuleHandle>(number);
  return 0;
}
STAND_IN(cuModuleUnload, (ModuleHandle * module)) {
  CALLED("cuModuleUnload", false);
  NEEDS_CONTEXT();
  if (!is_ours(reinterpret_cast<std::uint64_t>(module))) return kInvalidContext;
  --state().modules;
  return 0;
}
STAND_IN(cuModuleGetFunction, (FunctionHandle * *function, ModuleHandle* module, const char* name)) {
  CALLED("cuModuleGetFunction");
  NEEDS_CONTEXT();
  if (!is_ours(reinterpret_cast<std::uint64_t>(module))) return kInvalidContext;
  state().symbols.emplace_back(name);
  const auto& image = state().image_of.at(reinterpret_cast<std::uint64_t>(module));
  if (image.find(name) == std::string::npos) return kNotFound;
  const auto number = kFunction + state().functions.size();
  state().functions[number] = name;
  state().image_of[number] = image;
  state().owners[number] = current();
  *function = handle<FunctionHandle>(number);
  return 0;
}
STAND_IN(cuFuncSetAttribute, (FunctionHandle * function, int attribute, int value)) {
  CALLED("cuFuncSetAttribute");
  NEEDS_CONTEXT();
  if (!is_ours(reinterpret_cast<std::uint64_t>(function))) return kInvalidContext;
  state().function_attributes[attribute] = value;
  return 0;
}
STAND_IN(cuLaunchKernel,
         (FunctionHandle * function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
          unsigned block_y, unsigned block_z, unsigned shared_bytes, StreamHandle* stream, void** parameters, void**)) {
  CALLED("cuLaunchKernel");
  NEEDS_CONTEXT();
  if (!is_ours(reinterpret_cast<std::uint64_t>(function))) return kInvalidContext;
  if (is_foreign(stream)) return kErrorInvalidHandle;
  const int opted = state().function_attributes.count(kFunctionMostDynamicShared) != 0
                        ? state().function_attributes.at(kFunctionMostDynamicShared)
                        : 48 * 1024;
  if (grid_x == 0 || grid_x > 0x7fffffffU || block_x == 0 || block_x > 1024 || static_cast<int>(shared_bytes) > opted)
    return kInvalidValue;
  if (!state().records) return 0;
  Launched launched{.function = reinterpret_cast<std::uint64_t>(function),
                    .stream = reinterpret_cast<std::uint64_t>(stream),
                    .context = current(),
                    .grid = {grid_x, grid_y, grid_z},
                    .block = {block_x, block_y, block_z},
                    .shared_bytes = shared_bytes};
  std::memcpy(&launched.args, parameters[0], sizeof launched.args);
  state().launches.push_back(launched);
  if (state().on_launch) state().on_launch(launched);
  return 0;
}

STAND_IN(cuMemAlloc_v2, (DeviceAddress * address, std::size_t bytes)) {
  CALLED("cuMemAlloc_v2");
  NEEDS_CONTEXT();
  void* memory = bytes == 0 ? nullptr : std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (memory == nullptr) return kInvalidValue;
  std::memset(memory, 0xff, bytes);
  *address = reinterpret_cast<std::uint64_t>(memory);
  state().memory[*address] = bytes;
  state().owners[*address] = current();
  return 0;
}
STAND_IN(cuMemFree_v2, (DeviceAddress address)) {
  CALLED("cuMemFree_v2", false);
  NEEDS_CONTEXT();
  if (!is_ours(address) || state().memory.erase(address) == 0) return kInvalidValue;
  std::free(reinterpret_cast<void*>(address));
  return 0;
}
/// Mapped memory is a file that is nowhere, so that the same can be seen at several addresses, and what is not mapped
/// cannot be touched at all.
STAND_IN(cuMemGetAllocationGranularity, (std::size_t * bytes, const MemoryProperties*, int)) {
  CALLED("cuMemGetAllocationGranularity");
  *bytes = state().granule;
  return 0;
}
STAND_IN(cuMemAddressReserve,
         (DeviceAddress * address, std::size_t bytes, std::size_t, DeviceAddress, unsigned long long)) {
  CALLED("cuMemAddressReserve");
  void* const at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED || bytes % state().granule != 0) return kInvalidValue;
  *address = reinterpret_cast<std::uint64_t>(at);
  state().reserved[*address] = bytes;
  return 0;
}
STAND_IN(cuMemAddressFree, (DeviceAddress address, std::size_t bytes)) {
  CALLED("cuMemAddressFree", false);
  if (state().reserved.erase(address) == 0) return kInvalidValue;
  state().memory.erase(address);
  munmap(reinterpret_cast<void*>(address), bytes);
  return 0;
}
STAND_IN(cuMemCreate,
         (MemoryHandle * memory, std::size_t bytes, const MemoryProperties* properties, unsigned long long)) {
  CALLED("cuMemCreate");
  if (bytes == 0 || bytes % state().granule != 0 || properties->type != 1 || properties->location != 1)
    return kInvalidValue;
  const int file = memfd_create("stand-in", 0);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return kOutOfMemory;
  *memory = static_cast<MemoryHandle>(file);
  state().created[*memory] = bytes;
  state().all_created += bytes;
  return 0;
}
STAND_IN(cuMemRelease, (MemoryHandle memory)) {
  CALLED("cuMemRelease", false);
  if (state().created.erase(memory) == 0) return kInvalidValue;
  close(static_cast<int>(memory));  // its pages stay where they are mapped
  return 0;
}
STAND_IN(cuMemMap,
         (DeviceAddress address, std::size_t bytes, std::size_t offset, MemoryHandle memory, unsigned long long)) {
  CALLED("cuMemMap");
  const auto created = state().created.find(memory);
  if (created == state().created.end() || offset != 0 || bytes > created->second || address % state().granule != 0)
    return kInvalidValue;
  for (const auto& [at, of] : state().mapped) {
    if (address < at + of && at < address + bytes) return kInvalidValue;
  }
  void* const at = mmap(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                        static_cast<int>(memory), 0);
  if (at == MAP_FAILED) return kInvalidValue;
  state().mapped[address] = bytes;
  return 0;
}
STAND_IN(cuMemUnmap, (DeviceAddress address, std::size_t bytes)) {
  CALLED("cuMemUnmap", false);
  const auto at = state().mapped.find(address);
  if (at == state().mapped.end() || at->second != bytes) return kInvalidValue;
  state().mapped.erase(at);
  mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
       0);
  return 0;
}
/// From here on it is memory like any other: all of it is mapped.
STAND_IN(cuMemSetAccess, (DeviceAddress address, std::size_t bytes, const MemoryAccess* access, std::size_t count)) {
  CALLED("cuMemSetAccess");
  NEEDS_CONTEXT();
  if (count != 1 || access->rights != 3) return kInvalidValue;
  auto at = address;
  for (auto next = state().mapped.find(at); next != state().mapped.end() && at < address + bytes;
       next = state().mapped.find(at))
    at += next->second;
  if (at != address + bytes) return kInvalidValue;
  state().memory[address] = bytes;
  state().owners[address] = current();
  return 0;
}
STAND_IN(cuMemcpyHtoD_v2, (DeviceAddress to, const void* from, std::size_t bytes)) {
  CALLED("cuMemcpyHtoD_v2");
  NEEDS_CONTEXT();
  if (!holds(to, bytes)) return kInvalidValue;
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return 0;
}
STAND_IN(cuMemcpyHtoDAsync_v2, (DeviceAddress to, const void* from, std::size_t bytes, StreamHandle*)) {
  CALLED("cuMemcpyHtoDAsync_v2");
  NEEDS_CONTEXT();
  if (!holds(to, bytes)) return kInvalidValue;
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return 0;
}
STAND_IN(cuMemcpyDtoH_v2, (void* to, DeviceAddress from, std::size_t bytes)) {
  CALLED("cuMemcpyDtoH_v2");
  NEEDS_CONTEXT();
  if (!holds(from, bytes)) return kInvalidValue;
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return 0;
}
STAND_IN(cuStreamCreate, (StreamHandle * *stream, unsigned)) {
  CALLED("cuStreamCreate");
  NEEDS_CONTEXT();
  ++state().own_streams;
  *stream = handle<StreamHandle>(kStream);
  return 0;
}
STAND_IN(cuStreamDestroy_v2, (StreamHandle*)) {
  CALLED("cuStreamDestroy_v2", false);
  --state().own_streams;
  return 0;
}
STAND_IN(cuStreamIsCapturing, (StreamHandle * stream, int* status)) {
  CALLED("cuStreamIsCapturing", false);
  NEEDS_CONTEXT();
  if (is_foreign(stream)) return kErrorInvalidHandle;
  *status = state().captured != 0 && state().captured == reinterpret_cast<std::uint64_t>(stream) ? 1 : 0;
  return 0;
}
STAND_IN(cuMemcpy2DAsync_v2, (const Copy2D* what, StreamHandle*)) {
  CALLED("cuMemcpy2DAsync_v2");
  NEEDS_CONTEXT();
  for (std::size_t line = 0; line < what->height; ++line) {
    const auto from = what->from_device + line * what->from_pitch, to = what->to_device + line * what->to_pitch;
    const bool reads_host = what->from_type == kMemoryHost, writes_host = what->to_type == kMemoryHost;
    state().host_lines += reads_host != writes_host ? 1 : 0;
    if ((!reads_host && !holds(from, what->width)) || (!writes_host && !holds(to, what->width)) ||
        what->from_pitch < what->width || what->to_pitch < what->width)
      return kInvalidValue;
    std::memcpy(
        writes_host ? static_cast<std::byte*>(what->to_host) + line * what->to_pitch : reinterpret_cast<void*>(to),
        reads_host ? static_cast<const std::byte*>(what->from_host) + line * what->from_pitch
                   : reinterpret_cast<const void*>(from),
        what->width);
  }
  return 0;
}
STAND_IN(cuMemsetD32Async, (DeviceAddress to, unsigned value, std::size_t count, StreamHandle*)) {
  CALLED("cuMemsetD32Async");
  NEEDS_CONTEXT();
  if (!holds(to, 4 * count)) return kInvalidValue;
  std::fill_n(reinterpret_cast<unsigned*>(to), count, value);
  return 0;
}
STAND_IN(cuMemsetD8Async, (DeviceAddress to, unsigned char value, std::size_t count, StreamHandle*)) {
  CALLED("cuMemsetD8Async");
  NEEDS_CONTEXT();
  if (!holds(to, count)) return kInvalidValue;
  std::memset(reinterpret_cast<void*>(to), value, count);
  return 0;
}
STAND_IN(cuMemsetD2D8Async, (DeviceAddress to, std::size_t pitch, unsigned char value, std::size_t width,
                             std::size_t height, StreamHandle*)) {
  CALLED("cuMemsetD2D8Async");
  NEEDS_CONTEXT();
  for (std::size_t i = 0; i < height; ++i, to += pitch) {
    if (!holds(to, width)) return kInvalidValue;
    std::memset(reinterpret_cast<void*>(to), value, width);
  }
  return 0;
}
STAND_IN(cuPointerGetAttributes, (unsigned count, int* attributes, void** values, DeviceAddress address)) {
  CALLED("cuPointerGetAttributes");
  NEEDS_CONTEXT();
  const auto* const block = holder(address);
  for (unsigned i = 0; i < count; ++i) {
    int value = 0;
    if (block != nullptr && attributes[i] == kPointerMemoryType) value = kMemoryDevice;
    if (block != nullptr && attributes[i] == kPointerDevice)
      value = static_cast<int>(state().owners.at(block->first) - kFirstContext);
    std::memcpy(values[i], &value, sizeof value);
  }
  return 0;
}

STAND_IN(cuEventCreate, (EventHandle * *event, unsigned)) {
  CALLED("cuEventCreate");
  NEEDS_CONTEXT();
  ++state().events;
  *event = handle<EventHandle>(kEvent);
  return 0;
}
STAND_IN(cuEventDestroy_v2, (EventHandle*)) {
  CALLED("cuEventDestroy_v2", false);
  --state().events;
  return 0;
}
STAND_IN(cuEventRecord, (EventHandle*, StreamHandle*)) {
  CALLED("cuEventRecord");
  NEEDS_CONTEXT();
  return 0;
}
STAND_IN(cuEventQuery, (EventHandle*)) {
  CALLED("cuEventQuery");
  if (state().unready_events <= 0) return 0;
  --state().unready_events;
  return kErrorNotReady;
}
STAND_IN(cuEventSynchronize, (EventHandle*)) {
  CALLED("cuEventSynchronize");
  return 0;
}
STAND_IN(cuEventElapsedTime, (float* milliseconds, EventHandle*, EventHandle*)) {
  CALLED("cuEventElapsedTime");
  *milliseconds = 1.5F;
  return 0;
}
