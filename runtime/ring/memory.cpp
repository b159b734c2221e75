#include "runtime/ring/memory.h"

#include "runtime/engine/cuda_executor.h"
#include "runtime/ring/gpu_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstring>
#include <utility>

namespace weft {

namespace {

class HostMemory final : public KernelMemory {
 public:
  Result<std::byte*> reserve(std::size_t bytes) override {
    void* const memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
      return environment_error(fmt::format("out of memory: no address space for {} bytes of a ring", bytes));
    return static_cast<std::byte*>(memory);
  }
  void release(std::byte* data, std::size_t bytes) noexcept override { munmap(data, bytes); }
  Status copy(const Lines& to, const Lines& from, std::size_t width, std::int64_t lines) const override {
    if (lines == 0 || width == 0) return done;  // of nothing there may be no address
    const auto step = static_cast<std::int64_t>(width);
    if (to.pitch == step && from.pitch == step) {
      std::memcpy(to.data, from.data, width * static_cast<std::size_t>(lines));
      return done;
    }
    for (std::int64_t i = 0; i < lines; ++i) std::memcpy(to.data + i * to.pitch, from.data + i * from.pitch, width);
    return done;
  }
  Status clear(const Lines& what, std::size_t bytes) const override {
    std::memset(what.data, 0, bytes);
    return done;
  }
  Status settle() const override { return done; }
  std::optional<int> device() const override { return std::nullopt; }
  Result<bool> is_on_host(const void*) const override { return true; }
  void go_by(void*) override {}
};

}  // namespace

Result<std::shared_ptr<KernelMemory>> memory_of(const Kernel& kernel) {
  if (auto device = device_of(kernel)) return gpu_memory(std::move(device));
  return std::shared_ptr<KernelMemory>(std::make_shared<HostMemory>());
}

Result<std::shared_ptr<KernelMemory>> memory_of_messages(const std::shared_ptr<KernelMemory>& memory,
                                                         std::optional<int> device) {
  if (!device || !memory->device()) return std::shared_ptr<KernelMemory>(std::make_shared<HostMemory>());
  if (*device == *memory->device()) return memory;
  return user_error(
      fmt::format("the kernel runs on GPU {}, and the ring's transport moves what lies on GPU {}: compile it for "
                  "'cuda:{}'",
                  *memory->device(), *device, *device));
}

Result<KernelBytes> KernelBytes::make(std::shared_ptr<KernelMemory> memory, std::size_t bytes) {
  KernelBytes out;
  if (bytes > 0) {
    WEFT_TRY(out.data_, memory->reserve(bytes));
  }
  out.memory_ = std::move(memory);
  out.bytes_ = bytes;
  return out;
}

KernelBytes::KernelBytes(KernelBytes&& other) noexcept { *this = std::move(other); }

KernelBytes& KernelBytes::operator=(KernelBytes&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Lines KernelBytes::lines(std::size_t begin, std::size_t width) const {
  return {.data = data_ + begin, .pitch = static_cast<std::int64_t>(width), .on_host = !memory_->device()};
}

Transport::Part KernelBytes::part(int peer, std::size_t begin, std::size_t bytes) const {
  return {.peer = peer, .data = data_ + begin, .bytes = bytes, .on_device = memory_->device().has_value()};
}

KernelBytes::~KernelBytes() {
  if (data_ != nullptr) memory_->release(data_, bytes_);
}

}  // namespace weft
