#include "runtime/cuda/device.h"

#include "compiler/base/fork_safe.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <utility>

namespace weft::cuda {

namespace {

ForkSafe<> mutex;  // of what follows
std::map<std::pair<const Driver*, int>, std::weak_ptr<const Device>> opened;

}  // namespace

Result<std::shared_ptr<const Device>> Device::open(std::shared_ptr<const Driver> driver, int number) {
  const auto& devices = driver->devices();
  if (devices.empty()) return environment_error(fmt::format("{} finds no GPU on this machine", driver->path()));
  if (number < 0 || static_cast<std::size_t>(number) >= devices.size()) {
    return environment_error(
        fmt::format("there is no GPU {}; this machine has {}, numbered from 0", number, devices.size()));
  }
  const std::lock_guard lock(mutex);
  auto& known = opened[{driver.get(), number}];
  if (auto device = known.lock()) return device;
  DeviceHandle handle = 0;
  ContextHandle* context = nullptr;
  WEFT_CUDA(*driver, cuDeviceGet, (&handle, number));
  WEFT_CUDA(*driver, cuDevicePrimaryCtxRetain, (&context, handle));
  const auto& info = devices[static_cast<std::size_t>(number)];
  std::shared_ptr<const Device> device(new Device(std::move(driver), info, handle, context));
  known = device;
  return device;
}

Device::~Device() { driver_->functions().cuDevicePrimaryCtxRelease_v2(handle_); }

Result<Current> Current::make(const Device& device) {
  const auto& driver = device.driver();
  ContextHandle* current = nullptr;
  WEFT_CUDA(driver, cuCtxGetCurrent, (&current));
  if (current == device.context()) return Current(nullptr);
  WEFT_CUDA(driver, cuCtxPushCurrent_v2, (device.context()));
  return Current(&device);
}

Error foreign_stream(const Device& device) {
  return user_error(
      fmt::format("the stream is none of GPU {}, which the kernel runs on ({}): give one that was made "
                  "while that GPU was current, or none",
                  device.info().number, device.info().name));
}

Current::~Current() {
  if (pushed_on_ == nullptr) return;
  ContextHandle* popped = nullptr;
  pushed_on_->driver().functions().cuCtxPopCurrent_v2(&popped);
}

}  // namespace weft::cuda
