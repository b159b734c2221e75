#include "tests/programs/checks.h"
#include "tests/support/random_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

/// The tools of these tests: the generator reaches everything, files keep programs, and shrinking finds the heart.
namespace weft::test {
namespace {

TEST(RandomProgram, ReachesTheWholeLanguage) {
  const std::vector<std::string> words = {"all",
                                          "causal",
                                          "window(",
                                          "segment(",
                                          "dilated(segment:",
                                          "queries: all",
                                          "strided(",
                                          "lag(",
                                          "sink(",
                                          "global(",
                                          "prefix(",
                                          "neighborhood(size: [",
                                          "neighborhood(size: 2",
                                          "dilation:",
                                          "stride:",
                                          "blocks(",
                                          "random(",
                                          "axial",
                                          "document(",
                                          "lengths(",
                                          "table(",
                                          "by: pooled",
                                          "by: input(",
                                          "causal: true",
                                          "where(",
                                          " & ",
                                          " | ",
                                          " - ",
                                          "!",
                                          "any(",
                                          "all(",
                                          "sum(",
                                          " in [",
                                          "len(",
                                          "..",
                                          "<=",
                                          "!=",
                                          " and ",
                                          " or ",
                                          "not ",
                                          "select(",
                                          "min(",
                                          "max(",
                                          "abs(",
                                          "int",
                                          "real",
                                          "bool",
                                          "[int]",
                                          "[real]",
                                          "const ",
                                          "let ",
                                          "use ",
                                          "on heads",
                                          "groups_last",
                                          "groups)",
                                          "partial(",
                                          "heads: [",
                                          "% rate",
                                          "joint;",
                                          "joint detached;",
                                          "union;",
                                          "sum;",
                                          "mean;",
                                          "scale 0;",
                                          "scale -0.5;",
                                          "score ",
                                          "softcap(",
                                          "tanh(",
                                          "sigmoid(",
                                          "log(",
                                          "exp(",
                                          "sqrt(",
                                          "alibi(",
                                          "dropout ",
                                          "grid ",
                                          "tokens ",
                                          "ring ",
                                          "schedule ",
                                          "dtype ",
                                          "u8[",
                                          "i32[",
                                          "f32[",
                                          "batch, tokens",
                                          "queries, keys",
                                          "blocks, blocks"};
  std::map<std::string, int> seen;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const Program program = random_program(seed);
    for (const auto& word : words) seen[word] += program.text.find(word) != std::string::npos;
    const ir::Shape& s = program.shape;
    seen["-D"] += !program.defines.empty();
    seen["shared heads"] += s.heads != s.kv_heads;
    seen["other n_q"] += s.n_q != s.n_k;
    seen["offset"] += s.offset.size() == 1;
    seen["offsets"] += s.offset.size() > 1;
    seen["odd dims"] += s.d % 8 != 0;
    seen["large dims"] += s.d > 128;
    seen["f16"] += program.dtype == ir::DType::f16;
    seen["bf16"] += program.dtype == ir::DType::bf16;
  }
  for (const auto& [what, times] : seen) EXPECT_GT(times, 2) << what;
}

TEST(RandomProgram, TheSameOnEveryPlatform) {
  EXPECT_EQ(to_file(random_program(6)),
            "pattern p(p0: int = 8, p1: int, p2: int = 1) {\n"
            "  grid 1, 7;\n"
            "  input nearqueries: u8[queries];\n"
            "  let l0 = !causal | (causal);\n"
            "  branch ((where(((not (nearqueries[q] >= 2)) != ((q) in [0])) or (k != (select(k == q - k < k, k, 3)) % "
            "(k + (q) + q) > H))) & (where(min(9, q) < k < 9))) & (!((causal))) | (where(k % 5 == 2 or q == k));\n"
            "  scale select(abs(q - k) <= 1, 0.5, 0.25);\n"
            "}\n"
            "# run: pattern p dtype f32 seed 50 branch_lse 1\n"
            "# run: batch 2 n_q 7 n_k 7 heads 3 kv 3 d 200 d_v 17\n"
            "# run: define p1=4\n");
}

TEST(RandomProgram, FilesKeepPrograms) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const std::string text = to_file(random_program(seed));
    const auto again = from_file(text);
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ(to_file(*again), text);
  }
  EXPECT_FALSE(from_file("pattern p { }").ok());
  EXPECT_FALSE(from_file("# run: pattern p n_q x").ok());
}

