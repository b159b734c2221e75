#include "runtime/object/loaded_object.h"
#include "tests/bundle/fixture.h"
#include "tests/cache/fixture.h"
#include "tests/support/places.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

/// What a bundle holds and how it is found: formats, order, sharing, speed.
namespace weft::bundle {
namespace {

namespace fs = std::filesystem;

TEST(Bundle, HoldsWhatWasAdded) {
  const auto bytes = written(sample_kernels());
  const auto bundle = opened(bytes);
  ASSERT_TRUE(bundle.ok()) << bundle.error().message;
  ASSERT_EQ((*bundle)->size(), 3U);
  for (const auto& kernel : sample_kernels()) {
    const auto at = (*bundle)->find(sha256(kernel.request));
    ASSERT_TRUE(at) << kernel.name;
    EXPECT_EQ((*bundle)->take(*at).value(), kernel);
    const auto summary = (*bundle)->summary(*at);
    EXPECT_EQ(summary.name, kernel.name);
    EXPECT_EQ(summary.target, kernel.target);
    EXPECT_EQ(summary.registers, kernel.registers);
    EXPECT_EQ(summary.binary_bytes, kernel.binary.size());
  }
  EXPECT_TRUE((*bundle)->has_target("sm_61"));
  EXPECT_FALSE((*bundle)->has_target("sm_62"));
  EXPECT_FALSE((*bundle)->has_target("longnet")) << "a word, but no target";
  EXPECT_FALSE((*bundle)->find(sha256("another request")));
  EXPECT_TRUE((*bundle)->verify().ok());
}

TEST(Bundle, MayBeEmpty) {
  const auto bytes = written({});
  const auto bundle = opened(bytes);
  ASSERT_TRUE(bundle.ok()) << bundle.error().message;
  EXPECT_EQ((*bundle)->size(), 0U);
  EXPECT_FALSE((*bundle)->find(Sha256{}));
  EXPECT_TRUE((*bundle)->verify().ok());
}

TEST(Bundle, KeepsEmptyAndUnknownValues) {
  auto kernel = sample_kernel("bare");
  kernel.source.clear();
  kernel.plan.clear();
  kernel.launch.clear();
  kernel.registers.reset();
  kernel.spill_bytes.reset();
  EXPECT_EQ(opened(written({kernel})).value()->take(0).value(), kernel);
}

TEST(Bundle, TakesOnlyWhatIsAskedFor) {
  const auto bytes = written({sample_kernel("longnet")});
  const auto bundle = opened(bytes).value();
  const auto facts = bundle->take(0, Parts::facts).value();
  EXPECT_EQ(facts.request, sample_kernel("longnet").request);
  EXPECT_TRUE(facts.binary.empty());
  const auto binary = bundle->take(0, Parts::binary).value();
  EXPECT_EQ(binary.binary, sample_kernel("longnet").binary);
  EXPECT_TRUE(binary.source.empty());
}

TEST(Bundle, OrderOfAddingDoesNotMatter) {
  auto kernels = sample_kernels();
  kernels.push_back(sample_kernel("longnet"));  // once more, under another name
  kernels.back().name = "also";
  std::sort(kernels.begin(), kernels.end(), [](const auto& a, const auto& b) { return a.request < b.request; });
  std::stable_sort(kernels.begin(), kernels.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto bytes = written(kernels);
  for (int i = 0; i < 30; ++i) {
    std::shuffle(kernels.begin(), kernels.end(), std::mt19937(static_cast<unsigned>(i)));
    EXPECT_EQ(written(kernels), bytes);
  }
  // The control: another set of kernels has other bytes.
  kernels.back().source += " ";
  EXPECT_NE(written(kernels), bytes);
}

/// Patterns that differ in numbers only come to one request: a row each, and one binary.
TEST(Bundle, HoldsOneRequestUnderSeveralNames) {
  auto one = sample_kernel("narrow", "sm_61", 20000), two = one;
  two.name = "wide";
  two.plan = "another plan";
  const auto bytes = written({two, one});
  EXPECT_LT(bytes.size(), 25000U);
  EXPECT_EQ(trouble_in(bytes), "");
  const auto bundle = opened(bytes).value();
  ASSERT_EQ(bundle->size(), 2U);
  EXPECT_EQ(bundle->find(sha256(one.request)), 0U);
  const auto first = bundle->take(0).value(), second = bundle->take(1).value();
  EXPECT_EQ(first.name == "wide" ? first : second, two);
  EXPECT_EQ(first.name == "wide" ? second : first, one);
}

TEST(Bundle, SharesWhatIsEqual) {
  auto one = sample_kernel("one", "sm_61", 20000), two = sample_kernel("two", "sm_61", 20000);
  const auto apart = written({one, two}).size();
  two.binary = one.binary;
  const auto together = written({one, two});
  EXPECT_LT(together.size() + 19000, apart);
  EXPECT_EQ(trouble_in(together), "");
}

/// The stored bytes of one section may be another section's plain ones.
TEST(Bundle, TellsBytesFromTheSameBytesCompressed) {
  auto kernel = sample_kernel("nested");
  kernel.plan = pack(kernel.source)->stored;
  EXPECT_EQ(opened(written({kernel})).value()->take(0).value(), kernel);
}

TEST(Bundle, OfAFileIsThatOfMemory) {
  const auto path = fs::temp_directory_path() / ("weft bundle's \"f\u00efle\"\n" + std::to_string(::getpid()));
  const auto bytes = written(sample_kernels());
  std::ofstream(path, std::ios::binary) << bytes;
  const auto bundle = Bundle::open(path.string());
  ASSERT_TRUE(bundle.ok()) << bundle.error().message;
  EXPECT_TRUE((*bundle)->verify().ok());
  EXPECT_EQ((*bundle)->take(1).value(), opened(bytes).value()->take(1).value());
  // Cut short while it is open: an error, and the program goes on.
  fs::resize_file(path, bytes.size() / 2);
  EXPECT_NE((*bundle)->verify().error().message.find("became shorter"), std::string::npos);
  fs::remove(path);
}

TEST(Bundle, IsReadByManyThreads) {
  const auto path = fs::temp_directory_path() / ("weft-threads-" + std::to_string(::getpid()) + ".wfb");
  std::ofstream(path, std::ios::binary) << written(sample_kernels());
  const auto bundle = Bundle::open(path.string()).value();
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        for (const auto& kernel : sample_kernels()) {
          right += bundle->take(*bundle->find(sha256(kernel.request))).value() == kernel;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 8 * 50 * 3);
  fs::remove(path);
}

TEST(Bundle, SaysWhyAFileIsNone) {
  const auto gone = Bundle::open("/nowhere/x.wfb");
  EXPECT_EQ(gone.error().message, "/nowhere/x.wfb: there is no such file");
  EXPECT_EQ(gone.error().kind, ErrorKind::user);
  EXPECT_EQ(Bundle::open("/tmp").error().message, "/tmp: it is no regular file");
  EXPECT_EQ(opened("pattern p {}").error().message, "x.wfb: it does not start like a bundle");
  EXPECT_EQ(opened("").error().message, "x.wfb: it does not start like a bundle");
}

TEST(Bundle, RefusesNewerFormatsByTheirNumber) {
  auto bytes = written(sample_kernels());
  bytes[8] = 3;
  EXPECT_EQ(opened(bytes).error().message, "x.wfb: bundle format 3 was made by a newer Weft; this one reads up to 1");
  EXPECT_NE(opened(bytes.substr(0, 12)).error().message.find("format 3"), std::string::npos);
  bytes[8] = 0;
  EXPECT_NE(opened(bytes).error().message.find("no bundle format 0"), std::string::npos);
}

/// Bundles of every format that was ever written stay readable: tests/data/bundles has one of each.
TEST(Bundle, OlderFormatsAreRead) {
  std::size_t formats = 0;
  for (const auto& file : fs::directory_iterator(test::in_checkout("tests/data/bundles"))) {
    if (!file.path().filename().string().starts_with("format_")) continue;
    ++formats;
    const auto bundle = Bundle::open(file.path().string());
    ASSERT_TRUE(bundle.ok()) << bundle.error().message;
    EXPECT_TRUE((*bundle)->verify().ok()) << file.path();
    ASSERT_EQ((*bundle)->size(), 3U);
    for (const auto& kernel : sample_kernels()) {
      const auto at = (*bundle)->find(sha256(kernel.request));
      ASSERT_TRUE(at);
      EXPECT_EQ((*bundle)->take(*at).value(), kernel);
    }
  }
  EXPECT_EQ(formats, kFormat);
}

/// The same of a kernel as `bundle build` makes them: its object is one that can be loaded today.
TEST(Bundle, OlderKernelsAreLoaded) {
  std::size_t formats = 0;
  for (const auto& file : fs::directory_iterator(test::in_checkout("tests/data/bundles"))) {
    if (!file.path().filename().string().starts_with("kernel_")) continue;
    ++formats;
    const auto bundle = Bundle::open(file.path().string());
    ASSERT_TRUE(bundle.ok()) << bundle.error().message;
    EXPECT_TRUE((*bundle)->verify().ok());
    const auto kernel = (*bundle)->take(0).value();
    EXPECT_EQ(kernel.target, "cpu:x86-64");
    const auto object = object::LoadedObject::load(kernel.binary, kernel.name);
    ASSERT_TRUE(object.ok()) << object.error().message;
    const std::string launch = kernel.launch, word = "symbol ";
    const auto at = launch.find(word) + word.size();
    EXPECT_NE((*object)->symbol(launch.substr(at, launch.find('\n', at) - at)), nullptr) << launch;
  }
  EXPECT_EQ(formats, kFormat);
}

TEST(Bundle, ThatMayNotBeReadIsTheMachinesTrouble) {
  const auto path = fs::temp_directory_path() / ("weft-secret-" + std::to_string(::getpid()) + ".wfb");
  std::ofstream(path, std::ios::binary) << written(sample_kernels());
  fs::permissions(path, fs::perms::none);
  {
    const cache::AsNobody somebody_else;
    const auto refused = Bundle::open(path.string());
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind, ErrorKind::environment);
    EXPECT_NE(refused.error().message.find("Permission denied"), std::string::npos) << refused.error().message;
  }
  fs::remove(path);
}

/// The file of the newest format is only ever written by this, when a format is new.
TEST(Bundle, OfThisFormatIsStored) {
  const auto path = fs::path(test::in_checkout("tests/data/bundles/format_") + std::to_string(kFormat) + ".wfb");
  if (std::getenv("WEFT_BLESS") != nullptr && !fs::exists(path)) {
    std::ofstream(path, std::ios::binary) << written(sample_kernels());
  }
  EXPECT_TRUE(fs::exists(path));
}

TEST(Bundle, OfAThousandKernelsOpens) {
  Writer writer;
  for (int i = 0; i < 1000; ++i) {
    writer.add(*pack(sample_kernel("kernel_" + std::to_string(i), i % 2 == 0 ? "sm_61" : "sm_80", 2000)));
  }
  const auto path = fs::temp_directory_path() / ("weft-thousand-" + std::to_string(::getpid()) + ".wfb");
  std::ofstream(path, std::ios::binary) << *writer.finish();
  const auto bundle = Bundle::open(path.string());
  ASSERT_TRUE(bundle.ok());
  EXPECT_EQ((*bundle)->size(), 1000U);
  fs::remove(path);
}

}  // namespace
}  // namespace weft::bundle
