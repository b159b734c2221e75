#include "kernels_cache/bundle/numbers.h"
#include "tests/bundle/fixture.h"

#include <sys/resource.h>

#include <ctime>
#include <functional>

/// Bundles that somebody changed, by accident or to hurt.
namespace weft::bundle {
namespace {

const std::string& small() {
  static const std::string bytes = written({sample_kernel("a", "sm_61", 60), sample_kernel("b", "sm_80", 60)});
  return bytes;
}

TEST(Damage, TheBundleItselfIsSound) { EXPECT_EQ(trouble_in(small()), ""); }

TEST(Damage, EveryFlippedBitIsFound) {
  auto bytes = small();
  std::size_t missed = 0;
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    const auto mask = static_cast<char>(1U << bit % 8);
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ mask);
    missed += trouble_in(bytes).empty();
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ mask);
  }
  EXPECT_EQ(missed, 0U) << "of " << bytes.size() * 8;
  EXPECT_GT(bytes.size(), 700U);
}

TEST(Damage, EveryTruncationIsFound) {
  for (std::size_t length = 0; length < small().size(); ++length) {
    EXPECT_NE(trouble_in(small().substr(0, length)), "") << length;
  }
  EXPECT_NE(trouble_in(small() + '\0'), "");
}

TEST(Damage, EverySpliceIsFound) {
  const auto other = written({sample_kernel("c", "sm_61", 60), sample_kernel("d", "sm_80", 70)});
  std::mt19937 random(7);
  const auto below = [&](std::size_t limit) { return std::uniform_int_distribution<std::size_t>(0, limit)(random); };
  int changed = 0;
  for (int i = 0; i < 100000; ++i) {
    auto bytes = small();
    const auto from = below(other.size() - 1), to = below(bytes.size() - 1);
    bytes.replace(to, below(64), other.substr(from, below(64)));
    if (bytes == small() || bytes == other) continue;
    ++changed;
    ASSERT_NE(trouble_in(bytes), "") << "splice " << i;
  }
  EXPECT_GT(changed, 90000);
}

/// What reads the file without its digests would believe this: every digest is that of the changed bytes.
struct Forged {
  Header header;
  std::string manifest, sections;

  std::string bytes() const {
    auto made = header;
    made.manifest_length = manifest.size();
    made.file_length = kHeaderSize + manifest.size() + sections.size();
    made.root = root_of(start_of(made), manifest);
    return encode(made) + manifest + sections;
  }
  void set(std::size_t at, std::uint32_t value) {
    std::string number;
    put(number, value);
    manifest.replace(at, 4, number);
  }
  void set_long(std::size_t at, std::uint64_t value) {
    std::string number;
    put(number, value);
    manifest.replace(at, 8, number);
  }
};

Forged forged() {
  const auto header = decode(small(), small().size(), {}).value();
  return {.header = header,
          .manifest = small().substr(kHeaderSize, header.manifest_length),
          .sections = small().substr(kHeaderSize + header.manifest_length)};
}

TEST(Damage, ForgedDigestsAloneAreNoTrouble) { EXPECT_EQ(forged().bytes(), small()); }

std::string after(const std::function<void(Forged&)>& change) {
  auto bundle = forged();
  change(bundle);
  return trouble_in(bundle.bytes());
}

TEST(Damage, ForgedManifestsAreRefused) {
  const std::size_t sections = 2 * kKernelRow;
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  EXPECT_TRUE(has(after([](Forged& f) { f.set(32, 99); }), "a name that is not there"));
  EXPECT_TRUE(has(after([](Forged& f) { f.set(52, 99); }), "a section that is not there"));
  EXPECT_TRUE(
      has(after([](Forged& f) { f.set(48, get<std::uint32_t>(f.manifest, kKernelRow + 48)); }), "share their facts"));
  EXPECT_TRUE(has(after([](Forged& f) {
                    f.manifest = f.manifest.substr(kKernelRow, kKernelRow) + f.manifest.substr(0, kKernelRow) +
                                 f.manifest.substr(2 * kKernelRow);
                  }),
                  "kernels are out of order"));
  EXPECT_TRUE(has(after([&](Forged& f) { f.set_long(sections + 32, 1ULL << 40); }), "beyond the end"));
  EXPECT_TRUE(has(after([&](Forged& f) { f.set_long(sections + 32, 0); }), "impossible length"));
  EXPECT_TRUE(has(after([&](Forged& f) { f.set_long(sections + 40, 1ULL << 40); }), "impossible length"));
  EXPECT_TRUE(has(after([](Forged& f) { f.sections += "x"; }), "belong to no section"));
  EXPECT_TRUE(
      has(after([](Forged& f) { f.header.words_length += 4, f.manifest += std::string(4, '\0'); }), "out of order"));
  EXPECT_TRUE(has(after([](Forged& f) { f.header.words_length += 5, f.manifest += std::string("\1\0\0\0z", 5); }),
                  "belong to no kernel"));
  EXPECT_TRUE(has(after([](Forged& f) { f.header.kernels = 0; }), "lengths in its header"));
  EXPECT_TRUE(has(after([](Forged& f) { f.header.kernels = 0xFFFFFFFF; }), "lengths in its header"));
  EXPECT_TRUE(has(after([](Forged& f) { f.header.sections = 0xFFFFFFFF; }), "lengths in its header"));
}

