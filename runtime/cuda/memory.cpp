#include "runtime/cuda/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <thread>

namespace weft::cuda {

Result<Buffer> Buffer::allocate(std::shared_ptr<const Device> device, std::size_t bytes) {
  if (bytes == 0) return Buffer();
  const auto& driver = device->driver();
  WEFT_TRY(const auto current, Current::make(*device));
  DeviceAddress address = 0;
  if (auto status = driver.check(driver.functions().cuMemAlloc_v2(&address, bytes), "cuMemAlloc"); !status) {
    auto error = std::move(status).error();
    error.notes.push_back(fmt::format("{} bytes were asked for on {}, which has {}", bytes, device->info().name,
                                      device->info().memory_bytes));
    return error;
  }
  return Buffer(std::move(device), address, bytes);
}

Result<Buffer> Buffer::upload(std::shared_ptr<const Device> device, const void* from, std::size_t bytes) {
  WEFT_TRY(auto buffer, allocate(std::move(device), bytes));
  WEFT_CHECK(buffer.copy_in(from, bytes));
  return buffer;
}

Buffer::~Buffer() {
  if (address_ == 0) return;
  // With the context current: freeing looks the address up there. Where that fails the context is gone, and the
  // memory with it.
  if (const auto current = Current::make(*device_)) device_->driver().functions().cuMemFree_v2(address_);
}

Status Buffer::copy_in(const void* from, std::size_t bytes) const {
  if (bytes == 0) return done;
  WEFT_TRY(const auto current, Current::make(*device_));
  WEFT_CUDA(device_->driver(), cuMemcpyHtoD_v2, (address_, from, bytes));
  // The bytes may still be on their way from the driver's own memory, which streams that do not wait for the default
  // one would overtake.
  WEFT_CUDA(device_->driver(), cuStreamSynchronize, (nullptr));
  return done;
}

Status Buffer::copy_out(void* to, std::size_t bytes) const {
  if (bytes == 0) return done;
  WEFT_TRY(const auto current, Current::make(*device_));
  return device_->driver().check(device_->driver().functions().cuMemcpyDtoH_v2(to, address_, bytes), "cuMemcpyDtoH_v2",
                                 Driver::Faulty::own);
}

BufferPool::Free BufferPool::slot(StreamHandle* stream, Buffer buffer) {
  const auto handle = reinterpret_cast<std::uintptr_t>(stream);
  const bool per_thread = handle == kStreamPerThread;
  return {.stream = handle,
          .thread = per_thread ? std::hash<std::thread::id>{}(std::this_thread::get_id()) : 0,
          .buffer = std::move(buffer)};
}

Result<Buffer> BufferPool::take(const std::shared_ptr<const Device>& device, StreamHandle* stream, std::size_t bytes) {
  Buffer too_small;  // freed outside the lock: that waits for the device
  {
    const auto wanted = slot(stream, {});
    const std::lock_guard lock(mutex_);
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if (it->stream != wanted.stream || it->thread != wanted.thread) continue;
      auto found = std::move(it->buffer);
      free_.erase(it);
      if (found.size() >= bytes) return found;
      too_small = std::move(found);
      break;
    }
  }
  return Buffer::allocate(device, bytes);
}

void BufferPool::give_back(StreamHandle* stream, Buffer buffer) {
  auto free = slot(stream, std::move(buffer));
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(free));
}

Result<std::string> pointer_problem(const Device& device, const void* pointer) {
  std::array attributes = {kPointerMemoryType, kPointerIsManaged, kPointerDevice};
  unsigned type = 0, managed = 0;
  int number = 0;
  std::array<void*, 3> values = {&type, &managed, &number};
  // The driver has two functions for this; only this one takes a pointer it does not know for an answer.
  WEFT_CUDA(device.driver(), cuPointerGetAttributes,
            (static_cast<unsigned>(attributes.size()), attributes.data(), values.data(),
             reinterpret_cast<DeviceAddress>(pointer)));
  if (type == 0) return std::string("is host memory that the GPU cannot read; copy it to the device first");
  const bool elsewhere = type == kMemoryDevice && managed == 0 && number != device.info().number;
  if (elsewhere) return fmt::format("lies on GPU {}; the kernel runs on GPU {}", number, device.info().number);
  return std::string();
}

Result<bool> is_captured(const Device& device, StreamHandle* stream) {
  if (stream == nullptr || device.driver().functions().cuStreamIsCapturing == nullptr) return false;
  int status = 0;
  const int result = device.driver().functions().cuStreamIsCapturing(stream, &status);
  if (result == kErrorInvalidHandle) return foreign_stream(device);
  WEFT_CHECK(device.driver().check(result, "cuStreamIsCapturing"));
  return status != 0;
}

Status queue_words(const Device& device, void* to, const std::uint32_t* words, std::size_t count,
                   StreamHandle* stream) {
  auto address = reinterpret_cast<DeviceAddress>(to);
  for (std::size_t i = 0; i < count;) {
    const auto* const end =
        std::find_if(words + i, words + count, [&](std::uint32_t word) { return word != words[i]; });
    const auto same = static_cast<std::size_t>(end - (words + i));
    WEFT_CUDA(device.driver(), cuMemsetD32Async, (address + i * sizeof *words, words[i], same, stream));
    i += same;
  }
  return done;
}

}  // namespace weft::cuda