// ---------------------------------------------------------------- shrinking

std::int64_t lines_of(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

/// A fault in the planner, so to speak: windows reach one key too far.
ir::SetPtr wide_windows(const ir::SetPtr& set) {
  if (set->kind == ir::SetKind::window) return ir::make_set(set->kind, {set->args[0] + 1, set->args[1]});
  if (set->children.empty() || set->kind == ir::SetKind::blocks) return set;
  std::vector<ir::SetPtr> children;
  for (const auto& child : set->children) children.push_back(wide_windows(child));
  return ir::make_set(set->kind, std::move(children));
}

TEST(Shrink, FindsAPlantedFault) {
  const Checks checks{.twist = [](const ir::Pattern& pattern) {
    ir::Pattern twisted = pattern;
    for (auto& branch : twisted.branches) branch.set = wide_windows(branch.set);
    return twisted;
  }};
  int found = 0;
  for (std::uint64_t seed = 0; seed < 2000 && found < 5; ++seed) {
    Reached reached;
    const Program program = random_program(seed, {.any_dims = false});
    const auto fails = [&](const Program& p) { return examine(p, checks, reached).stage == "pairs"; };
    if (!fails(program)) continue;
    ++found;
    const Program small = shrink(program, fails, 30);
    EXPECT_TRUE(fails(small));
    EXPECT_NE(small.text.find("window("), std::string::npos) << to_file(small);
    EXPECT_LE(lines_of(small.text), 4) << to_file(small);
    EXPECT_LE(small.text.size(), 60U) << to_file(small);
    EXPECT_LE(small.shape.n_k, 3) << to_file(small);
    EXPECT_EQ(small.shape.heads, 1) << to_file(small);
    EXPECT_TRUE(small.defines.empty()) << to_file(small);
    EXPECT_TRUE(examine(small, {}, reached).ok()) << "the fault is the planted one";
  }
  EXPECT_EQ(found, 5);
}

TEST(Shrink, KeepsNamesOnlyWhereTheyMatter) {
  Program program{.text =
                      "const c = 4;\n"
                      "pattern part(w: int = 2) { keep lag(w); }\n"
                      "pattern p(a: int = 3, r: real = 0.5, l: [int] = [1, 2]) {\n"
                      "  let near = window(a, c) & causal;\n"
                      "  branch near | where(any(x in l: q - k == x));\n"
                      "  use part(w: a);\n"
                      "  score s * r;\n"
                      "}\n",
                  .pattern = "p",
                  .defines = {"a=5"},
                  .shape = {.batch = 2, .n_q = 20, .n_k = 30, .heads = 4, .kv_heads = 2, .d = 8, .d_v = 16}};
  const auto fails = [](const Program& p) {
    const auto pattern = lowered(p);
    return pattern.ok() && ir::print(*pattern).find("window") != std::string::npos && p.shape.n_k > 7;
  };
  ASSERT_TRUE(fails(program));
  EXPECT_EQ(to_file(shrink(program, fails, 20)),
            "pattern p {\n"
            "  branch window(0, 0);\n"
            "}\n"
            "# run: pattern p dtype f32 seed 0 branch_lse 0\n"
            "# run: batch 1 n_q 1 n_k 8 heads 1 kv 1 d 1 d_v 1\n");
}

}  // namespace
}  // namespace weft::test
