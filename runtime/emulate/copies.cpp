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
void Scheduler::copy(void* to, const void* from, unsigned bytes, unsigned size, Site site) {
  Copy copy{.to = to, .size = size, .site = at_shared(site)};
  auto* const data = copy.bytes.data();
  if (bytes > 0) access({Space::global, from, bytes, false, site}, data, static_cast<const unsigned char*>(from));
  const Attempt store{Space::shared, to, static_cast<std::int64_t>(size), true, copy.site};
  if (!permitted(store)) return;
  if (count_) count_access(store);
  std::memset(to, 0xFF, size);
  fibers_[static_cast<std::size_t>(current())].copies.push_back(copy);
}

void Scheduler::finish_copies() {
  auto& copies = fibers_[static_cast<std::size_t>(current())].copies;
  for (const Copy& copy : copies) {
    const Attempt store{Space::shared, copy.to, static_cast<std::int64_t>(copy.size), true, copy.site};
    if (permitted(store)) std::memcpy(copy.to, copy.bytes.data(), copy.size);
  }
  copies.clear();
}

}  // namespace weft::emulate
