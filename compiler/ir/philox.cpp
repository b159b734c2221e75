#include "compiler/ir/philox.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

namespace weft::ir {
namespace {

/// First words of the streams, in the last counter word: one per use of random numbers.
constexpr std::uint32_t kRandomSets = 0, kDropout = 1;

std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
std::uint32_t high(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }
std::uint32_t word(std::int64_t x) { return static_cast<std::uint32_t>(x); }

}  // namespace

std::array<std::uint32_t, 20> philox_round_keys(std::uint64_t seed) {
  std::array<std::uint32_t, 20> out{low(seed), high(seed)};
  for (std::size_t i = 2; i < out.size(); ++i) out[i] = out[i - 2] + (i % 2 == 0 ? 0x9E3779B9U : 0xBB67AE85U);
  return out;
}

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> c, std::uint64_t seed) {
  const auto keys = philox_round_keys(seed);
  for (std::size_t round = 0; round < keys.size(); round += 2) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c[2];
    c = {high(p1) ^ c[1] ^ keys[round], low(p1), high(p0) ^ c[3] ^ keys[round + 1], low(p0)};
  }
  return c;
}

std::uint64_t dropout_threshold(double p) { return static_cast<std::uint64_t>(std::floor(std::ldexp(p, 32))); }

bool dropped(std::uint64_t seed, std::uint64_t threshold, std::int64_t b, std::int64_t h, std::int64_t q,
             std::int64_t k) {
  const auto words = philox({word(k / 4), word(q), word(h | b << 16), kDropout}, seed);
  return words[static_cast<std::size_t>(k % 4)] < threshold;
}

std::vector<std::int64_t> sample_keys(std::int64_t count, std::int64_t n, std::uint64_t seed, std::int64_t h,
                                      std::int64_t q) {
  std::vector<std::int64_t> keys;
  std::unordered_set<std::int64_t> taken;
  for (std::int64_t j = std::max<std::int64_t>(0, n - count); j < n; ++j) {
    const std::uint64_t drawn = philox({word(j), word(q), word(h), kRandomSets}, seed)[0];
    const auto t = static_cast<std::int64_t>((drawn * static_cast<std::uint64_t>(j + 1)) >> 32);
    const std::int64_t key = taken.contains(t) ? j : t;
    taken.insert(key);
    keys.push_back(key);
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

}  // namespace weft::ir
