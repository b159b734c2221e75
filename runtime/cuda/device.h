#pragma once

#include "runtime/cuda/driver.h"

#include <memory>

namespace weft::cuda {

/// One GPU in use: its primary context, which it shares with every library of the process that uses the runtime
/// API. Retained while the object lives. Thread-safe.
class Device {
 public:
  /// Opened once per driver and number. Environment error, with the devices there are, for a number beyond them.
  static Result<std::shared_ptr<const Device>> open(std::shared_ptr<const Driver> driver, int number);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Driver& driver() const { return *driver_; }
  const DeviceInfo& info() const { return info_; }
  ContextHandle* context() const { return context_; }
  DeviceHandle handle() const { return handle_; }

 private:
  Device(std::shared_ptr<const Driver> driver, DeviceInfo info, DeviceHandle handle, ContextHandle* context)
      : driver_(std::move(driver)), info_(std::move(info)), handle_(handle), context_(context) {}

  std::shared_ptr<const Driver> driver_;
  DeviceInfo info_;
  DeviceHandle handle_;
  ContextHandle* context_;
};

/// Makes the device's context the calling thread's, where it is not already, and puts back what was there.
class Current {
 public:
  static Result<Current> make(const Device& device);
  Current(Current&& other) noexcept : pushed_on_(std::exchange(other.pushed_on_, nullptr)) {}
  Current& operator=(Current&&) = delete;
  ~Current();

 private:
  explicit Current(const Device* pushed_on) : pushed_on_(pushed_on) {}
  const Device* pushed_on_;
};

/// What the driver's `invalid handle` means where a stream was handed over.
Error foreign_stream(const Device& device);

}  // namespace weft::cuda
