#pragma once

#include <gtest/gtest.h>

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

}  // namespace weft::testing
