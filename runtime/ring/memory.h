#pragma once

#include "compiler/base/byte_range.h"
#include "compiler/base/result.h"

#include <weft/ring.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace weft {

/// Lines of bytes, `pitch` bytes apart, in the kernel's memory or the host's; the memory of a CPU's kernel is the
/// host's.
struct Lines {
  std::byte* data = nullptr;
  std::int64_t pitch = 0;
  bool on_host = false;
};

/// Where a kernel's tensors lie, and how bytes get there. Copies are queued in their order, beside launches of the same
/// stream; `settle` waits for all of them.
class KernelMemory {
 public:
  virtual ~KernelMemory() = default;
  /// Zeros. What is not in `used` may be more address space than memory: what is written there is lost, or not.
  virtual Result<std::byte*> reserve(std::size_t bytes, const std::vector<ByteRange>& used) = 0;
  virtual void release(std::byte* data, std::size_t bytes) noexcept = 0;
  virtual Status copy(const Lines& to, const Lines& from, std::size_t width, std::int64_t lines) const = 0;
  virtual Status clear(const Lines& what, std::size_t bytes) const = 0;  ///< of one line
  virtual Status settle() const = 0;
  /// The number of the GPU; nothing: the host.
  virtual std::optional<int> device() const = 0;
  /// Is a caller's memory the host's? Of a CPU's kernel all is.
  virtual Result<bool> is_on_host(const void* data) const = 0;
  /// GPUs: which stream, until it is said again.
  virtual void go_by(void* stream) = 0;
};

/// That of a kernel's target.
Result<std::shared_ptr<KernelMemory>> memory_of(const Kernel& kernel);
/// What travels lies there: in `memory` itself where a transport moves the GPU's, `device`, else in the host's. User
/// error where they are two GPUs.
Result<std::shared_ptr<KernelMemory>> memory_of_messages(const std::shared_ptr<KernelMemory>& memory,
                                                         std::optional<int> device);

/// A tensor's numbers, row-major on the host, come from there, or go there; they are there when the memory has settled.
Status to_host(const KernelMemory& memory, const TensorView& from, std::byte* to);
Status from_host(const KernelMemory& memory, const std::byte* from, const OutputView& to);

/// Memory of our own there.
class KernelBytes {
 public:
  KernelBytes() = default;
  static Result<KernelBytes> make(std::shared_ptr<KernelMemory> memory, std::size_t bytes);
  static Result<KernelBytes> make(std::shared_ptr<KernelMemory> memory, std::size_t bytes,
                                  const std::vector<ByteRange>& used);
  KernelBytes(KernelBytes&& other) noexcept;
  KernelBytes& operator=(KernelBytes&& other) noexcept;
  ~KernelBytes();

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  Lines whole() const { return lines(0, bytes_); }
  /// From byte `begin` on, one behind the other.
  Lines lines(std::size_t begin, std::size_t width) const;
  /// A message of them.
  Transport::Part part(int peer, std::size_t begin, std::size_t bytes) const;
  const KernelMemory& memory() const { return *memory_; }

 private:
  std::shared_ptr<KernelMemory> memory_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace weft
