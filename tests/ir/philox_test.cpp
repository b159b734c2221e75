#include "compiler/ir/philox.h"
#include "tests/support/places.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <set>

namespace weft::ir {
namespace {

TEST(Philox, PublishedWords) {
  std::ifstream file(test::in_checkout("tests/golden/philox/case.json"));
  const auto values = nlohmann::json::parse(file).at("values");
  ASSERT_GT(values.size(), 3U);
  for (const auto& value : values) {
    const auto key = value.at("key").get<std::array<std::uint32_t, 2>>();
    EXPECT_EQ(philox(value.at("counter").get<std::array<std::uint32_t, 4>>(), key[0] | std::uint64_t{key[1]} << 32),
              (value.at("words").get<std::array<std::uint32_t, 4>>()));
  }
}

TEST(Philox, SamplesAreDistinctAndUniform) {
  std::vector<int> drawn(50);
  for (std::int64_t q = 0; q < 2000; ++q) {
    const auto keys = sample_keys(10, 50, 7, 3, q);
    EXPECT_EQ(std::set<std::int64_t>(keys.begin(), keys.end()).size(), 10U);
    for (const auto k : keys) ++drawn.at(static_cast<std::size_t>(k));
  }
  EXPECT_GT(*std::min_element(drawn.begin(), drawn.end()), 320);
  EXPECT_LT(*std::max_element(drawn.begin(), drawn.end()), 480);
}

/// Released values: kernels, caches and users' runs depend on them.
TEST(Philox, StableValues) {
  EXPECT_EQ(sample_keys(4, 64, 7, 0, 5), (std::vector<std::int64_t>{8, 17, 42, 51}));
  std::string bits;
  for (std::int64_t k = 0; k < 16; ++k) bits += dropped(1, dropout_threshold(0.5), 1, 2, 3, k) ? '1' : '0';
  EXPECT_EQ(bits, "1111100100010101");
}

}  // namespace
}  // namespace weft::ir
