#include "runtime/emulate/report.h"

namespace weft::emulate {

const char* name(FaultKind kind) {
  switch (kind) {
    case FaultKind::out_of_bounds:
      return "out of bounds";
    case FaultKind::read_only:
      return "read only";
    case FaultKind::misaligned:
      return "misaligned";
    case FaultKind::race:
      return "race";
    case FaultKind::divergent_barrier:
      return "divergent barrier";
    case FaultKind::divergent_warp:
      return "divergent warp operation";
    case FaultKind::exited_lane:
      return "exited lane";
    case FaultKind::deadlock:
      return "deadlock";
  }
  return "fault";
}

Traffic& Traffic::operator+=(const Traffic& other) {
  requests += other.requests;
  bytes += other.bytes;
  units += other.units;
  conflicts += other.conflicts;
  return *this;
}

Traffic Report::shared() const {
  Traffic out = shared_loads;
  return out += shared_stores;
}

Traffic Report::global() const {
  Traffic out = global_loads;
  return out += global_stores;
}

}  // namespace weft::emulate
