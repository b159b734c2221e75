#include "runtime/cuda/driver.h"

#include "compiler/base/fork_safe.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <mutex>

namespace weft::cuda {

namespace {

constexpr const char* kLibrary = "libcuda.so.1";

std::string wanted_path() {
  const char* named = std::getenv("WEFT_CUDA_DRIVER");
  return named != nullptr && *named != '\0' ? named : kLibrary;
}

/// The first function of the table that the library lacks, or null.
const char* resolve(void* handle, Functions& functions) {
#define WEFT_CUDA_FUNCTION(name, parameters)                                  \
  functions.name = reinterpret_cast<int(*) parameters>(dlsym(handle, #name)); \
  if (functions.name == nullptr) return #name;
#define WEFT_CUDA_OPTIONAL(name, parameters) functions.name = reinterpret_cast<int(*) parameters>(dlsym(handle, #name));
#include "runtime/cuda/functions.def"
  return nullptr;
}

Error unusable(const std::string& path, const std::string& why) {
  Error error = environment_error(fmt::format("{} cannot serve as the CUDA driver: {}", path, why));
  error.notes.emplace_back(
      "the driver comes with the GPU's package (such as nvidia-driver); WEFT_CUDA_DRIVER names another");
  return error;
}

template <std::size_t kCount>
bool is_one_of(const std::array<int, kCount>& results, int result) {
  return std::find(results.begin(), results.end(), result) != results.end();
}

/// The context is lost; only what a kernel did can cause them.
constexpr std::array kFaults = {700, 714, 715, 716, 717, 718, 719};
/// A binary is none, is for another GPU or of a newer CUDA, or lacks a kernel's name.
constexpr std::array kWrongBinary = {kErrorInvalidImage, kErrorNoBinaryForGpu, kErrorInvalidPtx,
                                     kErrorUnsupportedPtxVersion, 500};

ForkSafe<> mutex;  // of what follows
std::map<std::string, std::shared_ptr<const Driver>> opened;

}  // namespace

Result<std::shared_ptr<const Driver>> Driver::open() {
  const std::string path = wanted_path();
  const std::lock_guard lock(mutex);
  if (const auto found = opened.find(path); found != opened.end()) return found->second;
  WEFT_TRY(std::shared_ptr<const Driver> driver, load(path));
  opened.emplace(path, driver);
  return driver;
}

Result<std::shared_ptr<const Driver>> Driver::load(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    return unusable(path, why == nullptr ? "it cannot be opened" : why);
  }
  const auto driver = std::make_shared<Driver>();
  driver->path_ = path;
  if (const char* lacking = resolve(handle, driver->functions_); lacking != nullptr) {
    dlclose(handle);
    return unusable(path, fmt::format("it has no function {}; Weft needs a driver of CUDA 11.0 or newer", lacking));
  }
  // The handle stays open from here on: cuInit may have started threads that live in the library.
  const auto initialised = driver->functions_.cuInit(0);
  if (initialised != kErrorNoDevice) WEFT_CHECK(driver->check(initialised, "cuInit"));
  WEFT_CUDA(*driver, cuDriverGetVersion, (&driver->version_));
  if (initialised == kSuccess) WEFT_CHECK(driver->list_devices());
  return std::shared_ptr<const Driver>(driver);
}

Status Driver::list_devices() {
  int count = 0;
  WEFT_CUDA(*this, cuDeviceGetCount, (&count));
  for (int number = 0; number < count; ++number) {
    WEFT_TRY(auto info, describe(number));
    devices_.push_back(std::move(info));
  }
  return done;
}

Result<DeviceInfo> Driver::describe(int number) const {
  DeviceInfo info;
  info.number = number;
  DeviceHandle device = 0;
  WEFT_CUDA(*this, cuDeviceGet, (&device, number));
  std::array<char, 256> name{};
  WEFT_CUDA(*this, cuDeviceGetName, (name.data(), static_cast<int>(name.size()) - 1, device));
  info.name = name.data();
  int major = 0, minor = 0;
  WEFT_CUDA(*this, cuDeviceGetAttribute, (&major, kDeviceMajor, device));
  WEFT_CUDA(*this, cuDeviceGetAttribute, (&minor, kDeviceMinor, device));
  WEFT_CUDA(*this, cuDeviceGetAttribute, (&info.multiprocessors, kDeviceMultiprocessors, device));
  WEFT_CUDA(*this, cuDeviceTotalMem_v2, (&info.memory_bytes, device));
  info.sm = 10 * major + minor;
  info.target = device_target(info.sm);
  return info;
}

std::string Driver::version_text() const { return fmt::format("{}.{}", version_ / 1000, version_ % 1000 / 10); }

Status Driver::check(int result, const char* function, Faulty faulty) const {
  if (result == kSuccess) return done;
  const char* name = nullptr;
  const char* text = nullptr;
  functions_.cuGetErrorName(result, &name);
  functions_.cuGetErrorString(result, &text);
  auto message = fmt::format("{}: {} ({})", function, name != nullptr ? name : fmt::format("error {}", result),
                             text != nullptr ? text : "the driver does not say more");
  const bool fault = is_one_of(kFaults, result);
  if (is_one_of(kWrongBinary, result) || (fault && faulty == Faulty::own)) return internal_error(std::move(message));
  auto error = environment_error(std::move(message));
  if (fault) {
    error.notes.emplace_back(
        "a kernel that this process queued earlier, by Weft or by another library, has failed; this call only "
        "reports it");
    error.notes.emplace_back(
        "the GPU's context is lost: start the process again; under compute-sanitizer it names the kernel");
  }
  return error;
}

}  // namespace weft::cuda
