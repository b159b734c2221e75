#include "runtime/emulate/fault_log.h"

#include <algorithm>
#include <tuple>

namespace weft::emulate {
namespace {

void add_to(std::vector<Fault>& faults, Fault fault) {
  const auto same = std::find_if(faults.begin(), faults.end(), [&](const Fault& known) {
    return known.kind == fault.kind && known.line == fault.line && known.region == fault.region;
  });
  if (same != faults.end()) {
    same->times += fault.times;
  } else if (faults.size() < kMostFaults) {
    faults.push_back(std::move(fault));
  }
}

}  // namespace

void FaultLog::add(Fault fault) { add_to(faults_, std::move(fault)); }

void FaultLog::merge(const FaultLog& log, Report& report) {
  for (const Fault& fault : log.faults_) add_to(report.faults, fault);
  std::sort(report.faults.begin(), report.faults.end(), [](const Fault& a, const Fault& b) {
    return std::tie(a.block, a.thread, a.line) < std::tie(b.block, b.thread, b.line);
  });
}

}  // namespace weft::emulate
