#pragma once

#include "compiler/base/byte_range.h"
#include "runtime/cuda/device.h"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace weft::cuda {

/// Device memory of which only some is used, zeros at first. The rest is address space: a small piece of memory that is
/// seen there over and over, so that reading it finds zeros as long as nobody writes there, and writing it harms nobody
/// who does not read it.
class SparseBuffer {
 public:
  /// Null where the device cannot do it, or where it would not save much.
  static Result<std::unique_ptr<SparseBuffer>> make(std::shared_ptr<const Device> device, std::size_t bytes,
                                                    std::vector<ByteRange> used);
  ~SparseBuffer();
  SparseBuffer(const SparseBuffer&) = delete;
  SparseBuffer& operator=(const SparseBuffer&) = delete;

  void* data() const { return reinterpret_cast<void*>(address_); }
  /// Mapped, a multiple of what the device maps at once.
  std::size_t size() const { return size_; }

 private:
  explicit SparseBuffer(std::shared_ptr<const Device> device) : device_(std::move(device)) {}
  /// The same new memory to all places, which are of one size.
  Status map(const std::vector<ByteRange>& places);

  std::shared_ptr<const Device> device_;
  DeviceAddress address_ = 0;
  std::size_t size_ = 0;
  std::vector<ByteRange> mapped_;
};

}  // namespace weft::cuda
