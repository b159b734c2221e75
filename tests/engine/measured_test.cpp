/// What a machine measures of its processor: kept, reused, repaired, and who goes by it.

#include "runtime/engine/measured.h"

#include "compiler/ir/plan.h"
#include "tests/engine/folder.h"

#include <gtest/gtest.h>

#include <weft/weft.h>

#include <filesystem>
#include <fstream>

namespace weft::test {
namespace {

namespace fs = std::filesystem;

/// A measurement that says what it is told and counts how often it is asked.
struct Meter {
  std::optional<double> rate;
  int asked = 0;
  std::function<std::optional<double>()> measure() {
    return [this] {
      ++asked;
      return rate;
    };
  }
};

class MeasuredTest : public ::testing::Test {
 protected:
  std::string place(const std::string& name = "own") const { return (folder_.path() / name).string(); }
  /// Opened anew, as by another process.
  static Stores stores(const std::string& place, bool read_only = false) {
    return {cache::Store::open({.directory = place, .read_only = read_only})};
  }
  std::optional<double> ask(Meter& meter, const std::string& processor = "one") const {
    return bf16_dot_rate(stores(place()), processor, meter.measure());
  }
  /// What a process finds that must not need a meter.
  std::optional<double> kept(const std::string& processor = "one") const {
    Meter none;
    const auto rate = ask(none, processor);
    EXPECT_EQ(none.asked, rate ? 0 : 1);
    return rate;
  }
  /// Files of the store: kernels have no ending.
  std::vector<fs::path> files(const char* ending) const {
    std::vector<fs::path> out;
    for (const auto& item : fs::recursive_directory_iterator(place())) {
      if (item.is_regular_file() && item.path().filename() != "usage" && item.path().extension() == ending)
        out.push_back(item.path());
    }
    return out;
  }
  std::vector<fs::path> kernels() const { return files(""); }
  std::vector<fs::path> records() const { return files(".measurement"); }

