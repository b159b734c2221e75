#include "runtime/llvm/parts.h"
#include "runtime/llvm/orc.h"
#include "runtime/object/elf.h"
#include "runtime/object/join.h"
#include "runtime/object/loaded_object.h"
#include "tests/llvm/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace weft::llvm {
namespace {

constexpr int kFunctions = 400;

/// @entry adds up what a chain of internal functions say, each of which calls the one before; every other one is left
/// as it stands. Doubles, so that there are constants.
std::string chain() {
  std::string text = "target triple = \"x86_64-unknown-linux-gnu\"\n\ndeclare double @llvm.fabs.f64(double)\n\n";
  for (int i = 0; i < kFunctions; ++i) {
    text += fmt::format("; number {0}\ndefine internal double @f{0}(double %x, ptr %unused) #{1} {{\n", i, i % 2);
    text += i == 0 ? "  %before = call double @llvm.fabs.f64(double %x)\n"
                   : fmt::format("  %before = call double @f{}(double %x, ptr %unused)\n", i - 1);
    for (int step = 0; step < 4; ++step) {
      text += fmt::format("  %r{} = fadd double {}, {}.5\n", step,
                          step == 0 ? "%before" : fmt::format("%r{}", step - 1), i + step);
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

TEST(LlvmParts, EachFunctionIsDefinedOnceAndDeclaredElsewhere) {
  const auto parts = split(chain(), 8);
  ASSERT_EQ(parts.size(), 8U);
  std::size_t least = parts[0].size(), most = 0;
  for (int i = 0; i < kFunctions; ++i) {
    int defined = 0, declared = 0;
    for (const auto& part : parts) {
      const auto head = fmt::format("hidden double @f{}(double %x, ptr %unused)", i);
      defined += part.find("define " + head) != std::string::npos;
      declared += part.find("declare " + head + "\n") != std::string::npos;
    }
    EXPECT_EQ(defined, 1) << i;
    EXPECT_EQ(declared, 7) << i;
  }
  for (const auto& part : parts) {
    least = std::min(least, part.size());
    most = std::max(most, part.size());
  }
  EXPECT_LT(static_cast<double>(most), 1.5 * static_cast<double>(least));
}

TEST(LlvmParts, ShortTextsDataAndSinglePartsStayWhole) {
  EXPECT_EQ(split(kProbeIr, 8), std::vector<std::string>{kProbeIr});
  EXPECT_EQ(split(chain(), 1), std::vector<std::string>{chain()});
  const auto with_data = "@table = internal global i64 0\n" + chain();
  EXPECT_EQ(split(with_data, 8), std::vector<std::string>{with_data});
}

TEST(LlvmParts, TogetherTheyAreTheWhole) {
  const auto bytes = compiled(chain(), host());
  ASSERT_EQ(split(chain(), Options{}.parts).size(), 8U);
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
  for (int i = 0; i < 6; ++i) seen.insert(compiled(chain(), host()));
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
  for (const auto& part : split(chain(), 8)) objects.push_back(compiled(part, host()));
  ASSERT_TRUE(object::join(objects, "chain").ok());
  const std::vector<std::string> fewer(objects.begin(), objects.end() - 1);
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
  for (const auto& part : split(chain(), 8)) objects.push_back(compiled(part, host()));
  const auto whole = objects[1];
  for (std::size_t size = 0; size < whole.size(); size += 97) {
    objects[1] = whole.substr(0, size);
    EXPECT_FALSE(object::join(objects, "chain").ok()) << size;
  }
}

TEST(Join, ManglingAnyByteNeverReachesOutsideOfThem) {
  std::vector<std::string> objects;
  for (const auto& part : split(chain(), 8)) objects.push_back(compiled(part, host()));
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
