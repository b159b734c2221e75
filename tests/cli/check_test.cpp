/// `weft run --check` compares what cannot be compared by a distance, and asks no more of scores than weights show.

#include "command.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cstring>
#include <limits>
#include <utility>

namespace weft::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();

/// 90 tokens, 2 heads of 16; `value` at token 40 of head 1, column 5.
std::string tensor_with(float value) {
  auto file = npy_f32({1, 90, 2, 16});
  const auto from_end = static_cast<std::size_t>(((90 - 40) * 2 - 1) * 16 - 5) * sizeof(float);
  std::memcpy(&file[file.size() - from_end], &value, sizeof(value));
  return file;
}

class Check : public ::testing::TestWithParam<const char*> {
 protected:
  Scratch scratch_;
  nlohmann::json checked(const std::string& pattern, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"run",    scratch_.write("p.weft", pattern), "--target", GetParam(), "--json",
                                          "--check"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto finished = run_weft(scratch_, arguments);
    EXPECT_EQ(finished.status, 0) << finished.err;
    const auto out = nlohmann::json::parse(finished.out, nullptr, false);
    return out.is_discarded() ? nlohmann::json() : out["check"];
  }
};

TEST_P(Check, OfInputsThatAreNotFinite) {
  const auto good = npy_f32({1, 90, 2, 16});
  const std::pair<float, std::string> values[] = {{kNan, "nan"}, {kInfinity, "inf"}, {-kInfinity, "-inf"}};
  for (const auto& [value, name] : values) {
    for (const std::size_t which : {0U, 1U, 2U}) {
      std::array<std::string, 3> files = {good, good, good};
      files[which] = tensor_with(value);
      const auto check = checked("pattern p { keep causal; }",
                                 {"--q", scratch_.write("q.npy", files[0]), "--k", scratch_.write("k.npy", files[1]),
                                  "--v", scratch_.write("v.npy", files[2])});
      const auto place = std::string(1, "QKV"[which]) + "[0, 40, 1, 5] is " + name;
      EXPECT_TRUE(check["ok"]) << place;
      EXPECT_EQ(check["not_finite"], nlohmann::json({place}));
    }
  }
}

/// Scores so far below that their weights are 0 do not loosen the bound.
TEST_P(Check, BoundsByScoresThatCount) {
  const auto check = checked("pattern p { score select(k <= q - 3, s, -1e9); }",
                             {"--tokens", "90", "--heads", "1", "--dim", "16", "--dtype", "f32"});
  EXPECT_TRUE(check["ok"]);
  const auto masked = checked("pattern p { score select(k % 3 == 0, s, -1e9); }",
                              {"--tokens", "90", "--heads", "1", "--dim", "16", "--dtype", "f32"});
  EXPECT_TRUE(masked["ok"]);
  EXPECT_LT(masked["bound"], 1e-3);
}

INSTANTIATE_TEST_SUITE_P(On, Check, ::testing::Values("cpu", "interpreter", "emulate:sm_61"),
                         [](const auto& of) { return std::string(of.param).substr(0, 7); });

}  // namespace
}  // namespace weft::test
