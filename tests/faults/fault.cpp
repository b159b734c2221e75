#include "tests/faults/fault.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace weft::test {

void expect_found(const Result<ir::Outcome>& got, const ir::Outcome& want, double bound, const std::string& found) {
  if (found != kByNumbers && found != kByNothing) {
    ASSERT_FALSE(got.ok()) << "nothing was found";
    EXPECT_NE(got.error().message.find(found), std::string::npos) << got.error().message;
    return;
  }
  ASSERT_TRUE(got.ok()) << got.error().message;
  double worst = 0;
  for (std::size_t i = 0; i < want.o.data.size(); ++i) {
    const double apart = std::abs(got->o.data[i] - want.o.data[i]);
    worst = std::isnan(apart) ? HUGE_VAL : std::max(worst, apart);
  }
  if (found == kByNothing) {
    EXPECT_LE(worst, bound);
  } else {
    EXPECT_GT(worst, bound) << "the numbers are right";
  }
}

std::set<std::string>& planted_by_tables() {
  static std::set<std::string> names;
  return names;
}

}  // namespace weft::test
