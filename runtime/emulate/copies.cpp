/// The part of the scheduler that lets copies take their time.

#include "runtime/emulate/scheduler.h"

#include <cstring>

namespace weft::emulate {

using weft_emulated::Site;
using weft_emulated::Space;

namespace {

/// The two accesses of a copy are requests of their own.
Site at_shared(Site site) { return {static_cast<const unsigned char*>(site.address) + 1, site.line}; }

}  // namespace

/// The bytes are held back, and the place holds what is no value: whoever reads it before it was waited for is wrong,
/// and a race with the waiting that follows.
void Scheduler::copy(void* to, const void* from, unsigned bytes, Site site) {
  Copy copy{.to = to, .site = at_shared(site)};
  auto* const data = copy.bytes.data();
  if (bytes > 0) access({Space::read_only, from, bytes, false, site}, data, static_cast<const unsigned char*>(from));
  const Attempt store{Space::shared, to, static_cast<std::int64_t>(copy.bytes.size()), true, copy.site};
  if (!permitted(store)) return;
  if (count_) count_access(store);
  std::memset(to, 0xFF, copy.bytes.size());
  fibers_[static_cast<std::size_t>(current())].copies.push_back(copy);
}

void Scheduler::finish_copies() {
  auto& copies = fibers_[static_cast<std::size_t>(current())].copies;
  for (const Copy& copy : copies) {
    const auto size = static_cast<std::int64_t>(copy.bytes.size());
    if (permitted({Space::shared, copy.to, size, true, copy.site}))
      std::memcpy(copy.to, copy.bytes.data(), copy.bytes.size());
  }
  copies.clear();
}

}  // namespace weft::emulate
