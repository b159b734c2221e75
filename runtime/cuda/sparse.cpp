#include "runtime/cuda/sparse.h"

#include <algorithm>

namespace weft::cuda {

namespace {

/// Holes are seen as so many pieces at most, of a whole buffer.
constexpr std::size_t kPieces = 256;
/// A buffer of fewer granules than this is not worth the calls.
constexpr std::size_t kFewest = 16;

MemoryProperties memory_on(const Device& device) { return {.device = device.info().number}; }

std::size_t up(std::size_t bytes, std::size_t step) { return (bytes + step - 1) / step * step; }

/// In whole granules, ascending, none beside another.
std::vector<ByteRange> in_granules(std::vector<ByteRange> used, std::size_t granule, std::size_t size) {
  std::sort(used.begin(), used.end(), [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
  std::vector<ByteRange> out;
  for (const auto& of : used) {
    if (of.begin == of.end) continue;
    const ByteRange whole{of.begin / granule * granule, std::min(size, up(of.end, granule))};
    if (!out.empty() && whole.begin <= out.back().end)
      out.back().end = std::max(out.back().end, whole.end);
    else
      out.push_back(whole);
  }
  return out;
}

Result<std::size_t> granule_of(const Device& device) {
  const auto& driver = device.driver();
  const auto& functions = driver.functions();
  if (functions.cuMemGetAllocationGranularity == nullptr || functions.cuMemAddressReserve == nullptr ||
      functions.cuMemAddressFree == nullptr || functions.cuMemCreate == nullptr || functions.cuMemRelease == nullptr ||
      functions.cuMemMap == nullptr || functions.cuMemUnmap == nullptr || functions.cuMemSetAccess == nullptr ||
      functions.cuMemsetD8Async == nullptr)
    return std::size_t{0};
  // A driver that does not know the question cannot do it, either.
  int able = 0;
  if (functions.cuDeviceGetAttribute(&able, kDeviceMapsMemory, device.handle()) != kSuccess || able == 0)
    return std::size_t{0};
  const auto memory = memory_on(device);
  std::size_t granule = 0;
  WEFT_CUDA(driver, cuMemGetAllocationGranularity, (&granule, &memory, kLeastGranularity));
  return granule;
}

}  // namespace

Result<std::unique_ptr<SparseBuffer>> SparseBuffer::make(std::shared_ptr<const Device> device, std::size_t bytes,
                                                         std::vector<ByteRange> used) {
  WEFT_TRY(const auto current, Current::make(*device));
  WEFT_TRY(const auto granule, granule_of(*device));
  if (granule == 0 || bytes < kFewest * granule) return std::unique_ptr<SparseBuffer>();
  const auto size = up(bytes, granule), piece = up(size / kPieces, granule);
  const auto stretches = in_granules(std::move(used), granule, size);
  std::size_t held = piece + granule;
  for (const auto& of : stretches) held += of.end - of.begin;
  if (held > size / 4 * 3) return std::unique_ptr<SparseBuffer>();

  std::unique_ptr<SparseBuffer> out(new SparseBuffer(std::move(device)));
  const auto& driver = out->device_->driver();
  WEFT_CUDA(driver, cuMemAddressReserve, (&out->address_, size, 0, 0, 0));
  out->size_ = size;
  // A hole is pieces, and what is left over is granules: two allocations serve all of them.
  std::vector<ByteRange> pieces, granules;
  std::size_t at = 0;
  const auto hole = [&](std::size_t end) {
    for (; at + piece <= end; at += piece) pieces.push_back({at, at + piece});
    for (; at < end; at += granule) granules.push_back({at, at + granule});
  };
  for (const auto& of : stretches) {
    hole(of.begin);
    WEFT_CHECK(out->map({of}));
    at = of.end;
  }
  hole(size);
  WEFT_CHECK(out->map(pieces));
  WEFT_CHECK(out->map(granules));
  const MemoryAccess access{.device = out->device_->info().number};
  WEFT_CUDA(driver, cuMemSetAccess, (out->address_, size, &access, 1));
  WEFT_CUDA(driver, cuMemsetD8Async, (out->address_, 0, size, nullptr));
  WEFT_CUDA(driver, cuStreamSynchronize, (nullptr));
  return out;
}

Status SparseBuffer::map(const std::vector<ByteRange>& places) {
  if (places.empty()) return done;
  const auto& driver = device_->driver();
  const auto memory = memory_on(*device_);
  const std::size_t bytes = places.front().end - places.front().begin;
  MemoryHandle handle = 0;
  WEFT_CUDA(driver, cuMemCreate, (&handle, bytes, &memory, 0));
  Status mapped = done;
  for (const auto& place : places) {
    mapped = driver.check(driver.functions().cuMemMap(address_ + place.begin, bytes, 0, handle, 0), "cuMemMap");
    if (!mapped) break;
    mapped_.push_back(place);
  }
  // It lives as long as it is mapped.
  driver.functions().cuMemRelease(handle);
  return mapped;
}

SparseBuffer::~SparseBuffer() {
  if (size_ == 0) return;
  const auto& functions = device_->driver().functions();
  if (const auto current = Current::make(*device_)) {
    for (const auto& place : mapped_) functions.cuMemUnmap(address_ + place.begin, place.end - place.begin);
    functions.cuMemAddressFree(address_, size_);
  }
}

}  // namespace weft::cuda
