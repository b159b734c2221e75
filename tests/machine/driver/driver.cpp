/// The functions that Weft calls of a CUDA driver, for one GPU, which is the machine.

#include "runtime/cuda/functions.h"
#include "tests/machine/driver/launch.h"
#include "tests/machine/driver/machine.h"

#include <cstdlib>
#include <cstring>
#include <fstream>

namespace {

using namespace weft::cuda;
using namespace weft::machine;

constexpr int kInvalidValue = 1, kOutOfMemory = 2, kNotFound = 500, kLaunchFailed = 719;
constexpr std::size_t kMemory = std::size_t{8} << 30;

struct Module {
  Programs programs;
};

int number_of(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr || *text == '\0' ? otherwise : std::atoi(text);
}

Machine& machine() {
  static Machine one{.mutex = {},
                     .sm = number_of("WEFT_MACHINE_SM", 80),
                     .seed = static_cast<unsigned>(number_of("WEFT_MACHINE_SEED", 0)),
                     .launches = {},
                     .fault = {}};
  return one;
}

DeviceMemory& memory() {
  static DeviceMemory one;
  return one;
}

thread_local std::vector<ContextHandle*> contexts;

/// Where the arguments of a launch stand in the first bank of constants; before them its extents, which end early or,
/// on Maxwell and Pascal, begin late.
struct Bank {
  std::size_t arguments, extents;
};
Bank bank_of(int sm) {
  if (sm < 70) return {0x140, 0x8};
  return {std::size_t{sm < 90 ? 0x160U : sm < 100 ? 0x210U : 0x380U}, 0};
}

int most_shared(int sm) {
  switch (sm) {
    case 75:
      return 64 << 10;
    case 80:
      return 163 << 10;
    case 86:
    case 89:
    case 120:
      return 99 << 10;
    default:
      return sm < 70 ? 48 << 10 : sm < 75 ? 96 << 10 : 227 << 10;
  }
}

/// Why no GPU would begin it; empty: it would.
std::string refused(const Program& program, const Launch& launch) {
  constexpr int kRegisters = 64 << 10, kThreads = 1024;
  const auto threads = static_cast<int>(launch.block[0]);
  if (launch.block[1] != 1 || launch.block[2] != 1 || threads % kLanes != 0)
    return "blocks here are rows of whole warps";
  if (threads == 0 || threads > kThreads) return fmt::format("a block of {} threads", threads);
  if (static_cast<int>(launch.shared_bytes) > program.most_shared) {
    return fmt::format("{} bytes of shared memory, and {} are allowed", launch.shared_bytes, program.most_shared);
  }
  if (program.code.registers * threads > kRegisters) {
    return fmt::format("{} registers for each of {} threads", program.code.registers, threads);
  }
  return {};
}

Launched counted(const Program& program, const Launch& launch, const std::vector<std::uint64_t>& before) {
  Launched out{.kernel = program.code.name,
               .executed = {},
               .of_blocks = launch.of_blocks,
               .warps = static_cast<int>(launch.block[0]) / kLanes};
  for (std::size_t i = 0; i < before.size(); ++i) {
    const auto count = program.executed[i] - before[i];
    if (count != 0) out.executed[std::string(program.code.instructions[i].name())] += count;
  }
  return out;
}

/// A line of JSON at the end of the file that WEFT_MACHINE_LOG names.
void log(const Launched& launched) {
  const char* path = std::getenv("WEFT_MACHINE_LOG");
  if (path == nullptr || *path == '\0') return;
  std::string executed;
  for (const auto& [name, count] : launched.executed) {
    executed += fmt::format("{}\"{}\": {}", executed.empty() ? "" : ", ", name, count);
  }
  std::ofstream(path, std::ios::app) << fmt::format(
      "{{\"kernel\": \"{}\", \"blocks\": {}, \"warps\": {}, \"executed\": {{{}}}}}\n", launched.kernel,
      launched.of_blocks.size(), launched.warps, executed);
}

/// A line of each instruction at the end of the file that WEFT_MACHINE_PROFILE names: kernel, address, how often warps
/// of the launch executed it, what it is. In the order of addresses: what `nvdisasm -g` says of lines stands beside it.
void profile(const Program& program, const std::vector<std::uint64_t>& before) {
  const char* path = std::getenv("WEFT_MACHINE_PROFILE");
  if (path == nullptr || *path == '\0') return;
  std::ofstream out(path, std::ios::app);
  for (std::size_t i = 0; i < before.size(); ++i) {
    const auto& one = program.code.instructions[i];
    out << fmt::format("{} {:#x} {} {}\n", program.code.name, one.address, program.executed[i] - before[i], one.opcode);
  }
}

/// A file for each launch, WEFT_MACHINE_PATH and its number: the path of the first warp of block
/// WEFT_MACHINE_PATH_BLOCK, an i32 for each instruction: its address and PathMarks. For models of clocks.
void write_path(const Launch& launch) {
  const char* path = std::getenv("WEFT_MACHINE_PATH");
  if (path == nullptr || *path == '\0') return;
  std::ofstream out(fmt::format("{}.{}", path, machine().launches.size() - 1), std::ios::binary);
  out.write(reinterpret_cast<const char*>(launch.path.data()),
            static_cast<std::streamsize>(launch.path.size() * sizeof launch.path[0]));
}
std::int64_t block_to_follow() {
  if (std::getenv("WEFT_MACHINE_PATH") == nullptr) return -1;
  const char* block = std::getenv("WEFT_MACHINE_PATH_BLOCK");
  return block == nullptr ? 0 : std::atoll(block);
}

/// Empty, or what was wrong.
std::string launched(Program& program, Launch& launch, void** parameters) {
  launch.program = &program;
  launch.memory = &memory();
  launch.constants = program.constants;
  const Bank bank = bank_of(program.sm);
  auto& first = launch.constants[0];
  if (first.size() < bank.arguments) return fmt::format("{} has no arguments", program.code.name);
  first.assign(first.size(), '\0');
  std::memcpy(first.data() + bank.extents, launch.block.data(), sizeof launch.block);
  std::memcpy(first.data() + bank.extents + sizeof launch.block, launch.grid.data(), sizeof launch.grid);
  std::memcpy(first.data() + bank.arguments, parameters[0], first.size() - bank.arguments);
  if (auto why = refused(program, launch); !why.empty()) return why;
  launch.shared_bytes += static_cast<std::size_t>(program.shared_bytes);
  const auto before = program.executed;
  std::minstd_rand dice(machine().seed);
  if (machine().seed != 0) launch.dice = &dice;
  launch.followed = block_to_follow();
  launch.most = static_cast<std::uint64_t>(number_of("WEFT_MACHINE_MOST", 4'000)) * 1'000'000;
  std::string wrong;
  try {
    run(launch);
  } catch (const Fault& fault) {
    wrong = fault.what;
  }
  for (const std::string& finding : launch.findings) wrong += (wrong.empty() ? "" : "; ") + finding;
  machine().launches.push_back(counted(program, launch, before));
  log(machine().launches.back());
  profile(program, before);
  write_path(launch);
  return wrong.empty() ? wrong : program.code.name + ": " + wrong;
}

template <typename T>
T* handle(void* of) {
  return reinterpret_cast<T*>(of);
}

}  // namespace

#define DRIVER(name, parameters) extern "C" __attribute__((visibility("default"))) int name parameters

extern "C" Machine* weft_machine() { return &machine(); }

DRIVER(cuInit, (unsigned)) { return kSuccess; }
DRIVER(cuDriverGetVersion, (int* version)) { return *version = 13000, kSuccess; }
DRIVER(cuGetErrorName, (int error, const char** name)) {
  *name = error == kOutOfMemory    ? "CUDA_ERROR_OUT_OF_MEMORY"
          : error == kLaunchFailed ? "CUDA_ERROR_LAUNCH_FAILED"
                                   : nullptr;
  return *name == nullptr ? kInvalidValue : kSuccess;
}
DRIVER(cuGetErrorString, (int, const char** text)) {
  *text = machine().fault.empty() ? "the machine knows no more" : machine().fault.c_str();
  return kSuccess;
}

DRIVER(cuDeviceGetCount, (int* count)) { return *count = 1, kSuccess; }
DRIVER(cuDeviceGet, (DeviceHandle * device, int number)) { return *device = number, kSuccess; }
DRIVER(cuDeviceGetName, (char* name, int size, DeviceHandle)) {
  fmt::format_to_n(name, static_cast<std::size_t>(size), "machine code on the host{}", '\0');
  return kSuccess;
}
DRIVER(cuDeviceGetAttribute, (int* value, int attribute, DeviceHandle)) {
  const int sm = machine().sm;
  *value = attribute == kDeviceMajor ? sm / 10 : attribute == kDeviceMinor ? sm % 10 : 20;
  return attribute == kDeviceMajor || attribute == kDeviceMinor || attribute == kDeviceMultiprocessors ? kSuccess
                                                                                                       : kInvalidValue;
}
DRIVER(cuDeviceTotalMem_v2, (std::size_t * bytes, DeviceHandle)) { return *bytes = kMemory, kSuccess; }

DRIVER(cuDevicePrimaryCtxRetain, (ContextHandle * *context, DeviceHandle)) {
  return *context = handle<ContextHandle>(&memory()), kSuccess;
}
DRIVER(cuDevicePrimaryCtxRelease_v2, (DeviceHandle)) { return kSuccess; }
DRIVER(cuCtxGetCurrent, (ContextHandle * *context)) {
  return *context = contexts.empty() ? nullptr : contexts.back(), kSuccess;
}
DRIVER(cuCtxPushCurrent_v2, (ContextHandle * context)) { return contexts.push_back(context), kSuccess; }
DRIVER(cuCtxPopCurrent_v2, (ContextHandle * *context)) {
  if (contexts.empty()) return kInvalidValue;
  *context = contexts.back();
  return contexts.pop_back(), kSuccess;
}

DRIVER(cuModuleLoadData, (ModuleHandle * *module, const void* image)) {
  const std::lock_guard lock(machine().mutex);
  const auto bytes = cubin_bytes(image);
  if (bytes == 0) return kErrorInvalidImage;
  auto programs = read_cubin(std::string(static_cast<const char*>(image), bytes));
  if (!programs) {
    machine().fault = programs.error().message;
    return kErrorInvalidImage;
  }
  for (const auto& [name, program] : *programs) {
    if (program->sm / 10 == machine().sm / 10 && program->sm <= machine().sm) continue;
    machine().fault = fmt::format("{} is for sm_{}, and this is sm_{}", name, program->sm, machine().sm);
    return kErrorNoBinaryForGpu;
  }
  *module = handle<ModuleHandle>(new Module{std::move(programs).value()});
  return kSuccess;
}
DRIVER(cuModuleUnload, (ModuleHandle * module)) {
  delete reinterpret_cast<Module*>(module);
  return kSuccess;
}
DRIVER(cuModuleGetFunction, (FunctionHandle * *function, ModuleHandle* module, const char* name)) {
  const auto& programs = reinterpret_cast<Module*>(module)->programs;
  const auto found = programs.find(name);
  if (found == programs.end()) return kNotFound;
  *function = handle<FunctionHandle>(found->second.get());
  return kSuccess;
}
DRIVER(cuFuncSetAttribute, (FunctionHandle * function, int attribute, int value)) {
  auto& program = *reinterpret_cast<Program*>(function);
  if (attribute != kFunctionMostDynamicShared || value > most_shared(program.sm)) return kInvalidValue;
  program.most_shared = value;
  return kSuccess;
}
DRIVER(cuLaunchKernel,
       (FunctionHandle * function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
        unsigned block_y, unsigned block_z, unsigned shared_bytes, StreamHandle*, void** parameters, void**)) {
  const std::lock_guard lock(machine().mutex);
  Launch launch;
  launch.grid = {grid_x, grid_y, grid_z};
  launch.block = {block_x, block_y, block_z};
  launch.shared_bytes = shared_bytes;
  auto wrong = launched(*reinterpret_cast<Program*>(function), launch, parameters);
  if (wrong.empty()) return kSuccess;
  machine().fault = std::move(wrong);
  return kLaunchFailed;
}

DRIVER(cuMemAlloc_v2, (DeviceAddress * address, std::size_t bytes)) {
  const std::lock_guard lock(machine().mutex);
  *address = memory().allocate(bytes);
  return *address == 0 ? kOutOfMemory : kSuccess;
}
DRIVER(cuMemFree_v2, (DeviceAddress address)) {
  const std::lock_guard lock(machine().mutex);
  return memory().release(address) ? kSuccess : kInvalidValue;
}
DRIVER(cuMemcpyHtoD_v2, (DeviceAddress to, const void* from, std::size_t bytes)) {
  const std::lock_guard lock(machine().mutex);
  auto* const place = memory().find(to, bytes);
  if (place == nullptr) return kInvalidValue;
  std::memcpy(place, from, bytes);
  memory().mark_written(to, bytes);
  return kSuccess;
}
DRIVER(cuMemcpyDtoH_v2, (void* to, DeviceAddress from, std::size_t bytes)) {
  const std::lock_guard lock(machine().mutex);
  const auto* const place = memory().find(from, bytes);
  if (place == nullptr) return kInvalidValue;
  std::memcpy(to, place, bytes);
  return kSuccess;
}
DRIVER(cuMemcpyHtoDAsync_v2, (DeviceAddress to, const void* from, std::size_t bytes, StreamHandle*)) {
  return cuMemcpyHtoD_v2(to, from, bytes);
}
DRIVER(cuMemcpy2DAsync_v2, (const Copy2D* what, StreamHandle*)) {
  const std::lock_guard lock(machine().mutex);
  for (std::size_t line = 0; line < what->height; ++line) {
    const bool reads_host = what->from_type == kMemoryHost, writes_host = what->to_type == kMemoryHost;
    const auto to_address = what->to_device + line * what->to_pitch;
    const auto* const from = reads_host ? static_cast<const std::byte*>(what->from_host) + line * what->from_pitch
                                        : memory().find(what->from_device + line * what->from_pitch, what->width);
    auto* const to = writes_host ? static_cast<std::byte*>(what->to_host) + line * what->to_pitch
                                 : memory().find(to_address, what->width);
    if (from == nullptr || to == nullptr || what->from_pitch < what->width || what->to_pitch < what->width)
      return kInvalidValue;
    std::memcpy(to, from, what->width);
    if (!writes_host) memory().mark_written(to_address, what->width);
  }
  return kSuccess;
}
DRIVER(cuMemsetD32Async, (DeviceAddress to, unsigned value, std::size_t count, StreamHandle*)) {
  const std::lock_guard lock(machine().mutex);
  auto* const place = memory().find(to, 4 * count);
  if (place == nullptr) return kInvalidValue;
  for (std::size_t i = 0; i < count; ++i) std::memcpy(place + 4 * i, &value, sizeof value);
  memory().mark_written(to, 4 * count);
  return kSuccess;
}
DRIVER(cuMemsetD8Async, (DeviceAddress to, unsigned char value, std::size_t count, StreamHandle*)) {
  const std::lock_guard lock(machine().mutex);
  auto* const place = memory().find(to, count);
  if (place == nullptr) return kInvalidValue;
  std::memset(place, value, count);
  memory().mark_written(to, count);
  return kSuccess;
}
DRIVER(cuMemsetD2D8Async, (DeviceAddress to, std::size_t pitch, unsigned char value, std::size_t width,
                           std::size_t height, StreamHandle* stream)) {
  for (std::size_t i = 0; i < height; ++i) {
    if (const int error = cuMemsetD8Async(to + i * pitch, value, width, stream); error != kSuccess) return error;
  }
  return kSuccess;
}
DRIVER(cuStreamSynchronize, (StreamHandle*)) { return kSuccess; }
DRIVER(cuPointerGetAttributes, (unsigned count, int* attributes, void** values, DeviceAddress address)) {
  const std::lock_guard lock(machine().mutex);
  const bool ours = memory().find(address, 1) != nullptr;
  for (unsigned i = 0; i < count; ++i) {
    const int value = attributes[i] == kPointerMemoryType && ours ? kMemoryDevice : 0;
    std::memcpy(values[i], &value, sizeof value);
  }
  return kSuccess;
}

// Launches have ended when they return, and took no time worth a name.
DRIVER(cuEventCreate, (EventHandle * *event, unsigned)) { return *event = handle<EventHandle>(&memory()), kSuccess; }
DRIVER(cuEventDestroy_v2, (EventHandle*)) { return kSuccess; }
DRIVER(cuEventRecord, (EventHandle*, StreamHandle*)) { return kSuccess; }
DRIVER(cuEventQuery, (EventHandle*)) { return kSuccess; }
DRIVER(cuStreamCreate, (StreamHandle * *stream, unsigned)) {
  return *stream = handle<StreamHandle>(&memory()), kSuccess;
}
DRIVER(cuStreamDestroy_v2, (StreamHandle*)) { return kSuccess; }
DRIVER(cuEventSynchronize, (EventHandle*)) { return kSuccess; }
DRIVER(cuEventElapsedTime, (float* milliseconds, EventHandle*, EventHandle*)) { return *milliseconds = 1, kSuccess; }
