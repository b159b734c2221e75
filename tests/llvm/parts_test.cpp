#include "runtime/llvm/parts.h"
#include "runtime/llvm/orc.h"
#include "runtime/llvm/part_store.h"
#include "runtime/object/elf.h"
#include "runtime/object/join.h"
#include "runtime/object/loaded_object.h"
#include "tests/llvm/kernels.h"

#include <fmt/format.h>

#include <set>
#include <tuple>

namespace weft::llvm {
namespace {

constexpr int kFunctions = 800, kOfSection = 50;

/// @entry adds up what a chain of internal functions say, each of which calls the one before; every other one is left
/// as it stands. Doubles, so that there are constants. `more` is what function number `changed` adds besides.
std::string chain(int of_section = kOfSection, int changed = 0, int more = 0) {
  std::string text = "target triple = \"x86_64-unknown-linux-gnu\"\n\ndeclare double @llvm.fabs.f64(double)\n\n";
  for (int i = 0; i < kFunctions; ++i) {
    if (i % of_section == 0) text += fmt::format(";; from {} on\n", i);
    text += fmt::format("; number {0}\ndefine internal double @f{0}(double %x, ptr %unused) #{1} {{\n", i, i % 2);
    text += i == 0 ? "  %before = call double @llvm.fabs.f64(double %x)\n"
                   : fmt::format("  %before = call double @f{}(double %x, ptr %unused)\n", i - 1);
    for (int step = 0; step < 4; ++step) {
      text += fmt::format("  %r{} = fadd double {}, {}.5\n", step,
                          step == 0 ? "%before" : fmt::format("%r{}", step - 1), i + step + (i == changed ? more : 0));
    }
    text += "  ret double %r3\n}\n\n";
  }
  text += fmt::format("define double @entry(double %x) #0 {{\n  %r = call double @f{}(double %x, ptr null)\n",
                      kFunctions - 1);
  return text + "  ret double %r\n}\n\nattributes #0 = { nounwind }\nattributes #1 = { nounwind noinline optnone }\n";
}

double expected(double x) {
  for (int i = 0; i < kFunctions; ++i) x += 4 * i + 8;
  return x;
}

Target host() { return host_target(); }

TEST(LlvmParts, EachFunctionIsDefinedOnceAndDeclaredWhereItIsCalled) {
  const auto parts = split(chain());
  ASSERT_EQ(parts.size(), kFunctions / kOfSection);
  for (int i = 0; i < kFunctions; ++i) {
    int defined = 0, declared = 0;
    for (const auto& part : parts) {
      const auto head = fmt::format("hidden double @f{}(double %x, ptr %unused)", i);
      defined += part.find("define " + head) != std::string::npos;
      declared += part.find("declare " + head + "\n") != std::string::npos;
    }
    EXPECT_EQ(defined, 1) << i;
    EXPECT_EQ(declared, i % kOfSection == kOfSection - 1 && i < kFunctions - 1) << i;
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(parts[i].find("@llvm.fabs.f64") != std::string::npos, i == 0) << i;
  }
}

TEST(LlvmParts, ASectionIsTheSamePartWhateverIsElsewhere) {
  const auto before = split(chain()), after = split(chain(kOfSection, 120, 7));
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(before[i] == after[i], i != 120 / kOfSection) << i;
}

TEST(LlvmParts, LongSectionsAreCut) {
  const auto parts = split(chain(kFunctions));
  ASSERT_GE(parts.size(), 3U);
  for (const auto& part : parts) EXPECT_LT(part.size(), 65U << 10);
}

TEST(LlvmParts, ShortTextsAndDataStayWhole) {
  EXPECT_EQ(split(kProbeIr), std::vector<std::string>{kProbeIr});
  const auto with_data = "@table = internal global i64 0\n" + chain();
  EXPECT_EQ(split(with_data), std::vector<std::string>{with_data});
}

TEST(LlvmParts, WhatTheProcessHasCompiledIsTakenAsItWas) {
  const auto llvm = library();
  ASSERT_NE(llvm, nullptr);
  const auto bytes_of = [&](const std::string& text, const Target& target, const Options& options = {}) {
    const auto before = part_counts();
    const auto bytes = compile(*llvm, text, target, options);
    EXPECT_TRUE(bytes.ok());
    const auto after = part_counts();
    return std::tuple(*bytes, after.compiled - before.compiled, after.reused - before.reused);
  };
  const std::size_t all = split(chain()).size();
  const auto afresh = bytes_of(chain(), host(), {.reuse = false});
  EXPECT_EQ(std::get<1>(afresh), all);
  const auto again = bytes_of(chain(), host());
  EXPECT_EQ(std::get<0>(again), std::get<0>(afresh));
  EXPECT_EQ(std::get<1>(again), 0U);
  EXPECT_EQ(std::get<2>(again), all);
  // One function, another processor, other options: nothing is taken that was made of anything else.
  const auto changed = bytes_of(chain(kOfSection, 120, 7), host());
  EXPECT_EQ(std::get<1>(changed), 1U);
  EXPECT_EQ(std::get<0>(changed), std::get<0>(bytes_of(chain(kOfSection, 120, 7), host(), {.reuse = false})));
  EXPECT_NE(std::get<0>(changed), std::get<0>(afresh));
  EXPECT_EQ(std::get<1>(bytes_of(chain(), find_target("cpu:x86-64").value())), all);
  EXPECT_EQ(std::get<1>(bytes_of(chain(), host(), {.level = 2})), all);
  EXPECT_EQ(std::get<1>(bytes_of(chain(), host(), {.passes = "instcombine"})), all);
}

TEST(PartStore, TheOldestMakeRoom) {
  PartStore store(1000);
  std::string object;
  for (int i = 0; i < 20; ++i) store.keep(fmt::format("{:02}{}", i, std::string(98, 'k')), std::string(100, 'o'));
  EXPECT_EQ(store.bytes(), 1000U);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(store.find(fmt::format("{:02}{}", i, std::string(98, 'k')), object), i >= 15) << i;
  }
  store.keep(std::string(2000, 'k'), "too long for all");
  EXPECT_FALSE(store.find(std::string(2000, 'k'), object));
  EXPECT_EQ(store.bytes(), 0U);
}

TEST(LlvmParts, TogetherTheyAreTheWhole) {
  const auto bytes = compiled(chain(), host());
  ASSERT_GT(split(chain()).size(), 1U);
  const auto loaded = object::LoadedObject::load(bytes, "chain");
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  const auto entry = reinterpret_cast<double (*)(double)>((*loaded)->symbol("entry"));
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry(-2.0), expected(2.0));
  EXPECT_EQ((*loaded)->symbol("f7"), nullptr) << "internal functions stay internal";
  // A linker that is not ours takes them for an object as well.
  const auto theirs = OrcObject::load(library(), bytes, "chain");
  ASSERT_TRUE(theirs.ok()) << theirs.error().message;
  const auto same = reinterpret_cast<double (*)(double)>((*theirs)->symbol("entry"));
  ASSERT_NE(same, nullptr);
  EXPECT_EQ(same(-2.0), expected(2.0));
}

