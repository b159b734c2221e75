#include "runtime/emulate/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace weft::emulate {
namespace {

using weft_emulated::Space;

constexpr std::size_t kSharedAlignment = 1024;
constexpr const char* kSharedName = "shared memory";

std::uint64_t address_of(const void* at) { return reinterpret_cast<std::uint64_t>(at); }

std::string access_name(const Attempt& attempt) {
  return fmt::format("{} of {} byte{}", attempt.write ? "store" : "load", attempt.size, attempt.size == 1 ? "" : "s");
}

}  // namespace

void Memory::AlignedFree::operator()(unsigned char* p) const { std::free(p); }

Memory::Memory(const std::vector<Region>& regions, std::int64_t shared_bytes)
    : regions_(regions), shared_bytes_(shared_bytes), races_(shared_bytes) {
  const auto size = (static_cast<std::size_t>(shared_bytes) / kSharedAlignment + 1) * kSharedAlignment;
  shared_.reset(static_cast<unsigned char*>(std::aligned_alloc(kSharedAlignment, size)));
}

void Memory::poison() { std::memset(shared(), 0xFF, static_cast<std::size_t>(shared_bytes_)); }

bool Memory::holds(const Region& region, const void* at, std::int64_t size) {
  const std::uint64_t offset = address_of(at) - address_of(region.begin);  // wraps below the region
  const auto bytes = static_cast<std::uint64_t>(region.bytes), wanted = static_cast<std::uint64_t>(size);
  return offset < bytes && wanted <= bytes - offset;
}

bool Memory::is_misaligned(const Attempt& attempt) {
  // A compiler may join plain accesses to one of another size, which it knows how to make.
  const auto size = static_cast<std::uint64_t>(attempt.size);
  return (address_of(attempt.at) & (size - 1)) != 0 && size <= 16 && (size & (size - 1)) == 0;
}

const Region* Memory::find(const Attempt& attempt) const {
  const auto after = std::upper_bound(regions_.begin(), regions_.end(), address_of(attempt.at),
                                      [](std::uint64_t at, const Region& r) { return at < address_of(r.begin); });
  if (after == regions_.begin()) return nullptr;
  const Region& region = *std::prev(after);
  return holds(region, attempt.at, attempt.size) ? &region : nullptr;
}

std::optional<FaultKind> Memory::check_global(const Attempt& attempt) {
  if (last_ == nullptr || !holds(*last_, attempt.at, attempt.size)) {
    const Region* found = find(attempt);
    if (found == nullptr) return FaultKind::out_of_bounds;
    last_ = found;
  }
  if (is_misaligned(attempt)) return FaultKind::misaligned;
  if (attempt.write && !last_->writable) return FaultKind::read_only;
  if (attempt.space == Space::read_only && last_->writable) return FaultKind::stale;
  return std::nullopt;
}

std::optional<FaultKind> Memory::check_shared(const Attempt& attempt, const Moment& now) {
  const auto offset = static_cast<std::int64_t>(shared_offset(attempt.at));
  if (offset < 0 || offset > shared_bytes_ - attempt.size) return FaultKind::out_of_bounds;
  if (is_misaligned(attempt)) return FaultKind::misaligned;
  const auto conflict = races_.access(offset, attempt.size, attempt.write, attempt.site.address, now);
  if (!conflict) return std::nullopt;
  conflict_ = *conflict;
  return FaultKind::race;
}

Fault Memory::describe(FaultKind kind, const Attempt& attempt) const {
  Fault out =
      attempt.space != Space::shared && kind == FaultKind::out_of_bounds ? outside(attempt) : inside(kind, attempt);
  out.site = attempt.site.address;
  return out;
}

/// Within a region, or next to shared memory.
Fault Memory::inside(FaultKind kind, const Attempt& attempt) const {
  const bool shared = attempt.space == Space::shared;
  Fault out{.kind = kind, .address = address_of(attempt.at), .region = shared ? kSharedName : last_->name};
  const std::uint64_t offset = shared ? shared_offset(attempt.at) : out.address - address_of(last_->begin);
  if (shared) out.address = offset;
  std::string why = "is misaligned";
  if (kind == FaultKind::out_of_bounds) why = fmt::format("which has {} bytes", shared_bytes_);
  if (kind == FaultKind::stale) why = "by the read-only path, which the kernel may write";
  if (kind == FaultKind::read_only) why = "which the kernel may only read";
  if (kind == FaultKind::race) {
    why = fmt::format("races with a {} by thread {}: nothing orders them", conflict_.write ? "store" : "load",
                      conflict_.thread);
    out.other_site = conflict_.site;
  }
  const std::string where = shared ? kSharedName : fmt::format("`{}`", last_->name);
  out.text =
      fmt::format("{} at offset {} of {} {}", access_name(attempt), static_cast<std::int64_t>(offset), where, why);
  return out;
}

/// Tells where the address lies next to: that is nearly always the overrun tensor.
Fault Memory::outside(const Attempt& attempt) const {
  const std::uint64_t at = address_of(attempt.at);
  Fault out{.kind = FaultKind::out_of_bounds, .address = at};
  if (is_shared(attempt.at)) {
    out.region = kSharedName;
    out.text = fmt::format("{} of global memory at an address of shared memory", access_name(attempt));
    return out;
  }
  std::uint64_t best = UINT64_MAX;
  std::string where = "far from every region";
  for (const Region& region : regions_) {
    const std::uint64_t begin = address_of(region.begin), end = begin + static_cast<std::uint64_t>(region.bytes);
    const std::uint64_t gap = at < begin ? begin - at : at >= end ? at - end : 0;
    if (gap >= best || gap > (1U << 30)) continue;
    best = gap;
    out.region = region.name;
    where = at < begin  ? fmt::format("{} bytes before `{}`", gap, region.name)
            : at >= end ? fmt::format("{} bytes behind the end of `{}`", gap, region.name)
                        : fmt::format("across the end of `{}`", region.name);
  }
  out.text = fmt::format("{} at address {:#x}, {}", access_name(attempt), at, where);
  return out;
}

}  // namespace weft::emulate
