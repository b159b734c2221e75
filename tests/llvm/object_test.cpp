#include "runtime/llvm/orc.h"
#include "runtime/object/elf.h"
#include "runtime/object/loaded_object.h"
#include "tests/llvm/kernels.h"

#include <algorithm>
#include <fstream>
#include <random>
#include <sstream>

namespace weft::llvm {
namespace {

using object::LoadedObject;

/// Everything the probe can do, as numbers.
template <typename Object>
std::vector<double> exercise(const Object& loaded) {
  const auto branches = reinterpret_cast<std::int64_t (*)(std::int64_t)>(loaded.symbol("branches"));
  const auto weigh = reinterpret_cast<void (*)(float*, std::int64_t)>(loaded.symbol("weigh"));
  EXPECT_NE(branches, nullptr);
  EXPECT_NE(weigh, nullptr);
  std::vector<double> out;
  if (branches == nullptr || weigh == nullptr) return out;
  for (std::int64_t which : {0, 1, 2, 3, 4, 5, 6, 0, 0}) out.push_back(static_cast<double>(branches(which)));
  std::vector<float> values(24);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 4;
  weigh(values.data(), 24);
  out.insert(out.end(), values.begin(), values.end());
  return out;
}

std::vector<double> expected_numbers() {
  std::vector<double> out = {3, 42, 25, 81, 200, -6, 7, 6, 9};
  for (int i = 0; i < 24; ++i) out.push_back(i / 4.0 * (1 << i % 8) + (i % 2 == 0 ? 0.5 : 0.25));
  return out;
}

std::string host_object() { return compiled(kProbeIr, host_target()); }

TEST(LoadedObject, CodeRunsForEveryTargetThisMachineExecutes) {
  int executed = 0;
  for (const Target& target : cpu_targets()) {
    if (!host_can_execute(target)) continue;
    SCOPED_TRACE(target.name);
    const auto loaded = LoadedObject::load(compiled(kProbeIr, target), "probe");
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    EXPECT_EQ(exercise(**loaded), expected_numbers());
    ++executed;
  }
  EXPECT_GE(executed, 1);
}

TEST(LoadedObject, AgreesWithLlvmsOwnLoader) {
  const std::string bytes = host_object();
  const auto ours = LoadedObject::load(bytes, "probe");
  const auto theirs = OrcObject::load(library(), bytes, "probe");
  ASSERT_TRUE(ours.ok()) << ours.error().message;
  ASSERT_TRUE(theirs.ok()) << theirs.error().message;
  EXPECT_EQ(exercise(**ours), exercise(**theirs));
  EXPECT_EQ((*ours)->symbol("absent"), nullptr);
  EXPECT_EQ((*theirs)->symbol("absent"), nullptr);
}

TEST(LoadedObject, EachLoadHasDataOfItsOwn) {
  const std::string bytes = host_object();
  const auto first = LoadedObject::load(bytes, "probe");
  const auto second = LoadedObject::load(bytes, "probe");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(exercise(**first), expected_numbers());
  EXPECT_EQ(exercise(**second), expected_numbers()) << "the counter starts anew";
}

/// The permissions of the mapping that holds an address, from /proc/self/maps.
std::string permissions(const void* address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    std::string bits;
    std::istringstream(line) >> std::hex >> begin >> dash >> end >> bits;
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    if (at >= begin && at < end) return bits;
  }
  return "unmapped";
}

TEST(LoadedObject, NothingIsWritableAndExecutableAndAllIsUnmapped) {
  const std::string bytes = compiled(
      "@constant = constant i64 5\n@variable = global i64 6\n@zero = global i64 0\n"
      "define void @code() nounwind {\n  ret void\n}\n",
      host_target());
  auto loaded = LoadedObject::load(bytes, "sections");
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  const void* code = (*loaded)->symbol("code");
  const void* constant = (*loaded)->symbol("constant");
  EXPECT_EQ(permissions(code), "r-xp");
  EXPECT_EQ(permissions(constant), "r--p");
  EXPECT_EQ(permissions((*loaded)->symbol("variable")), "rw-p");
  EXPECT_EQ(permissions((*loaded)->symbol("zero")), "rw-p");
  EXPECT_EQ(*static_cast<const std::int64_t*>(constant), 5);
  EXPECT_EQ(*static_cast<const std::int64_t*>((*loaded)->symbol("zero")), 0);
  *loaded = nullptr;
  EXPECT_NE(permissions(code), "r-xp");
}

TEST(LoadedObject, AbsoluteAddressesReachTheirTargets) {
  // The three widths: 32 bits zero-extended, 32 sign-extended, 64. The first two need low memory.
  for (const char* instruction : {"movl $$table, ${0:k}", "movq $$table, $0", "movabsq $$table, $0"}) {
    const std::string ir = std::string("@table = hidden constant i64 77\ndefine i64 @f() nounwind {\n") +
                           "  %p = call ptr asm \"" + instruction +
                           "\", \"=r\"()\n  %v = load i64, ptr %p\n  ret i64 %v\n}\n";
    const auto loaded = LoadedObject::load(compiled(ir, host_target()), "probe");
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    const auto f = reinterpret_cast<std::int64_t (*)()>((*loaded)->symbol("f"));
    ASSERT_NE(f, nullptr);
    EXPECT_EQ(f(), 77) << instruction;
  }
}

TEST(LoadedObject, RefusesWhatKernelsMustNotHave) {
  const std::pair<const char*, const char*> cases[] = {
      {"declare void @elsewhere()\ndefine void @f() {\n  call void @elsewhere()\n  ret void\n}\n",
       "needs the symbol `elsewhere`"},
      {"@t = thread_local global i32 1\n", "thread-local"},
      {"@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 1, ptr @f, ptr null }]\n"
       "define internal void @f() {\n  ret void\n}\n",
       "constructors"},
      {"@g = global i32 1\ndefine ptr @f() {\n  ret ptr @g\n}\n", "relocation type"}};
  for (const auto& [ir, expected] : cases) {
    const auto loaded = LoadedObject::load(compiled(ir, host_target()), "probe");
    ASSERT_FALSE(loaded.ok()) << ir;
    EXPECT_EQ(loaded.error().kind, ErrorKind::internal);
    EXPECT_NE(loaded.error().message.find(expected), std::string::npos) << loaded.error().message;
  }
}

/// Loads a copy that ends where its memory ends, so that AddressSanitizer sees a read beyond it.
bool loads(const std::string& bytes) {
  const std::vector<char> exact(bytes.begin(), bytes.end());
  return LoadedObject::load({exact.data(), exact.size()}, "hostile").ok();
}

TEST(LoadedObjectFuzz, EveryTruncationIsAnErrorUpToTheSectionTable) {
  const std::string bytes = host_object();
  ASSERT_TRUE(loads(bytes));
  // LLVM writes the section table last: whatever is cut, a part of it is.
  for (std::size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(loads(bytes.substr(0, size))) << size;
}

TEST(LoadedObjectFuzz, FlippedBitsNeverCrash) {
  const std::string bytes = host_object();
  std::size_t refused = 0;
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    refused += loads(flipped) ? 0U : 1U;
  }
  EXPECT_GT(refused, bytes.size() / 2) << "the checks are not reached";
}

TEST(LoadedObjectFuzz, SplicedNumbersNeverCrash) {
  const std::string bytes = host_object();
  std::mt19937_64 random(20240229);
  const std::uint64_t favourites[] = {0,          1,          0x7F,       0xFFFF, 0x7FFFFFFF,
                                      0xFFFFFFFF, 1ULL << 32, 1ULL << 63, ~0ULL,  ~0ULL - 7};
  std::size_t refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string spliced = bytes;
    for (int patch = 0; patch < 1 + round % 3; ++patch) {
      const std::size_t width = std::size_t{1} << random() % 4;
      const std::uint64_t value = random() % 2 == 0 ? favourites[random() % std::size(favourites)] : random();
      std::copy_n(reinterpret_cast<const char*>(&value), width,
                  spliced.begin() + static_cast<std::ptrdiff_t>(random() % (spliced.size() - width)));
    }
    refused += loads(spliced) ? 0U : 1U;
  }
  EXPECT_GT(refused, 1000U);
}

}  // namespace
}  // namespace weft::llvm
