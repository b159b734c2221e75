#pragma once

#include "runtime/cuda/driver.h"

#include <string>
#include <vector>

namespace weft::cuda {

/// What `weft doctor` and `weft targets` say about driver and GPUs.
struct Report {
  bool usable = false;  ///< a driver with at least one GPU that some target fits
  std::string path;     ///< of the driver; empty where there is none
  std::string version;  ///< `12.4`
  std::string reason;   ///< why it is not usable
  std::string mend;     ///< what to do about it; empty when usable
  std::vector<DeviceInfo> devices;
};
Report examine();

/// `GPU 0: NVIDIA GeForce GTX 1080, sm_61, 20 SMs, 8.5 GB`
std::string describe(const DeviceInfo& device);

}  // namespace weft::cuda