TEST(LlvmParts, TheSameTextGivesTheSameBytes) {
  std::set<std::string> seen;
  for (int i = 0; i < 6; ++i) seen.insert(compile(*library(), chain(), host(), {.reuse = false}).value());
  EXPECT_EQ(seen.size(), 1U);
}

TEST(LlvmParts, WhatOnePartSaysIsTheError) {
  auto text = chain();
  const auto at = text.find("fadd double %r1", text.size() / 2);
  text.replace(at, 4, "nadd");
  const auto llvm = library();
  ASSERT_NE(llvm, nullptr);
  const auto result = compile(*llvm, text, host());
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("nadd"), std::string::npos) << result.error().message;
}

TEST(Join, WhatIsMissingOrTwiceIsNamed) {
  std::vector<std::string> objects;
  for (const auto& part : split(chain())) objects.push_back(compiled(part, host()));
  ASSERT_TRUE(object::join(objects, "chain").ok());
  const std::vector<std::string> fewer(objects.begin() + 1, objects.end());
  const auto missing = object::join(fewer, "chain");
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("nothing defines `f"), std::string::npos) << missing.error().message;
  auto more = objects;
  more.push_back(objects[0]);
  const auto twice = object::join(more, "chain");
  ASSERT_FALSE(twice.ok());
  EXPECT_NE(twice.error().message.find("is defined twice"), std::string::npos) << twice.error().message;
}

TEST(Join, BytesThatAreCutShortGiveAnError) {
  std::vector<std::string> objects;
  for (const auto& part : split(chain())) objects.push_back(compiled(part, host()));
  const auto whole = objects[1];
  for (std::size_t size = 0; size < whole.size(); size += 97) {
    objects[1] = whole.substr(0, size);
    EXPECT_FALSE(object::join(objects, "chain").ok()) << size;
  }
}

TEST(Join, ManglingAnyByteNeverReachesOutsideOfThem) {
  std::vector<std::string> objects;
  for (const auto& part : split(chain())) objects.push_back(compiled(part, host()));
  const auto whole = objects[2];
  for (std::size_t at = 0; at < whole.size(); at += 41) {
    objects[2] = whole;
    objects[2][at] = static_cast<char>(objects[2][at] ^ 0xFF);
    const auto joined = object::join(objects, "chain");  // sanitizers would see it
    if (joined) (void)object::read_elf_object(*joined, "chain");
  }
}

}  // namespace
}  // namespace weft::llvm
