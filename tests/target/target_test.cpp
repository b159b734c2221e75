#include "compiler/target/target.h"
#include "compiler/target/bf16_dot.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

namespace weft {
namespace {

const Target& row(const std::string& name) {
  for (const Target& target : known_targets()) {
    if (target.name == name) return target;
  }
  ADD_FAILURE() << "no row " << name;
  return known_targets().front();
}

TEST(Target, EveryRowIsFoundUnderItsOwnName) {
  std::set<std::string> names;
  for (const Target& target : known_targets()) {
    EXPECT_TRUE(names.insert(target.name).second) << target.name << " stands twice";
    const auto found = find_target(target.name);
    ASSERT_TRUE(found.ok()) << target.name;
    EXPECT_EQ(found->name, target.name);
  }
  EXPECT_EQ(names.count("sm_61"), 1U);
  EXPECT_EQ(names.count("interpreter"), 1U);
}

TEST(Target, FactsOfTheRowsHangTogether) {
  for (const Target& target : known_targets()) {
    SCOPED_TRACE(target.name);
    if (target.kind == TargetKind::cpu) {
      EXPECT_EQ(target.lanes() * 32, target.vector_bits);
      EXPECT_EQ(target.vector_registers, target.vector_bits == 512 ? 32 : 16);
      EXPECT_EQ(target.has_fma, target.needs.has(CpuFeature::fma));
      EXPECT_EQ(target.has_f16c, target.needs.has(CpuFeature::f16c));
      EXPECT_EQ(target.vector_bits >= 256, target.needs.has(CpuFeature::avx2));
      EXPECT_EQ(target.vector_bits >= 512, target.needs.has(CpuFeature::avx512f));
      EXPECT_EQ(target.has_bf16_dot(), target.needs.has(CpuFeature::avx512bf16));
      EXPECT_FALSE(target.bf16_dot_measured) << "rows are the same on every machine";
      EXPECT_FALSE(target.llvm_cpu.empty());
    }
    if (target.kind == TargetKind::cuda) {
      EXPECT_GE(target.shared_per_block, 48 * 1024);
      EXPECT_LE(target.shared_per_block, target.shared_per_sm);
      EXPECT_EQ(target.registers_per_sm, 65536);
      EXPECT_TRUE(target.has_mma || !target.has_bf16_mma);
      EXPECT_EQ(target.has_mma, target.mma_per_sm > target.f32_lanes_per_sm);
      EXPECT_TRUE(target.has_tma || !target.has_wgmma);
      EXPECT_EQ("sm_" + std::to_string(target.sm) + (target.has_wgmma ? "a" : ""), target.name);
    }
  }
}

// NVIDIA's programming guide, table of compute capabilities.
TEST(Target, CudaFactsThatPlansRelyOn) {
  EXPECT_EQ(row("sm_61").shared_per_block, 48 * 1024);
  EXPECT_EQ(row("sm_61").shared_per_sm, 96 * 1024);
  EXPECT_FALSE(row("sm_61").has_mma);
  EXPECT_TRUE(row("sm_75").has_mma);
  EXPECT_FALSE(row("sm_75").has_bf16_mma);
  EXPECT_FALSE(row("sm_75").has_async_copy);
  EXPECT_EQ(row("sm_80").shared_per_block, 163 * 1024);
  EXPECT_TRUE(row("sm_90").has_tma);
  EXPECT_FALSE(row("sm_90").has_wgmma);
  EXPECT_TRUE(row("sm_90a").has_wgmma);
}

TEST(Target, ADeviceGetsTheNewestRowOfItsFamily) {
  const auto row = [](int capability) {
    const auto found = device_target(capability);
    return found ? found->name : std::string();
  };
  EXPECT_EQ(row(61), "sm_61");
  EXPECT_EQ(row(62), "sm_61");
  EXPECT_EQ(row(70), "sm_70");
  EXPECT_EQ(row(72), "sm_70");
  EXPECT_EQ(row(87), "sm_86");
  EXPECT_EQ(row(90), "sm_90a");
  EXPECT_EQ(row(100), "sm_100");
  EXPECT_EQ(row(103), "sm_103");
  EXPECT_EQ(row(120), "sm_120");
  EXPECT_EQ(row(121), "sm_121");
  EXPECT_EQ(row(52), "");
}

/// A card that nobody knew when the table was written.
TEST(Target, ALaterFamilyGetsThePtxOfTheNewestRowBeforeIt) {
  const auto at = [](int capability) { return device_target(capability).value(); };
  EXPECT_EQ(at(110).name, "sm_103:ptx") << "binaries of sm_103 do not run on 11.0";
  EXPECT_EQ(at(130).name, "sm_121:ptx");
  for (const Target& row : known_targets()) {
    if (row.kind == TargetKind::cuda) {
      EXPECT_LE(row.sm, at(990).sm) << row.name;
    }
  }
  const Target whole = find_target("sm_121").value(), ptx = find_target("sm_121:ptx").value();
  EXPECT_EQ(ptx.name, "sm_121:ptx") << "keys of stores hold it";
  EXPECT_EQ(ptx.architecture, "compute_121");
  EXPECT_TRUE(ptx.is_ptx && !whole.is_ptx);
  EXPECT_EQ(ptx.shared_per_block, whole.shared_per_block);
  EXPECT_EQ(ptx.has_mma, whole.has_mma);
  EXPECT_TRUE(device_can_execute(ptx, 121) && device_can_execute(ptx, 130));
  EXPECT_FALSE(device_can_execute(ptx, 120));
  EXPECT_FALSE(device_can_execute(whole, 130));
  EXPECT_FALSE(find_target("sm_90a:ptx").ok()) << "its instructions are of that architecture alone";
  EXPECT_FALSE(find_target("cpu:haswell:ptx").ok());
}

TEST(Target, AnyGpuCanBeTakenForOneWithoutTensorCores) {
  const Target whole = find_target("sm_80").value(), plain = find_target("sm_80:simt").value();
  EXPECT_EQ(plain.name, "sm_80:simt") << "keys of stores hold it";
  EXPECT_EQ(plain.architecture, whole.architecture);
  EXPECT_EQ(plain.shared_per_block, whole.shared_per_block);
  EXPECT_TRUE(whole.has_mma && whole.has_bf16_mma);
  EXPECT_FALSE(plain.has_mma || plain.has_bf16_mma);
  EXPECT_TRUE(device_can_execute(plain, 86));
  EXPECT_FALSE(find_target("sm_90a:simt").ok()) << "its binaries run on that architecture alone";
  EXPECT_FALSE(find_target("interpreter:simt").ok());
  EXPECT_FALSE(find_target(":simt").ok());
}

TEST(Target, AWrongNameSuggestsTheNearest) {
  const auto found = find_target("cpu:x86-64-v5");
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().kind, ErrorKind::user);
  EXPECT_NE(found.error().message.find("cpu:x86-64-v5"), std::string::npos);
  ASSERT_FALSE(found.error().notes.empty());
  EXPECT_NE(found.error().notes.front().find("`cpu:x86-64-v"), std::string::npos);
  EXPECT_FALSE(find_target("").ok());
  EXPECT_FALSE(find_target("CPU").ok());
}

#if defined(__x86_64__)
TEST(Target, CpuIsTheLastRowThisMachineExecutes) {
  const auto cpu = find_target("cpu");
  ASSERT_TRUE(cpu.ok());
  EXPECT_EQ(cpu->kind, TargetKind::cpu);
  EXPECT_EQ(cpu->name, host_target().name);
  EXPECT_TRUE(host_can_execute(*cpu));
  bool after = false;
  for (const Target& target : known_targets()) {
    if (after && target.kind == TargetKind::cpu) {
      EXPECT_FALSE(host_can_execute(target)) << target.name;
    }
    after = after || target.name == cpu->name;
  }
  EXPECT_TRUE(after);
}

// An independent witness: the kernel lists what it has switched on.
TEST(Target, FeaturesAgreeWithTheKernel) {
  std::ifstream file("/proc/cpuinfo");
  std::set<std::string> flags;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("flags", 0) != 0) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    for (std::string word; words >> word;) flags.insert(word);
    break;
  }
  if (flags.empty()) GTEST_SKIP() << "no /proc/cpuinfo";
  const CpuFeatureSet host = host_cpu_features();
  const std::pair<CpuFeature, const char*> pairs[] = {{CpuFeature::avx2, "avx2"},
                                                      {CpuFeature::fma, "fma"},
                                                      {CpuFeature::f16c, "f16c"},
                                                      {CpuFeature::avx512f, "avx512f"},
                                                      {CpuFeature::avx512bw, "avx512bw"},
                                                      {CpuFeature::avx512vl, "avx512vl"},
                                                      {CpuFeature::avx512bf16, "avx512_bf16"},
                                                      {CpuFeature::sse4a, "sse4a"},
                                                      {CpuFeature::lahf, "lahf_lm"},
                                                      {CpuFeature::lzcnt, "abm"},
                                                      {CpuFeature::sse3, "pni"},
                                                      {CpuFeature::cx16, "cx16"}};
  for (const auto& [feature, flag] : pairs) EXPECT_EQ(host.has(feature), flags.count(flag) == 1) << flag;
}

