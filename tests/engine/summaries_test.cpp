#include "tests/engine/problem.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

/// The prepass that summarizes conditions, through the library: what it fills in must hide no key that is kept.
namespace weft::test {
namespace {

constexpr std::int64_t kBatch = 2, kQueries = 70, kKeys = 4500, kHeads = 2, kDim = 16;
constexpr const char* kText =
    "pattern ordered { input t: i32[batch, tokens]; keep where(t[b, k] <= t[b, q]); }\n"
    "pattern documents { input t: i32[batch, tokens]; keep causal & document(t); }\n"
    "pattern by_head { input t: i32[heads, tokens]; keep where(t[h, k] == t[h, q]); }\n"
    "pattern shared { input t: i32[tokens]; keep where(t[k] == t[q]) | window(3, 3); }\n"
    "pattern masked { input m: u8[heads, queries, tokens]; keep where(m[h, q, k] != 0); }\n"
    "pattern free { input m: u8[batch, queries, tokens]; keep causal & !where(m[b, q, k] == 1); }\n";

/// Documents that begin inside blocks; that of the queries, which are the last rows, has keys at both ends.
struct Inputs {
  std::vector<std::int32_t> documents;
  std::vector<std::uint8_t> mask;
  Inputs() {
    for (std::int64_t i = 0; i < 2 * kKeys; ++i)
      documents.push_back(static_cast<std::int32_t>((i + kKeys / 2) % kKeys / (330 + i / kKeys)));
    for (std::int64_t i = 0; i < 2 * kQueries * kKeys; ++i) {
      const std::int64_t key = i % kKeys;
      mask.push_back(key / 64 % 5 == i / (kQueries * kKeys) && key % 3 > 0 ? 1 : 0);
    }
  }
};

class SummariesOfAnEngine : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  struct Got {
    std::vector<float> out = std::vector<float>(static_cast<std::size_t>(kBatch * kQueries * kHeads * kDim), -7);
    std::vector<float> lse = std::vector<float>(static_cast<std::size_t>(kBatch * kQueries * kHeads), -7);
  };

  Got run(const char* target) const {
    Got got;
    const std::string pattern = std::get<0>(GetParam());
    const auto kernel = engine.compile(
        kText, {.pattern = pattern, .heads = kHeads, .dim = kDim, .dtype = DType::f32, .target = target});
    EXPECT_TRUE(kernel.ok()) << (kernel.ok() ? "" : kernel.error().message);
    if (!kernel.ok()) return got;
    const NamedInput given[] = {input(pattern)};
    const auto status = kernel->run({.q = dense_view(q.data(), DType::f32, {kBatch, kQueries, kHeads, kDim}),
                                     .k = dense_view(k.data(), DType::f32, {kBatch, kKeys, kHeads, kDim}),
                                     .v = dense_view(v.data(), DType::f32, {kBatch, kKeys, kHeads, kDim}),
                                     .out = dense_output(got.out.data(), DType::f32, {kBatch, kQueries, kHeads, kDim}),
                                     .lse = dense_output(got.lse.data(), DType::f32, {kBatch, kHeads, kQueries}),
                                     .inputs = given});
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
    return got;
  }

  NamedInput input(const std::string& pattern) const {
    if (pattern == "masked" || pattern == "free")
      return {"m", dense_view(inputs.mask.data(), DType::u8, {2, kQueries, kKeys})};
    if (pattern == "shared") return {"t", dense_view(inputs.documents.data(), DType::i32, {kKeys})};
    return {"t", dense_view(inputs.documents.data(), DType::i32, {2, kKeys})};
  }

  Engine engine{{.no_cache = true}};
  Inputs inputs;
  std::vector<float> q = numbers(kBatch * kQueries * kHeads * kDim, 1), k = numbers(kBatch * kKeys * kHeads * kDim, 2),
                     v = numbers(kBatch * kKeys * kHeads * kDim, 3);
};

TEST_P(SummariesOfAnEngine, HideNoKeyThatIsKept) {
  static std::map<std::string, Got> meant;  // by pattern
  const auto known = meant.find(std::get<0>(GetParam()));
  const Got want = known != meant.end() ? known->second : (meant[std::get<0>(GetParam())] = run("interpreter"));
  const Got got = run(std::get<1>(GetParam()));
  EXPECT_LT(largest_difference(got.out, want.out), 1e-4);
  EXPECT_LT(largest_difference(got.lse, want.lse), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(On, SummariesOfAnEngine,
                         ::testing::Combine(::testing::Values("ordered", "documents", "by_head", "shared", "masked",
                                                              "free"),
                                            ::testing::Values("cpu", "emulate:sm_61")),
                         [](const auto& of) {
                           const std::string target = std::get<1>(of.param);
                           return std::string(std::get<0>(of.param)) + "_" + target.substr(0, target.find(':'));
                         });

}  // namespace
}  // namespace weft::test
