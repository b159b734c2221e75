#include "compiler/ring/owners.h"

#include <gtest/gtest.h>

/// Who owns which tokens: by the formulas of semantics section 9, and every token once.
namespace weft::ring {
namespace {

/// The rank of each token; -1 where nobody owns it, -2 where two do.
std::vector<std::int64_t> ranks_of(const OwnerMap& map) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(map.tokens), -1);
  for (std::int64_t g = 0; g < map.ranks(); ++g) {
    for (const auto& run : map.runs[static_cast<std::size_t>(g)]) {
      for (std::int64_t i = 0; i < run.count; ++i) {
        auto& at = out[static_cast<std::size_t>(run.first + i * run.stride)];
        at = at == -1 ? g : -2;
      }
    }
  }
  return out;
}

std::int64_t piece_of(std::int64_t x, std::int64_t pieces, std::int64_t n) {
  std::int64_t piece = 0;
  while ((piece + 1) * n / pieces <= x) ++piece;
  return piece;
}

TEST(Owners, LayoutsAreThoseOfTheSemantics) {
  for (std::int64_t n : {1, 5, 16, 97}) {
    for (std::int64_t ranks : {1, 2, 3, 7, 16, 20}) {
      const auto contiguous = ranks_of(owners(ir::RingLayout::contiguous, n, ranks));
      const auto zigzag = ranks_of(owners(ir::RingLayout::zigzag, n, ranks));
      const auto striped = ranks_of(owners(ir::RingLayout::striped, n, ranks));
      for (std::int64_t x = 0; x < n; ++x) {
        const auto at = static_cast<std::size_t>(x);
        EXPECT_EQ(contiguous[at], piece_of(x, ranks, n));
        const auto piece = piece_of(x, 2 * ranks, n);
        EXPECT_EQ(zigzag[at], piece < ranks ? piece : 2 * ranks - 1 - piece);
        EXPECT_EQ(striped[at], x % ranks);
      }
    }
  }
}

TEST(Owners, SnakesDealEveryTokenOnce) {
  for (std::int64_t n : {1, 64, 1000, 4099}) {
    for (std::int64_t ranks : {1, 5, 8, 13}) {
      for (std::int64_t group : {1, 2, 4, 13}) {
        for (std::int64_t rounds : {1, 2, 4}) {
          const auto map = snake(n, ranks, std::min(group, ranks), rounds);
          for (const auto rank : ranks_of(map)) ASSERT_GE(rank, 0) << map.name;
          for (const auto& runs : map.runs) {
            for (std::size_t i = 1; i < runs.size(); ++i) ASSERT_GT(runs[i].first, runs[i - 1].end()) << map.name;
          }
        }
      }
    }
  }
  EXPECT_EQ(snake(64, 4, 2, 2).runs[0], (Runs{{0, 8}, {24, 8}}));
  EXPECT_EQ(snake(64, 4, 4, 2).runs, owners(ir::RingLayout::zigzag, 64, 4).runs);
  EXPECT_EQ(snake(64, 4, 1, 1).runs, owners(ir::RingLayout::contiguous, 64, 4).runs);
}

TEST(Owners, ChunksGoWhereTheyAreSent) {
  const auto map = chunks(10, 3, {0, 2, 2, 1});
  EXPECT_EQ(map.runs[0], (Runs{{0, 2}}));
  EXPECT_EQ(map.runs[1], (Runs{{7, 3}}));
  EXPECT_EQ(map.runs[2], (Runs{{2, 5}}));
}

TEST(Owners, RunsMeetInProgressions) {
  for (std::int64_t a = 1; a <= 6; ++a) {
    for (std::int64_t b = 1; b <= 6; ++b) {
      for (std::int64_t first = 0; first < 7; ++first) {
        const ring::Run one{3, 9, a}, other{first, 11, b};
        std::vector<std::int64_t> wanted, got;
        for (std::int64_t x = 0; x < 100; ++x) {
          const auto in = [&](const ring::Run& r) {
            return x >= r.first && x <= r.last() && (x - r.first) % r.stride == 0;
          };
          if (in(one) && in(other)) wanted.push_back(x);
        }
        if (const auto both = common(one, other)) {
          for (std::int64_t i = 0; i < both->count; ++i) got.push_back(both->first + i * both->stride);
        }
        EXPECT_EQ(got, wanted) << a << ' ' << b << ' ' << first;
      }
    }
  }
}

}  // namespace
}  // namespace weft::ring
