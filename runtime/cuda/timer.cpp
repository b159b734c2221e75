#include "runtime/cuda/timer.h"

#include <utility>

namespace weft::cuda {

Result<Timer> Timer::make(std::shared_ptr<const Device> device) {
  const auto& driver = device->driver();
  WEFT_TRY(const auto current, Current::make(*device));
  Timer timer(std::move(device));
  WEFT_CUDA(driver, cuEventCreate, (&timer.start_, 0));
  WEFT_CUDA(driver, cuEventCreate, (&timer.end_, 0));
  return timer;
}

Timer::Timer(Timer&& other) noexcept
    : device_(std::move(other.device_)),
      start_(std::exchange(other.start_, nullptr)),
      end_(std::exchange(other.end_, nullptr)) {}

Timer::~Timer() {
  if (start_ == nullptr && end_ == nullptr) return;
  const auto current = Current::make(*device_);
  if (!current) return;
  for (auto* event : {start_, end_}) {
    if (event != nullptr) device_->driver().functions().cuEventDestroy_v2(event);
  }
}

Status Timer::start(StreamHandle* stream) const {
  WEFT_TRY(const auto current, Current::make(*device_));
  WEFT_CUDA(device_->driver(), cuEventRecord, (start_, stream));
  return done;
}

Result<double> Timer::stop(StreamHandle* stream) const {
  WEFT_TRY(const auto current, Current::make(*device_));
  WEFT_CUDA(device_->driver(), cuEventRecord, (end_, stream));
  const auto& driver = device_->driver();
  WEFT_CHECK(driver.check(driver.functions().cuEventSynchronize(end_), "cuEventSynchronize", Driver::Faulty::own));
  float milliseconds = 0;
  WEFT_CUDA(device_->driver(), cuEventElapsedTime, (&milliseconds, start_, end_));
  return static_cast<double>(milliseconds);
}

}  // namespace weft::cuda
