#include "codegen/cpu/emit.h"
#include "codegen/cuda/emit.h"
#include "compiler/planner/planner.h"
#include "tests/support/random_program.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>

/// What compilers are given holds no word of the user's: random programs with every name marked, and not a mark in
/// what is emitted for them.
namespace weft::test {
namespace {

constexpr const char* kMark = "zq";

/// Names that the text declares: patterns, inputs, and constants, parameters and sets, which the generator numbers.
std::set<std::string> names_of(const std::string& text) {
  std::set<std::string> out;
  for (const char* declared : {R"((?:pattern|input)\s+([a-z_][a-z_0-9]*))", R"(\b([cpl][0-9]+)\b)"}) {
    const std::regex name(declared);
    for (std::sregex_iterator at(text.begin(), text.end(), name), end; at != end; ++at) out.insert((*at)[1]);
  }
  return out;
}

Program marked(Program program) {
  for (const auto& name : names_of(program.text)) {
    program.text = std::regex_replace(program.text, std::regex("\\b" + name + "\\b"), kMark + name);
  }
  if (!program.pattern.empty()) program.pattern = kMark + program.pattern;
  for (auto& define : program.defines) define = kMark + define;
  return program;
}

TEST(Tokens, OfRandomProgramsAreOurs) {
  int emitted = 0, refused = 0;
  for (std::uint64_t seed = 7000; seed < 7120; ++seed) {
    const Program plain = random_program(seed), program = marked(plain);
    ASSERT_NE(program.text.find(kMark), std::string::npos);
    const auto pattern = lowered(program);
    ASSERT_EQ(pattern.ok(), lowered(plain).ok()) << program.text << pattern.error().message;
    if (!pattern.ok()) continue;
    const ir::Bind bind{.d = program.shape.d, .d_v = program.shape.d_v, .dtype = program.dtype};
    for (const char* name : {"cpu:x86-64-v3", "sm_61"}) {
      const auto target = find_target(name);
      ASSERT_TRUE(target.ok());
      const auto plan = planner::plan(*pattern, bind, *target);
      if (!plan.ok()) {
        ++refused;
        continue;
      }
      const auto source =
          target->kind == TargetKind::cuda ? codegen::cuda::emit(*plan, *target) : codegen::cpu::emit(*plan, *target);
      const auto found = source.text.find(kMark);
      ASSERT_EQ(found, std::string::npos) << source.text.substr(found, 80) << "\n" << program.text;
      ++emitted;
    }
  }
  EXPECT_GT(emitted, 10 * refused) << "too few texts say anything";
  EXPECT_GT(emitted, 100);
}

}  // namespace
}  // namespace weft::test
