#pragma once

#include "compiler/base/result.h"
#include "compiler/ir/tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace weft::testing {

/// The text with a fault planted: `to` in the place of `from`, which must stand there exactly once. An empty `from`
/// plants none.
inline std::string with_fault(const std::string& text, const std::string& from, const std::string& to) {
  if (from.empty()) return text;
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << "the text to change is not there: " << from;
  if (at == std::string::npos) return text;
  EXPECT_EQ(text.find(from, at + 1), std::string::npos) << "it is there twice: " << from;
  return std::string(text).replace(at, from.size(), to);
}

/// `found`: what the message of a fault says, "wrong" where only the numbers show it, empty where there is none.
inline void expect_found(const Result<ir::Outcome>& got, const ir::Outcome& want, double bound,
                         const std::string& found) {
  if (!found.empty() && found != "wrong") {
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
  if (found.empty()) {
    EXPECT_LE(worst, bound);
  } else {
    EXPECT_GT(worst, bound) << "the numbers are right";
  }
}

}  // namespace weft::testing
