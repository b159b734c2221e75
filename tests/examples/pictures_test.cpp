#include "tests/golden/case.h"
#include "tests/golden/ways.h"
#include "tests/support/places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

/// Examples that no library's values stand for: against their definition, spelled out here in another way.
namespace weft::golden {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

ir::Pattern example(const char* file, const char* name, const std::vector<const char*>& texts) {
  ir::Params params;
  for (const char* text : texts) params.insert(ir::parse_param(text).value());
  const auto pattern =
      pattern_of(std::filesystem::path(test::in_checkout("examples")) / (std::string(file) + ".weft"), name, params);
  EXPECT_TRUE(pattern.ok()) << pattern.error().message;
  return *pattern;
}

/// One token a block: the kept pairs of head 0 as text, a row a query.
std::string picture(const ir::Pattern& pattern, std::int64_t n) {
  const ir::Shape shape{.batch = 1, .n_q = n, .n_k = n, .heads = 1, .kv_heads = 1, .d = 1, .d_v = 1};
  const ir::InputValues no_inputs;
  const ir::PairEvaluator meaning(pattern, shape, no_inputs);
  std::string out;
  for (std::int64_t q = 0; q < n; ++q) {
    for (std::int64_t k = 0; k < n; ++k) out += meaning.multiplicity(0, 0, q, k) > 0 ? '#' : '.';
    out += '\n';
  }
  return out;
}

TEST(Pictures, Hierarchical) {
  EXPECT_EQ(picture(example("hierarchical", "hierarchical", {"block=1", "near=1", "far=3"}), 18),
            "##################\n"
            "###...............\n"
            ".###..............\n"
            "..###.............\n"
            ".#######..........\n"
            "....###...........\n"
            ".....###..........\n"
            "......###.........\n"
            ".....#######......\n"
            "........###.......\n"
            ".........###......\n"
            "..........###.....\n"
            ".........#######..\n"
            "............###...\n"
            ".............###..\n"
            "..............###.\n"
            "##################\n"
            "................##\n");
}

TEST(Pictures, StreamingLlm) {
  EXPECT_EQ(picture(example("streaming_llm", "streaming_llm", {"sinks=2", "recent=1"}), 7),
            "#......\n"
            "##.....\n"
            "###....\n"
            "####...\n"
            "##.##..\n"
            "##..##.\n"
            "##...##\n");
}

TEST(Pictures, BigBirdDrawsBlocks) {
  const ir::Pattern drawn = example("bigbird", "bigbird", {"block=4"});
  const ir::Pattern fixed = example("bigbird", "bigbird", {"block=4", "drawn=0"});
  const ir::Shape shape{.batch = 1, .n_q = 256, .n_k = 256, .heads = 2, .kv_heads = 2, .d = 1, .d_v = 1};
  const ir::InputValues none;
  const ir::PairEvaluator with(drawn, shape, none), without(fixed, shape, none);
  int extra = 0, different = 0;
  for (std::int64_t q = 4; q < 256; q += 4) {
    int in_row = 0;
    for (std::int64_t k = 0; k < 256; k += 4) {
      EXPECT_GE(with.multiplicity(0, 0, q, k), without.multiplicity(0, 0, q, k));
      EXPECT_EQ(with.multiplicity(0, 0, q, k), with.multiplicity(0, 0, q + 3, k + 3));
      in_row += with.multiplicity(0, 0, q, k) - without.multiplicity(0, 0, q, k);
      different += with.multiplicity(0, 0, q, k) != with.multiplicity(0, 1, q, k);
    }
    EXPECT_LE(in_row, 3);
    extra += in_row;
  }
  EXPECT_GT(extra, 2 * 63);
  EXPECT_GT(different, 2 * 63);
}

// ---------------------------------------------------------------- adaptive

constexpr std::int64_t kBlock = 8, kTokens = 60, kBlocks = 8, kCount = 3, kHeads = 2;

ir::Tensor normal(std::vector<std::int64_t> shape, unsigned seed) {
  ir::Tensor t(std::move(shape));
  std::mt19937_64 random(seed);
  for (auto& value : t.data) value = static_cast<double>(random() % 2001) / 500 - 2;
  return t;
}

/// Mean of each block's rows, [B, blocks, H, d].
ir::Tensor means(const ir::Tensor& t) {
  ir::Tensor out({t.shape[0], kBlocks, t.shape[2], t.shape[3]});
  for (std::int64_t x = 0; x < kTokens; ++x) {
    const std::int64_t block = x / kBlock;
    const auto rows = static_cast<double>(std::min(kBlock, kTokens - block * kBlock));
    for (std::int64_t b = 0; b < t.shape[0]; ++b) {
      for (std::int64_t h = 0; h < t.shape[2]; ++h) {
        for (std::int64_t i = 0; i < t.shape[3]; ++i) out.at(b, block, h, i) += t.at(b, x, h, i) / rows;
      }
    }
  }
  return out;
}

/// The blocks that a block of queries keeps: itself, and of those before it the best.
std::vector<bool> kept_blocks(std::vector<double> scores, std::int64_t own) {
  scores[static_cast<std::size_t>(own)] = kInfinity;
  std::vector<std::int64_t> order(static_cast<std::size_t>(own) + 1);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto x, auto y) {
    return scores[static_cast<std::size_t>(x)] > scores[static_cast<std::size_t>(y)];
  });
  order.resize(std::min<std::size_t>(order.size(), kCount));
  std::vector<bool> kept(kBlocks);
  for (const auto block : order) kept[static_cast<std::size_t>(block)] = true;
  return kept;
}

