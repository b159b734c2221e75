#include "tests/machine/driver/memory.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace weft::machine {
namespace {

constexpr std::align_val_t kAlignment{256};
constexpr std::byte kNan{0xff};
constexpr int kWordBytes = 4;

}  // namespace

void DeviceMemory::Free::operator()(std::byte* bytes) const { ::operator delete(bytes, kAlignment); }

Wide DeviceMemory::allocate(std::size_t bytes) {
  auto* const begin =
      static_cast<std::byte*>(::operator new(std::max<std::size_t>(bytes, 1), kAlignment, std::nothrow));
  if (begin == nullptr) return 0;
  std::fill_n(begin, bytes, kNan);
  const auto address = reinterpret_cast<Wide>(begin);
  held_[address] = {.begin = address,
                    .bytes = bytes,
                    .owner = std::unique_ptr<std::byte, Free>(begin),
                    .written = std::vector<std::uint8_t>(bytes)};
  return address;
}

bool DeviceMemory::release(Wide address) {
  last_ = nullptr;
  return held_.erase(address) != 0;
}

DeviceMemory::Allocation* DeviceMemory::holder(Wide address, std::size_t bytes) {
  const auto is_inside = [&](const Allocation& a) {
    return address >= a.begin && address - a.begin <= a.bytes && bytes <= a.bytes - (address - a.begin);
  };
  if (last_ != nullptr && is_inside(*last_)) return last_;
  auto after = held_.upper_bound(address);
  if (after == held_.begin()) return nullptr;
  Allocation& found = std::prev(after)->second;
  return is_inside(found) ? last_ = &found : nullptr;
}

std::byte* DeviceMemory::find(Wide address, std::size_t bytes) {
  return holder(address, bytes) == nullptr ? nullptr : reinterpret_cast<std::byte*>(address);
}

void DeviceMemory::mark_written(Wide address, std::size_t bytes) {
  if (Allocation* a = holder(address, bytes)) std::fill_n(a->written.data() + (address - a->begin), bytes, 1);
}

bool DeviceMemory::is_written(Wide address, std::size_t bytes) {
  const Allocation* a = holder(address, bytes);
  return a != nullptr && std::memchr(a->written.data() + (address - a->begin), 0, bytes) == nullptr;
}

SharedMemory::SharedMemory(std::size_t bytes, Findings& findings)
    : bytes_(bytes, kNan), uses_((bytes + kWordBytes - 1) / kWordBytes), findings_(&findings) {}

void SharedMemory::check(Wide address, int bytes, int place) const {
  if (address + static_cast<Wide>(bytes) > bytes_.size()) {
    fault("at {:#x}: {} bytes at {:#x} of shared memory, of which the block has {}", place, bytes, address,
          bytes_.size());
  }
}

std::byte* SharedMemory::load(int warp, Wide address, int bytes, int place) {
  check(address, bytes, place);
  for (Wide word = address / kWordBytes; word <= (address + static_cast<Wide>(bytes) - 1) / kWordBytes; ++word) {
    Use& use = uses_[word];
    if (use.written == interval_ && use.writer != warp) {
      findings_->insert(
          fmt::format("race: the load at {:#x} and another warp's store to one word of shared memory, "
                      "with no barrier between them",
                      place));
    }
    if (std::exchange(use.read, interval_) != interval_) use.readers = 0;
    use.readers |= Word{1} << warp;
  }
  return bytes_.data() + address;
}

std::byte* SharedMemory::store(int warp, Wide address, int bytes, int place) {
  check(address, bytes, place);
  for (Wide word = address / kWordBytes; word <= (address + static_cast<Wide>(bytes) - 1) / kWordBytes; ++word) {
    Use& use = uses_[word];
    const bool others_wrote = use.written == interval_ && use.writer != warp;
    const bool others_read = use.read == interval_ && (use.readers & ~(Word{1} << warp)) != 0;
    if (others_wrote || others_read) {
      findings_->insert(
          fmt::format("race: the store at {:#x} and another warp's {} of one word of shared memory, "
                      "with no barrier between them",
                      place, others_wrote ? "store" : "load"));
    }
    use.written = interval_;
    use.writer = warp;
  }
  return bytes_.data() + address;
}

}  // namespace weft::machine
