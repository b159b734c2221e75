#include "compiler/base/digest.h"
#include "kernels_cache/entry.h"
#include "tests/cache/fixture.h"
#include "tests/cache/processes.h"

#include <random>

/// R5: no damage to an entry gives a kernel. (tests/cache flips each bit and cuts at each byte of one in a store.)
namespace weft::store_test {
namespace {

using cache::Check;
using cache::decode;

std::string sample(const std::string& variant) {
  return cache::encode(cache::sample_key(variant).text(), cache::sample_entry(variant));
}

TEST(Damage, EveryBitAndEveryLength) {
  const std::string bytes = sample("a");
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    ASSERT_FALSE(decode(flipped).ok()) << bit;
  }
  for (std::size_t size = 0; size < bytes.size(); ++size) ASSERT_FALSE(decode(bytes.substr(0, size)).ok()) << size;
  ASSERT_TRUE(decode(bytes).ok()) << "the control";
  cache::counted(bytes.size() * 8, "bits flipped");
  cache::counted(bytes.size(), "truncations");
}

/// A piece of one entry over a piece of another, or of itself, of any lengths.
TEST(Damage, RandomSplices) {
  const std::string entries[] = {sample("a"), sample("b"), sample("a longer one than those")};
  std::mt19937_64 random(11);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % (n + 1)); };
  std::size_t spliced = 0, same = 0;
  while (spliced < 100'000) {
    const std::string& onto = entries[random() % 3];
    const std::string& from = entries[random() % 3];
    std::string bytes = onto;
    const std::size_t at = below(onto.size()), begin = below(from.size());
    const std::size_t taken = random() % 2 == 0 ? below(16) : below(from.size());
    bytes.replace(at, random() % 2 == 0 ? taken : below(onto.size()), from, begin, taken);
    const bool whole = bytes == entries[0] || bytes == entries[1] || bytes == entries[2];
    ASSERT_EQ(decode(bytes).ok(), whole);
    ASSERT_EQ(decode(bytes, Check::file_and_sections).ok(), whole);
    spliced += whole ? 0U : 1U;
    same += whole ? 1U : 0U;
  }
  EXPECT_GT(same, 10U) << "the control: a splice that changes nothing is read";
  cache::counted(spliced, "splices");
}

/// The control of the digest: of a format without one, which a part of these tests is, damage is read.
TEST(Damage, WithoutTheDigestItWouldBeRead) {
  const std::string bytes = sample("a");
  std::size_t read = 0;
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    flipped.resize(flipped.size() - sizeof(Sha256));
    const Sha256 digest = sha256(flipped);
    flipped.append(reinterpret_cast<const char*>(digest.data()), digest.size());
    const auto decoded = decode(flipped);
    read += decoded.ok() && !(decoded->entry == cache::sample_entry("a")) ? 1U : 0U;
  }
  EXPECT_GT(read, 100U);
}

}  // namespace
}  // namespace weft::store_test