using BlockScore = std::function<double(std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k)>;

void expect_best_blocks(const ir::PairEvaluator& meaning, const BlockScore& score) {
  for (std::int64_t row = 0; row < 2 * kHeads * kTokens; ++row) {
    const std::int64_t b = row / (kHeads * kTokens), h = row / kTokens % kHeads, q = row % kTokens;
    std::vector<double> scores;
    for (std::int64_t k = 0; k < kBlocks; ++k) scores.push_back(score(b, h, q / kBlock, k));
    const auto kept = kept_blocks(scores, q / kBlock);
    for (std::int64_t k = 0; k < kTokens; ++k) {
      const bool wanted = k <= q && kept[static_cast<std::size_t>(k / kBlock)];
      ASSERT_EQ(meaning.multiplicity(b, h, q, k) == 1, wanted) << "b " << b << " h " << h << " q " << q << " k " << k;
    }
  }
}

const ir::Shape kAdaptive{.batch = 2, .n_q = kTokens, .n_k = kTokens, .heads = kHeads, .kv_heads = 1, .d = 5, .d_v = 1};

TEST(Pictures, AdaptiveKeepsTheBestBlocks) {
  const ir::Tensor q = normal({2, kTokens, kHeads, 5}, 1), k = normal({2, kTokens, 1, 5}, 2);
  const ir::Tensor q_means = means(q), k_means = means(k);
  const ir::Pattern pattern = example("adaptive", "adaptive", {"block=8", "count=3"});
  expect_best_blocks({pattern, kAdaptive, {}, &q, &k}, [&](auto b, auto h, auto x, auto y) {
    double dot = 0;
    for (std::int64_t i = 0; i < 5; ++i) dot += q_means.at(b, x, h, i) * k_means.at(b, y, 0, i);
    return dot;
  });
}

TEST(Pictures, AdaptiveByTheCallersScores) {
  const ir::InputValues scores = {normal({2, kHeads, kBlocks, kBlocks}, 3)};
  const ir::Pattern pattern = example("adaptive", "adaptive_scored", {"block=8", "count=3"});
  expect_best_blocks({pattern, kAdaptive, scores},
                     [&](auto b, auto h, auto x, auto y) { return scores[0].at(b, h, x, y); });
}

}  // namespace
}  // namespace weft::golden