TEST(Target, AReasonNamesWhatIsMissing) {
  Target impossible = row("cpu:x86-64");
  // No processor is both: SSE4A is AMD's alone, AVX512-FP16 Intel's.
  impossible.needs = impossible.needs.with(CpuFeature::sse4a, CpuFeature::avx512fp16);
  std::string reason;
  EXPECT_FALSE(host_can_execute(impossible, &reason));
  EXPECT_EQ(reason.rfind("this processor lacks ", 0), 0U) << reason;
  EXPECT_TRUE(host_can_execute(row("cpu:x86-64"), &reason));
  EXPECT_TRUE(reason.empty()) << reason;
  EXPECT_FALSE(host_can_execute(row("sm_61"), &reason));
  EXPECT_FALSE(reason.empty());
}
#endif

TEST(Bf16Dot, IsMeasuredWhereTheInstructionIs) {
  const auto rate = measure_bf16_dot_rate();
  ASSERT_EQ(rate.has_value(), host_cpu_features().has(CpuFeature::avx512bf16));
  if (!rate) return;
  // A number that a processor could have, whoever shares the core; the tests below say what is made of times.
  EXPECT_GT(*rate, 0.05);
  EXPECT_LT(*rate, 40);
}

std::vector<Bf16DotTurn> turns(int count, double single, double pairs) {
  std::vector<Bf16DotTurn> out;
  // Never twice the same, as no clock says it twice.
  for (int i = 0; i < count; ++i) out.push_back({single * (1 + 0.001 * (i % 7)), pairs * (1 + 0.001 * (i % 5))});
  return out;
}

