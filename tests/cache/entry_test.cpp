#include "kernels_cache/entry.h"

#include "compiler/base/digest.h"
#include "tests/cache/fixture.h"

#include <random>

namespace weft::cache {
namespace {

std::string sample() { return encode(sample_key().text(), sample_entry()); }

/// A file with a right digest at its end, so that the checks behind the digest are reached.
std::string sealed(std::string bytes) {
  bytes.resize(bytes.size() - sizeof(Sha256));
  const Sha256 digest = sha256(bytes);
  return bytes.append(reinterpret_cast<const char*>(digest.data()), digest.size());
}

TEST(Entry, ComesBackAsItWas) {
  Entry bare;
  Entry odd = sample_entry();
  odd.binary = std::string("\0\xFF\n", 3) + std::string(100000, 'x');
  odd.registers = 255;
  odd.spill_bytes.reset();
  odd.value = "1.5";
  odd.words = "half as much again";
  for (const Entry& entry : {bare, sample_entry(), odd}) {
    const auto decoded = decode(encode("some key\n", entry));
    ASSERT_TRUE(decoded.ok()) << decoded.error().message;
    EXPECT_EQ(decoded->entry, entry);
    EXPECT_EQ(decoded->key_text, "some key\n");
  }
  EXPECT_EQ(sample(), sample());
}

TEST(Entry, TheLayoutIsFixed) {
  const std::string bytes = encode("KEY", {.binary = "B", .source = "SS"});
  EXPECT_EQ(bytes.substr(0, 8), "WEFTKERN");
  EXPECT_EQ(bytes.substr(8, 8), std::string("\2\0\0\0\7\0\0\0", 8));
  EXPECT_EQ(bytes.size(), 32 + 3 + 7 * 56 + 1 + 2 + 24 + 32U);
  EXPECT_EQ(static_cast<unsigned char>(bytes[16]), bytes.size() & 0xFF);
  EXPECT_EQ(static_cast<unsigned char>(bytes[17]), bytes.size() >> 8);
  EXPECT_EQ(bytes.substr(24, 8), std::string("\3\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(bytes.substr(32, 3), "KEY");
  EXPECT_EQ(bytes.substr(32 + 3 + 7 * 56, 3), "BSS");
}

TEST(Entry, NoFlippedBitIsRead) {
  const std::string bytes = sample();
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(decode(flipped).ok()) << "bit " << bit;
  }
}

// The digest catches accidents. This is about what is behind it: bytes changed together with it.
TEST(Entry, AFlippedBitUnderARightDigestIsSeenByTheSections) {
  const std::string bytes = sample();
  const std::string key_text = sample_key().text();
  ASSERT_EQ(sealed(bytes), bytes);
  std::size_t read = 0;
  for (std::size_t bit = 0; bit < (bytes.size() - sizeof(Sha256)) * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    const auto decoded = decode(sealed(flipped), Check::file_and_sections);
    if (!decoded.ok()) continue;
    ++read;
    EXPECT_EQ(decoded->entry, sample_entry());
    EXPECT_NE(decoded->key_text, key_text) << "only the key's text may differ, and get() compares that";
  }
  EXPECT_EQ(read, key_text.size() * 8);
}

TEST(Entry, NoTruncationOrExtensionIsRead) {
  const std::string bytes = sample();
  for (std::size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(decode(bytes.substr(0, size)).ok()) << size;
  EXPECT_FALSE(decode(bytes + '\0').ok());
  EXPECT_FALSE(decode(bytes + bytes).ok());
}

TEST(Entry, LyingLengthsUnderARightDigestAreErrors) {
  const std::string bytes = sample();
  const std::uint64_t values[] = {0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 1ULL << 63, ~0ULL, ~0ULL - 31, bytes.size()};
  for (std::size_t at = 8; at + 8 <= 32 + sample_key().text().size() + 7 * 56; at += 4) {
    for (const std::uint64_t value : values) {
      std::string lying = bytes;
      std::copy_n(reinterpret_cast<const char*>(&value), 8, lying.begin() + static_cast<std::ptrdiff_t>(at));
      const auto decoded = decode(sealed(lying), Check::file_and_sections);
      (void)decode(sealed(lying));  // for the sanitizers
      if (decoded.ok()) {
        EXPECT_EQ(decoded->entry, sample_entry()) << at;
      }
    }
  }
}

TEST(Entry, BytesOfNoSectionAreAnError) {
  std::string bytes = sample();
  bytes.insert(bytes.size() - sizeof(Sha256), 1, 'x');
  bytes[16] = static_cast<char>(bytes.size() & 0xFF);
  bytes[17] = static_cast<char>(bytes.size() >> 8);
  const auto decoded = decode(sealed(bytes));
  ASSERT_FALSE(decoded.ok());
  EXPECT_NE(decoded.error().message.find("no section"), std::string::npos) << decoded.error().message;
}

TEST(Entry, RandomBytesAreNoEntry) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes(random() % 600, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    if (bytes.size() >= 12 && round % 2 == 0) bytes.replace(0, 12, std::string("WEFTKERN\2\0\0\0", 12));
    if (bytes.size() > sizeof(Sha256) && round % 4 == 0) bytes = sealed(bytes);
    EXPECT_FALSE(decode(bytes).ok());
  }
}

TEST(Entry, OtherFormatsAreRecognised) {
  std::string other = sample();
  other[8] = 9;
  EXPECT_EQ(format_of(other), 9U);
  EXPECT_EQ(format_of(sample()), kFormat);
  EXPECT_FALSE(format_of("WEFT").has_value());
  EXPECT_FALSE(format_of("ELF, surely no entry").has_value());
}

}  // namespace
}  // namespace weft::cache
