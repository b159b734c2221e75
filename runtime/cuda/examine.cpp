#include "runtime/cuda/examine.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::cuda {

Report examine() {
  Report report;
  const auto driver = Driver::open();
  if (!driver) {
    report.reason = driver.error().message;
    report.mend = "install the NVIDIA driver of the GPU; kernels can be compiled and emulated without it";
    return report;
  }
  report.path = (*driver)->path();
  report.version = (*driver)->version_text();
  report.devices = (*driver)->devices();
  report.usable = std::any_of(report.devices.begin(), report.devices.end(),
                              [](const DeviceInfo& device) { return device.target.has_value(); });
  if (report.usable) return report;
  if (report.devices.empty()) {
    report.reason = "the driver finds no GPU";
    report.mend = "see whether nvidia-smi lists one, and CUDA_VISIBLE_DEVICES";
  } else {
    report.reason = fmt::format("no target fits {}", report.devices.front().name);
    report.mend = "use --target cpu";
  }
  return report;
}

std::string describe(const DeviceInfo& device) {
  return fmt::format("GPU {}: {}, compute capability {}.{}, {} SMs, {:.1f} GB{}", device.number, device.name,
                     device.sm / 10, device.sm % 10, device.multiprocessors,
                     static_cast<double>(device.memory_bytes) / 1e9,
                     device.target ? ", runs kernels for " + device.target->name : ", which no target fits");
}

}  // namespace weft::cuda
