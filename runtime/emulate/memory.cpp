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

bool holds(const Region& region, const void* at, std::int64_t size) {
  const std::uint64_t offset = address_of(at) - address_of(region.begin);  // wraps below the region
  const auto bytes = static_cast<std::uint64_t>(region.bytes), wanted = static_cast<std::uint64_t>(size);
  return offset < bytes && wanted <= bytes - offset;
}

std::string access_name(const Attempt& attempt) {
  return fmt::format("{} of {} byte{}", attempt.write ? "store" : "load", attempt.size, attempt.size == 1 ? "" : "s");
}

bool is_misaligned(const Attempt& attempt) {
  // A compiler may join plain accesses to one of another size, which it knows how to make.
  const bool one_instruction = attempt.size <= 16 && (attempt.size & (attempt.size - 1)) == 0;
  return one_instruction && address_of(attempt.at) % static_cast<std::uint64_t>(attempt.size) != 0;
}

std::string line_name(int line) { return line == 0 ? "a plain access" : fmt::format("line {}", line); }

}  // namespace

void Memory::AlignedFree::operator()(unsigned char* p) const { std::free(p); }

Memory::Memory(const std::vector<Region>& regions, std::int64_t shared_bytes)
    : regions_(regions), shared_bytes_(shared_bytes), races_(shared_bytes) {
  const auto size = (static_cast<std::size_t>(shared_bytes) / kSharedAlignment + 1) * kSharedAlignment;
  shared_.reset(static_cast<unsigned char*>(std::aligned_alloc(kSharedAlignment, size)));
}

void Memory::poison() { std::memset(shared(), 0xFF, static_cast<std::size_t>(shared_bytes_)); }

std::optional<Fault> Memory::check(const Attempt& attempt, const Moment& now) {
  return attempt.space == Space::shared ? check_shared(attempt, now) : check_global(attempt);
}

std::optional<Fault> Memory::check_global(const Attempt& attempt) {
  if (last_ == nullptr || !holds(*last_, attempt.at, attempt.size)) {
    auto after = std::upper_bound(regions_.begin(), regions_.end(), address_of(attempt.at),
                                  [](std::uint64_t at, const Region& r) { return at < address_of(r.begin); });
    if (after == regions_.begin() || !holds(*std::prev(after), attempt.at, attempt.size)) return outside(attempt);
    last_ = &*std::prev(after);
  }
  const std::uint64_t offset = address_of(attempt.at) - address_of(last_->begin);
  const auto fault = [&](FaultKind kind, const char* why) {
    Fault out{.kind = kind, .address = address_of(attempt.at), .region = last_->name};
    out.text = fmt::format("{} at offset {} of `{}` {}", access_name(attempt), offset, last_->name, why);
    return out;
  };
  if (is_misaligned(attempt)) return fault(FaultKind::misaligned, "is misaligned");
  if (attempt.write && !last_->writable) return fault(FaultKind::read_only, "which the kernel may only read");
  return std::nullopt;
}

std::optional<Fault> Memory::check_shared(const Attempt& attempt, const Moment& now) {
  const auto offset = static_cast<std::int64_t>(shared_offset(attempt.at));
  const auto fault = [&](FaultKind kind, const std::string& why) {
    Fault out{.kind = kind, .address = static_cast<std::uint64_t>(offset), .region = kSharedName};
    out.text = fmt::format("{} at offset {} of shared memory {}", access_name(attempt), offset, why);
    return out;
  };
  if (offset < 0 || offset > shared_bytes_ - attempt.size) {
    return fault(FaultKind::out_of_bounds, fmt::format("which has {} bytes", shared_bytes_));
  }
  if (is_misaligned(attempt)) return fault(FaultKind::misaligned, "is misaligned");
  const auto conflict = races_.access(offset, attempt.size, attempt.write, attempt.site.line, now);
  if (!conflict) return std::nullopt;
  return fault(FaultKind::race,
               fmt::format("races with a {} by thread {} ({}): nothing orders them", conflict->write ? "store" : "load",
                           conflict->thread, line_name(conflict->line)));
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
