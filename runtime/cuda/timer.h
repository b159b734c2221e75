#pragma once

#include "runtime/cuda/device.h"

#include <memory>

namespace weft::cuda {

/// Time on the device between two points of a stream.
class Timer {
 public:
  static Result<Timer> make(std::shared_ptr<const Device> device);
  Timer(Timer&& other) noexcept;
  Timer& operator=(Timer&&) = delete;
  ~Timer();

  Status start(StreamHandle* stream) const;
  /// Marks the end, waits for it, and gives the milliseconds since start().
  Result<double> stop(StreamHandle* stream) const;

 private:
  explicit Timer(std::shared_ptr<const Device> device) : device_(std::move(device)) {}

  std::shared_ptr<const Device> device_;
  EventHandle* start_ = nullptr;
  EventHandle* end_ = nullptr;
};

}  // namespace weft::cuda
