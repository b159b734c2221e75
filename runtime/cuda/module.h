#pragma once

#include "compiler/base/fork_safe.h"
#include "runtime/cuda/device.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace weft::cuda {

/// How a kernel is launched. Grids are one-dimensional.
struct Grid {
  std::int64_t blocks = 0;
  int threads = 0;
  std::int64_t shared_bytes = 0;  ///< dynamic
};

/// The most blocks that one launch has.
inline constexpr std::int64_t kMostBlocks = (std::int64_t{1} << 31) - 1;

/// One kernel of a cubin, or of PTX, which is loaded into a device's primary context. Thread-safe.
class Module {
 public:
  /// `name` is the pattern's, for messages. Internal error where the bytes are neither cubin nor PTX, the driver does
  /// not take them (`refused`, where that is given) or they lack `symbol`.
  static Result<std::shared_ptr<const Module>> load(std::shared_ptr<const Device> device, std::string_view cubin,
                                                    const std::string& symbol, const std::string& name,
                                                    bool* refused = nullptr);
  /// Another kernel of the same cubin, which stays loaded for as long as one of its kernels is wanted.
  Result<std::shared_ptr<const Module>> sibling(const std::string& symbol) const;

  const std::shared_ptr<const Device>& device() const { return device_; }

  /// Lets launches use this much dynamic shared memory: above 48 KB a kernel must ask. Never takes back what was
  /// allowed.
  Status allow_shared(std::int64_t bytes) const;

  /// Queues one launch; the device's context is current. `argument` is the kernel's only parameter, which the
  /// driver copies before it returns. Allocates nothing and waits for nothing.
  Status launch(const Grid& grid, void* argument, StreamHandle* stream) const;

 private:
  class Image;
  Module(std::shared_ptr<const Device> device, std::string name) : device_(std::move(device)), name_(std::move(name)) {}
  static Result<std::shared_ptr<const Module>> find(std::shared_ptr<const Image> image, const std::string& symbol,
                                                    const std::string& name);

  std::shared_ptr<const Device> device_;
  std::string name_;
  std::shared_ptr<const Image> image_;
  FunctionHandle* function_ = nullptr;
  mutable ForkSafe<> mutex_;
  mutable std::int64_t shared_ = 48 << 10;  ///< what launches may use now
};

/// Is it an ELF file for NVIDIA's GPUs? Says nothing about what is in it.
bool is_cubin(std::string_view bytes);

/// Is it PTX with a kernel, which a driver compiles when it loads it? Says nothing about whether it can.
bool is_ptx(std::string_view bytes);

}  // namespace weft::cuda