std::vector<Bf16DotTurn> joined(std::vector<Bf16DotTurn> first, const std::vector<Bf16DotTurn>& then) {
  first.insert(first.end(), then.begin(), then.end());
  return first;
}

// Whoever shares the core may slow either instruction more than the other, for a while.
TEST(Bf16Dot, DoesNotDependOnANeighbour) {
  const auto calm = turns(100, 15e-6, 15e-6);
  EXPECT_NEAR(bf16_dot_rate_of(calm).value(), 2, 0.02);
  for (const auto& disturbed : {turns(200, 18e-6, 45e-6), turns(200, 60e-6, 16e-6)}) {
    EXPECT_NEAR(bf16_dot_rate_of(joined(calm, disturbed)).value(), 2, 0.02);
    EXPECT_NEAR(bf16_dot_rate_of(joined(disturbed, calm)).value(), 2, 0.02);
  }
}

TEST(Bf16Dot, DoesNotDependOnTheClock) {
  const auto slow = turns(150, 30e-6, 60e-6), fast = turns(30, 15e-6, 30e-6);
  EXPECT_NEAR(bf16_dot_rate_of(joined(slow, fast)).value(), 1, 0.02);
  EXPECT_NEAR(bf16_dot_rate_of(joined(fast, slow)).value(), 1, 0.02);
}

TEST(Bf16Dot, SaysNothingOfAClockThatStands) {
  EXPECT_FALSE(bf16_dot_rate_of({}).has_value());
  EXPECT_FALSE(bf16_dot_rate_of(std::vector<Bf16DotTurn>{{0, 15e-6}, {15e-6, 0}}).has_value());
}

TEST(CpuFeatureSet, SubtractsAndPrints) {
  constexpr CpuFeatureSet two = CpuFeatureSet().with(CpuFeature::fma, CpuFeature::avx2);
  EXPECT_EQ(two.text(), "fma, avx2");
  EXPECT_EQ(two.minus(CpuFeatureSet().with(CpuFeature::fma)).text(), "avx2");
  EXPECT_TRUE(two.minus(two).empty());
}

}  // namespace
}  // namespace weft