/// A kernel's row that leads to another kernel's facts would give one pattern the other's kernel.
TEST(Damage, SwappedKernelsAreFound) {
  auto bundle = forged();
  for (std::size_t at = 32; at < kKernelRow; at += 4) {
    const auto first = get<std::uint32_t>(bundle.manifest, at);
    bundle.set(at, get<std::uint32_t>(bundle.manifest, kKernelRow + at));
    bundle.set(kKernelRow + at, first);
  }
  const auto bytes = bundle.bytes();
  const auto opened_one = opened(bytes);
  ASSERT_TRUE(opened_one.ok()) << "only reading a kernel can tell";
  EXPECT_NE((*opened_one)->take(0).error().message.find("another request"), std::string::npos);
  EXPECT_NE(trouble_in(bytes), "");
}

/// A section that is one more frame, or another length than the row says.
TEST(Damage, SectionsAreOneFrameOfTheStatedLength) {
  const std::string text(3000, 'x');
  const auto section = pack(text).value();
  EXPECT_EQ(unpack(pack("ab" + text.substr(0, 90)).value().stored, 92).value().size(), 92U);
  ASSERT_EQ(section.stored, text) << "it shrinks by more than the reader accepts, so it stays as it is";
  std::string varied;
  for (int i = 0; i < 600; ++i) varied += std::to_string(i * i);
  const auto frame = pack(varied).value();
  ASSERT_LT(frame.stored.size(), varied.size());
  EXPECT_EQ(unpack(frame.stored, varied.size()).value(), varied);
  EXPECT_FALSE(unpack(frame.stored, varied.size() + 1).ok());
  EXPECT_FALSE(unpack(frame.stored, varied.size() - 1).ok());
  EXPECT_FALSE(unpack(frame.stored + frame.stored, varied.size()).ok());
  EXPECT_FALSE(unpack(frame.stored.substr(0, frame.stored.size() - 1), varied.size()).ok());
  EXPECT_FALSE(unpack("", 10).ok());
}

/// Under a second of the processor's time and 256 MiB, whatever the header promises.
TEST(Damage, HostileLengthsCostNothing) {
  [[maybe_unused]] const std::clock_t before = std::clock();
  for (const std::uint64_t length : {std::uint64_t{1} << 30, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    auto bundle = forged();
    auto header = bundle.header;
    header.manifest_length = length;
    EXPECT_NE(trouble_in(encode(header) + bundle.manifest), "");
    header.file_length = length;
    EXPECT_NE(trouble_in(encode(header) + bundle.manifest), "");
  }
  // The longest manifest, all of whose digests are right.
  std::string rows(kLargestManifest, '\1');
  Header longest{.file_length = kHeaderSize + rows.size(),
                 .manifest_length = rows.size(),
                 .kernels = static_cast<std::uint32_t>(rows.size() / kKernelRow)};
  longest.root = root_of(start_of(longest), rows);
  EXPECT_NE(trouble_in(encode(longest) + rows), "");
  // Sections that stand for many times their length.
  std::vector<Kernel> bombs;
  for (int i = 0; i < 20; ++i) {
    bombs.push_back(sample_kernel("k" + std::to_string(i), "sm_61", 4000));
    for (int j = 0; j < 4000; ++j) bombs.back().plan += std::to_string(j * j * i) + std::string(90, 'x');
  }
  const auto bytes = written(bombs);
  EXPECT_LT(bytes.size() * 9, bombs.size() * bombs[0].plan.size());
  EXPECT_EQ(trouble_in(bytes), "");
#ifndef WEFT_SANITIZED
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  EXPECT_LT(usage.ru_maxrss, 256L << 10) << "kilobytes";
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC);
#endif
}

}  // namespace
}  // namespace weft::bundle
