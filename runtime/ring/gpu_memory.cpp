#include "runtime/ring/gpu_memory.h"

#include "runtime/cuda/memory.h"
#include "runtime/cuda/sparse.h"

#include <cstring>
#include <utility>

namespace weft {

namespace {

class GpuMemory final : public KernelMemory {
 public:
  explicit GpuMemory(std::shared_ptr<const cuda::Device> device) : device_(std::move(device)) {}

  Result<std::byte*> reserve(std::size_t bytes, const std::vector<ByteRange>& used) override {
    WEFT_TRY(auto sparse, cuda::SparseBuffer::make(device_, bytes, used));
    if (sparse) {
      auto* const data = static_cast<std::byte*>(sparse->data());
      sparse_.push_back(std::move(sparse));
      return data;
    }
    WEFT_TRY(auto buffer, cuda::Buffer::allocate(device_, bytes));
    WEFT_TRY(const auto current, cuda::Current::make(*device_));
    const auto address = reinterpret_cast<cuda::DeviceAddress>(buffer.data());
    WEFT_CUDA(device_->driver(), cuMemsetD8Async, (address, 0, buffer.size(), nullptr));
    WEFT_CUDA(device_->driver(), cuStreamSynchronize, (nullptr));
    auto* const data = static_cast<std::byte*>(buffer.data());
    buffers_.push_back(std::move(buffer));
    return data;
  }
  void release(std::byte* data, std::size_t) noexcept override {
    std::erase_if(sparse_, [&](const auto& buffer) { return buffer->data() == data; });
    std::erase_if(buffers_, [&](const cuda::Buffer& buffer) { return buffer.data() == data; });
  }
  Status copy(const Lines& to, const Lines& from, std::size_t width, std::int64_t lines) const override {
    if (lines == 0 || width == 0) return done;
    WEFT_TRY(const auto current, cuda::Current::make(*device_));
    // A pitch is at least the width, also of a single line.
    const auto pitch = [&](const Lines& of) { return lines == 1 ? width : static_cast<std::size_t>(of.pitch); };
    cuda::Copy2D what{.from_type = type_of(from),
                      .from_pitch = pitch(from),
                      .to_type = type_of(to),
                      .to_pitch = pitch(to),
                      .width = width,
                      .height = static_cast<std::size_t>(lines)};
    what.from_host = from.on_host ? from.data : nullptr;
    what.from_device = from.on_host ? 0 : reinterpret_cast<cuda::DeviceAddress>(from.data);
    what.to_host = to.on_host ? to.data : nullptr;
    what.to_device = to.on_host ? 0 : reinterpret_cast<cuda::DeviceAddress>(to.data);
    WEFT_CUDA(device_->driver(), cuMemcpy2DAsync_v2, (&what, stream_));
    return done;
  }
  Status clear(const Lines& what, std::size_t bytes) const override {
    if (bytes == 0) return done;
    if (what.on_host) {
      std::memset(what.data, 0, bytes);
      return done;
    }
    WEFT_TRY(const auto current, cuda::Current::make(*device_));
    WEFT_CUDA(device_->driver(), cuMemsetD8Async,
              (reinterpret_cast<cuda::DeviceAddress>(what.data), 0, bytes, stream_));
    return done;
  }
  std::optional<int> device() const override { return device_->info().number; }
  Status settle() const override {
    WEFT_TRY(const auto current, cuda::Current::make(*device_));
    return device_->driver().check(device_->driver().functions().cuStreamSynchronize(stream_), "cuStreamSynchronize",
                                   cuda::Driver::Faulty::own);
  }
  Result<bool> is_on_host(const void* data) const override {
    WEFT_TRY(const auto current, cuda::Current::make(*device_));
    WEFT_TRY(const auto problem, cuda::pointer_problem(*device_, data));
    return !problem.empty();
  }
  void go_by(void* stream) override { stream_ = static_cast<cuda::StreamHandle*>(stream); }

 private:
  static unsigned type_of(const Lines& lines) {
    return static_cast<unsigned>(lines.on_host ? cuda::kMemoryHost : cuda::kMemoryDevice);
  }

  std::shared_ptr<const cuda::Device> device_;
  std::vector<cuda::Buffer> buffers_;
  std::vector<std::unique_ptr<cuda::SparseBuffer>> sparse_;
  cuda::StreamHandle* stream_ = nullptr;
};

}  // namespace

Result<std::shared_ptr<KernelMemory>> gpu_memory(std::shared_ptr<const cuda::Device> device) {
  const auto& functions = device->driver().functions();
  if (functions.cuMemcpy2DAsync_v2 == nullptr || functions.cuMemsetD8Async == nullptr)
    return environment_error("the CUDA driver is too old for rings: it copies no lines");
  return std::shared_ptr<KernelMemory>(std::make_shared<GpuMemory>(std::move(device)));
}

}  // namespace weft
