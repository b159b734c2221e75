#pragma once

#include "compiler/ir/tables.h"

#include <cstdint>
#include <map>
#include <vector>

namespace weft::planner {

/// How many keys the streams and filters of some terms hit, which repeat: found by one walk over their common period.
/// A period too long to walk is estimated from some of its keys.
class KeyCounts {
 public:
  /// y in [lo, hi) that any of these terms of the pass hits.
  double count(const ir::PassTable& pass, const std::vector<int>& terms, std::int64_t lo, std::int64_t hi);

  /// Was any of the answers an estimate?
  bool estimated() const { return estimated_; }

 private:
  struct Period {
    std::int64_t length = 0;           ///< 0: too long
    std::vector<std::int32_t> before;  ///< hits in front of each place of it, and at last all
  };
  const Period& period_of(const ir::PassTable& pass, const std::vector<int>& terms);

  std::map<std::pair<const ir::PassTable*, std::vector<int>>, Period> known_;
  bool estimated_ = false;
};

}  // namespace weft::planner
