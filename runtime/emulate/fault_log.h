#pragma once

#include "runtime/emulate/report.h"

#include <utility>
#include <vector>

namespace weft::emulate {

/// Keeps the first fault of each kind on each line: a wrong index makes thousands.
class FaultLog {
 public:
  void add(Fault fault);
  bool any() const { return !faults_.empty(); }
  /// Puts all that are kept, in order of block and thread, into a report that may hold some already.
  static void merge(const FaultLog& log, Report& report);

 private:
  std::vector<Fault> faults_;
};

}  // namespace weft::emulate
