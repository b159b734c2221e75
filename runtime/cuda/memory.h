#pragma once

#include "compiler/base/fork_safe.h"
#include "runtime/cuda/device.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace weft::cuda {

/// Device memory of our own; freed with the object. No bytes are no memory: the driver refuses to allocate them.
class Buffer {
 public:
  Buffer() = default;
  static Result<Buffer> allocate(std::shared_ptr<const Device> device, std::size_t bytes);
  /// Allocates, and copies from the host; returns when the copy is done.
  static Result<Buffer> upload(std::shared_ptr<const Device> device, const void* from, std::size_t bytes);
  Buffer(Buffer&& other) noexcept
      : device_(std::move(other.device_)), address_(std::exchange(other.address_, 0)), size_(other.size_) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(address_, other.address_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Buffer();

  Status copy_in(const void* from, std::size_t bytes) const;
  /// Waits for all work of the default stream before.
  Status copy_out(void* to, std::size_t bytes) const;

  void* data() const { return reinterpret_cast<void*>(address_); }
  std::size_t size() const { return size_; }

 private:
  Buffer(std::shared_ptr<const Device> device, DeviceAddress address, std::size_t size)
      : device_(std::move(device)), address_(address), size_(size) {}

  std::shared_ptr<const Device> device_;
  DeviceAddress address_ = 0;
  std::size_t size_ = 0;
};

/// Buffers that launches without a workspace of their own share. A buffer goes back when its launch is queued,
/// not when it is done, so it serves the same stream only: there the next launch starts behind this one. Needs no
/// call of the driver once every stream has had its first launches.
class BufferPool {
 public:
  /// At least `bytes`; allocates where the stream's buffers are in use or too small.
  Result<Buffer> take(const std::shared_ptr<const Device>& device, StreamHandle* stream, std::size_t bytes);
  void give_back(StreamHandle* stream, Buffer buffer);

 private:
  struct Free {
    std::uintptr_t stream;
    std::size_t thread;  ///< for the handle that is another stream in each thread; otherwise 0
    Buffer buffer;
  };
  static Free slot(StreamHandle* stream, Buffer buffer);

  ForkSafe<> mutex_;
  std::vector<Free> free_;
};

/// Does a graph capture what is queued on the stream? The default stream cannot be captured.
Result<bool> is_captured(const Device& device, StreamHandle* stream);

/// Queues that device memory holds these words of 32 bits. Their values stand in the queue, so that a graph that
/// captures it is replayed without the host's memory.
Status queue_words(const Device& device, void* to, const std::uint32_t* words, std::size_t count, StreamHandle* stream);

/// Where a pointer of the caller's leads. `problem` is empty where a kernel on `device` may use it.
Result<std::string> pointer_problem(const Device& device, const void* pointer);

}  // namespace weft::cuda