  Folder folder_;
};

TEST_F(MeasuredTest, IsMeasuredOnceForAStore) {
  Meter first{.rate = 1.9375};
  EXPECT_EQ(ask(first), 1.9375);
  EXPECT_EQ(first.asked, 1);
  Meter later{.rate = 1.0};
  EXPECT_EQ(ask(later), 1.9375);
  EXPECT_EQ(later.asked, 0);
  EXPECT_EQ(records().size(), 1U);
}

// Every bit: a reader must not come to another choice than the writer.
TEST_F(MeasuredTest, ComesBackAsItWas) {
  int number = 0;
  for (const double rate : {1.9986904138292303, 1.0 / 3, 0.1, 10.0}) {
    const auto processor = std::to_string(number++);
    Meter meter{.rate = rate};
    ask(meter, processor);
    EXPECT_EQ(kept(processor), rate);
  }
}

// A kind of its own: what a kernel or a note has stays empty.
TEST_F(MeasuredTest, IsNothingButAMeasurement) {
  Meter meter{.rate = 2};
  ask(meter);
  const auto entry = stores(place())[0]->look_again(bf16_dot_key("one")).entry.value();
  EXPECT_EQ(entry, (cache::Entry{.value = "2", .words = entry.words}));
  EXPECT_NE(entry.words.find("2.00 times"), std::string::npos) << entry.words;
  EXPECT_EQ(kernels().size() + files(".note").size(), 0U);
}

TEST_F(MeasuredTest, AnotherProcessorIsMeasuredAnew) {
  Meter one{.rate = 2}, other{.rate = 1};
  ask(one, "AuthenticAMD-25-17-1");
  EXPECT_EQ(ask(other, "GenuineIntel-6-143-8"), 1);
  EXPECT_EQ(other.asked, 1);
  EXPECT_EQ(kept("AuthenticAMD-25-17-1"), 2);
  EXPECT_EQ(kept("GenuineIntel-6-143-8"), 1);
}

TEST_F(MeasuredTest, ADamagedFileIsMeasuredAnewAndRepaired) {
  Meter first{.rate = 2};
  ask(first);
  const auto file = records().at(0);
  std::fstream(file, std::ios::in | std::ios::out).seekp(100).put('~');
  Meter again{.rate = 1.5};
  EXPECT_EQ(ask(again), 1.5);
  EXPECT_EQ(again.asked, 1);
  EXPECT_EQ(kept(), 1.5);
}

TEST_F(MeasuredTest, ARecordThatMakesNoSenseIsMeasuredAnewAndRepaired) {
  Meter writer{.rate = 2};
  ask(writer);
  for (const std::string text : {"", "fast", "2x", " 2", "2\n", "nan", "inf", "-2", "0", "0.05", "11", "1e300"}) {
    ASSERT_TRUE(stores(place())[0]->put(bf16_dot_key("one"), {.value = text}).published);
    Meter meter{.rate = 1.25};
    EXPECT_EQ(ask(meter), 1.25) << text;
    EXPECT_EQ(meter.asked, 1) << text;
    EXPECT_EQ(kept(), 1.25) << text;
  }
}

TEST_F(MeasuredTest, OtherStoresAreReadAndNotWritten) {
  Meter meter{.rate = 2};
  bf16_dot_rate(stores(place("theirs")), "one", meter.measure());
  const Stores both = {stores(place())[0], stores(place("theirs"), true)[0]};
  Meter unused{.rate = 1};
  EXPECT_EQ(bf16_dot_rate(both, "one", unused.measure()), 2);
  EXPECT_EQ(unused.asked, 0);
  bf16_dot_rate(stores(place("theirs"), true), "two", unused.measure());
  Meter again{.rate = 1.5};
  EXPECT_EQ(bf16_dot_rate(stores(place("theirs")), "two", again.measure()), 1.5) << "nothing had been written";
}

TEST_F(MeasuredTest, NothingMeasuredIsNothingKept) {
  Meter none;
  EXPECT_EQ(ask(none), std::nullopt);
  EXPECT_EQ(kept(), std::nullopt);
  Meter alone{.rate = 2};
  EXPECT_EQ(bf16_dot_rate({}, "one", alone.measure()), 2) << "nowhere to keep it";
}

TEST_F(MeasuredTest, OtherMachinesTargetsFollowTheTable) {
  for (const Target& row : known_targets()) {
    if (row.kind == TargetKind::cpu && row.has_bf16_dot() && host_can_execute(row)) continue;
    const auto target = as_measured(stores(place()), row, ir::DType::bf16);
    EXPECT_EQ(target.bf16_dot_rate, row.bf16_dot_rate) << row.name;
    EXPECT_FALSE(target.bf16_dot_measured) << row.name;
  }
  EXPECT_FALSE(fs::exists(place())) << "nobody wanted to know";
}

/// On a processor with the instruction, with a store that says what the test wants it to.
class OnThisMachine : public MeasuredTest {
 protected:
  void SetUp() override {
    if (!host_target().has_bf16_dot()) GTEST_SKIP() << "this processor has no vdpbf16ps";
  }
  void say(double rate) const {
    Meter meter{.rate = rate};
    fs::remove_all(place());
    bf16_dot_rate(stores(place()), host_cpu_model(), meter.measure());
  }
  static ir::Plan plan_of(const EngineOptions& options, DType dtype) {
    const Engine engine(options);
    const auto kernel = engine.compile("pattern p { keep causal; }", {.dim = 16, .dtype = dtype});
    if (!kernel) throw std::runtime_error(kernel.error().message);
    return ir::parse_plan(kernel->plan_text()).value();
  }
  EngineOptions own() const { return {.cache_dir = place()}; }
};

// Whatever the machine can do, what its store says decides: so the same store gives the same kernels.
TEST_F(OnThisMachine, EnginesGoByWhatTheStoreHolds) {
  say(1.0);
  EXPECT_EQ(plan_of(own(), DType::bf16).choices.products, 1);
  EXPECT_EQ(kernels().size(), 1U) << "a kernel, and the record is none";
  say(2.0);
  EXPECT_EQ(plan_of(own(), DType::bf16).choices.products, 2);
}

// One store, two records one after the other: two kernels, never one for the other.
TEST_F(OnThisMachine, TheTwoFormsAreTwoKernels) {
  say(1.0);
  EXPECT_EQ(plan_of(own(), DType::bf16).choices.products, 1);
  auto record = stores(place())[0]->look_again(bf16_dot_key(host_cpu_model())).entry.value();
  record.value = "2";
  ASSERT_TRUE(stores(place())[0]->put(bf16_dot_key(host_cpu_model()), record).published);
  EXPECT_EQ(plan_of(own(), DType::bf16).choices.products, 2);
  EXPECT_EQ(kernels().size(), 2U);
}

TEST_F(OnThisMachine, OnlyBf16AsksForIt) {
  for (const auto dtype : {DType::f32, DType::f16}) EXPECT_EQ(plan_of(own(), dtype).choices.products, 1);
  EXPECT_EQ(kernels().size(), 2U);
  EXPECT_EQ(kept(host_cpu_model()), std::nullopt);
  plan_of(own(), DType::bf16);
  EXPECT_EQ(kernels().size(), 3U);
  EXPECT_NE(kept(host_cpu_model()), std::nullopt);
}

// Two measurements hardly agree in every digit: these are one.
TEST_F(OnThisMachine, IsMeasuredOnceInAProcessWithoutAStore) {
  const auto rate = as_measured({}, host_target(), ir::DType::bf16).bf16_dot_rate;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(as_measured({}, host_target(), ir::DType::bf16).bf16_dot_rate, rate);
  EXPECT_TRUE(as_measured({}, host_target(), ir::DType::bf16).bf16_dot_measured);
  EXPECT_EQ(plan_of({.no_cache = true}, DType::bf16).choices.products, rate >= 1.4 ? 2 : 1);
}

}  // namespace
}  // namespace weft::test
