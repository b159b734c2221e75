#include "runtime/emulate/report.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace weft::emulate {
namespace {

std::vector<LineTraffic> joined(const std::vector<LineTraffic>& a, const std::vector<LineTraffic>& b) {
  std::map<int, Traffic> lines;
  for (const auto& [line, traffic] : a) lines[line] += traffic;
  for (const auto& [line, traffic] : b) lines[line] += traffic;
  std::vector<LineTraffic> out;
  for (const auto& [line, traffic] : lines) out.push_back({line, traffic});
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& x, const auto& y) { return x.traffic.conflicts > y.traffic.conflicts; });
  return out;
}

}  // namespace

const char* name(FaultKind kind) {
  switch (kind) {
    case FaultKind::out_of_bounds:
      return "out of bounds";
    case FaultKind::read_only:
      return "read only";
    case FaultKind::stale:
      return "stale";
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
    case FaultKind::pending_copy:
      return "copy that nobody waits for";
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

void Report::add(Fault fault) {
  const auto same = std::find_if(faults.begin(), faults.end(), [&](const Fault& known) {
    return std::tie(known.kind, known.line, known.site, known.region) ==
           std::tie(fault.kind, fault.line, fault.site, fault.region);
  });
  if (same != faults.end()) {
    same->times += fault.times;
  } else if (faults.size() < kMostFaults) {
    faults.push_back(std::move(fault));
  }
}

Report& Report::operator+=(const Report& other) {
  for (const Fault& fault : other.faults) add(fault);
  std::stable_sort(faults.begin(), faults.end(), [](const Fault& a, const Fault& b) {
    return std::tie(a.block, a.thread, a.line) < std::tie(b.block, b.thread, b.line);
  });
  blocks += other.blocks;
  barriers += other.barriers;
  warp_syncs += other.warp_syncs;
  flops += other.flops;
  shared_loads += other.shared_loads;
  shared_stores += other.shared_stores;
  global_loads += other.global_loads;
  global_stores += other.global_stores;
  shared_lines = joined(shared_lines, other.shared_lines);
  return *this;
}

}  // namespace weft::emulate
