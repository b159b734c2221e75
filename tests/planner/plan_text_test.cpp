#include "compiler/ir/few_rows.h"
#include "compiler/ir/plan.h"
#include "compiler/ir/tables.h"
#include "compiler/planner/planner.h"
#include "tests/support/random_pattern.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <random>

/// A plan's text is fed back by users (`--from plan.txt`) and read from stores: both ways, and whatever it holds.
namespace weft::ir {
namespace {

Pattern longnet() {
  Pattern p;
  p.name = "longnet";
  for (const auto& [w, r] : {std::pair<std::int64_t, std::int64_t>{2048, 1}, {4096, 2}, {8192, 4}}) {
    const auto phase = apply(Op::modulo, {variable(Variable::h), constant(r)});
    const auto set = make_dilated(w, r, phase, false);
    p.branches.push_back({.set = make_set(SetKind::intersection, std::vector<SetPtr>{set, make_set(SetKind::causal)}),
                          .heads = {},
                          .range = {}});
  }
  return p;
}

Plan sound() {
  auto made = planner::plan(longnet(), {.d = 64, .d_v = 64}, find_target("cpu:x86-64-v4").value());
  EXPECT_TRUE(made.ok()) << made.error().message;
  return std::move(*made);
}

TEST(PlanText, SaysThePlanInTermsOfThePattern) {
  EXPECT_EQ(print(sound()).substr(0, print(sound()).find("reason")),
            "weft plan 1\n"
            "name longnet\n"
            "target cpu\n"
            "bind d 64 d_v 64 dtype f32 branch_lse 0\n"
            "combine joint branches 3\n"
            "choices vector tile_q 64 tile_k 128 sub_q 16 sub_k 8 micro_k 4 micro_q 4 few_q 4\n"
            "phase attend carry none stationary query\n"
            "  tiles classes of 64 descending\n"
            "  by segment 4096 rate 2 phase (mod h 2)\n"
            "  by segment 8192 rate 4 phase (mod h 4)\n"
            "  pass weight count out 1 factor 1 lse -1 branches 0 1 2\n"
            "    range branch 0 heads all\n"
            "      from floor(x,2048)\n"
            "      below x+1\n"
            "    range branch 1 heads all\n"
            "      stream segment 4096 rate 2 phase (mod h 2)\n"
            "      from floor(x,4096)\n"
            "      below x+1\n"
            "      rows segment 4096 rate 2 phase (mod h 2)\n"
            "    range branch 2 heads all\n"
            "      stream segment 8192 rate 4 phase (mod h 4)\n"
            "      from floor(x,8192)\n"
            "      below x+1\n"
            "      rows segment 8192 rate 4 phase (mod h 4)\n");
}

TEST(PlanText, ShowsWhatALaunchRuns) {
  const std::string text = print(sound());
  const std::string steps =
      "step attend phase 0 text few_queries when few_queries units head_groups*tiles*shares\n"
      "step attend phase 0 when many_queries units head_groups*tiles*shares\n";
  ASSERT_TRUE(text.ends_with(steps)) << text;
  const auto without = text.substr(0, text.size() - steps.size());
  EXPECT_EQ(print(parse_plan(without).value()), text) << "they follow from the plan";
  const auto other = parse_plan(without + "step attend phase 0 units head_groups*tiles*shares\n");
  ASSERT_FALSE(other.ok()) << "steps of another plan";
  EXPECT_EQ(other.error().message.find("the steps are not those of the plan: 'step attend phase 0 units"), 0U)
      << other.error().message;
  EXPECT_FALSE(parse_plan(without + steps.substr(0, steps.find('\n') + 1)).ok()) << "one is missing";
  EXPECT_FALSE(parse_plan(text + "name another\n").ok()) << "text behind them";
}

TEST(PlanText, KeepsHowFarApartTheRowsOfPatchesStand) {
  Plan p = sound();
  p.phases[0].rows.by.clear();
  p.phases[0].rows.modulus = 4096;
  p.phases[0].rows.line = 64;
  p.phases[0].rows.patch = p.phases[0].rows.patch_lines = 4;
  p.phases[0].rows.step = 3;
  p.phases[0].rows.line_step = 2;
  ASSERT_TRUE(verify(p).empty());
  const auto again = parse_plan(print(p));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->phases[0].rows.step, 3);
  EXPECT_EQ(again->phases[0].rows.line_step, 2);
  EXPECT_EQ(print(*again), print(p));
}

TEST(PlanText, CutsOfKeysAreKeptAndVerified) {
  Pattern p;
  p.name = "causal";
  p.branches.push_back({.set = make_set(SetKind::causal), .heads = {}, .range = {}});
  const auto plan = planner::plan(p, {.d = 64, .d_v = 64, .dtype = DType::f16}, find_target("sm_80").value());
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->cuts.size(), 2);
  EXPECT_NE(print(*plan).find("cut rows 16 keys 256 most 64\ncut rows 256 keys 2048 most 32\n"), std::string::npos);
  const auto again = parse_plan(print(*plan));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->cuts, plan->cuts);
  const auto breaks = [&](const char* what, const std::function<void(Plan&)>& change) {
    Plan changed = *plan;
    ASSERT_TRUE(verify(changed).empty());
    change(changed);
    EXPECT_FALSE(verify(changed).empty()) << what;
    EXPECT_FALSE(parse_plan(print(changed)).ok()) << what;
  };
  breaks("rows that fall", [](Plan& q) { std::swap(q.cuts[0], q.cuts[1]); });
  breaks("chunks of parts of blocks", [](Plan& q) { q.cuts[0].keys += 1; });
  breaks("chunks without keys", [](Plan& q) { q.cuts[1].keys = 0; });
  breaks("one chunk", [](Plan& q) { q.cuts[0].most = 1; });
  breaks("more chunks than blocks of threads take", [](Plan& q) { q.cuts[0].most = kMostShares + 1; });
  breaks("more softmaxes than that", [](Plan& q) {
    q.phases[0].passes.resize(5, q.phases[0].passes[0]);  // 32 chunks of five
  });
}

TEST(PlanText, DecodingIsKeptAndVerified) {
  Pattern p;
  p.name = "causal";
  p.branches.push_back({.set = make_set(SetKind::causal), .heads = {}, .range = {}});
  const auto plan = planner::plan(p, {.d = 64, .d_v = 64, .dtype = DType::f16}, find_target("sm_80").value());
  ASSERT_TRUE(plan.ok());
  const auto again = parse_plan(print(*plan));
  ASSERT_TRUE(again.ok());
  ASSERT_TRUE(again->decoding);
  EXPECT_EQ(print(*again->decoding), print(*plan->decoding));
  const auto breaks = [&](const char* what, const std::function<void(Choices&)>& change) {
    Choices choices = plan->decoding->choices;
    change(choices);
    Plan changed = *plan;
    changed.decoding = std::make_shared<const Plan>(decoding_plan(*plan, choices));
    EXPECT_FALSE(verify(changed).empty()) << what;
    EXPECT_FALSE(parse_plan(print(changed)).ok()) << what;
  };
  breaks("tiles of more rows", [](Choices& c) { c.tile_q = 32; });
  breaks("keys that warps do not share", [](Choices& c) { c.tile_k = 48; });
  breaks("groups of warps", [](Choices& c) { c.groups = 1; });
  breaks("plain lanes", [](Choices& c) { c.kernel_class = KernelClass::simt; });
  Plan other = *plan, changed = *plan;
  other.dropout = 0.5;
  changed.decoding = std::make_shared<const Plan>(decoding_plan(other, plan->decoding->choices));
  EXPECT_FALSE(verify(changed).empty()) << "another pattern's";
}

TEST(PlanText, EveryInvariantIsVerified) {
  const auto breaks = [](const char* what, const std::function<void(Plan&)>& change) {
    Plan p = sound();
    ASSERT_TRUE(verify(p).empty());
    change(p);
    EXPECT_FALSE(verify(p).empty()) << what;
    EXPECT_FALSE(parse_plan(print(p)).ok()) << what;
  };
  breaks("head dim", [](Plan& p) { p.bind.d = 0; });
  breaks("value dim", [](Plan& p) { p.bind.d_v = 264; });
  breaks("tile", [](Plan& p) { p.choices.tile_q = 72; });
  breaks("tile of a phase", [](Plan& p) { p.phases[0].rows.tile = 128; });
  breaks("tile of zero", [](Plan& p) { p.choices.sub_k = 0; });
  breaks("few queries, fewer than none", [](Plan& p) { p.choices.few_q = -1; });
  breaks("few queries and columns that fill no vectors", [](Plan& p) { p.bind.d = 56; });
  breaks("few queries of a backward pass", [](Plan& p) { p.bind.gradient = true; });
  breaks("cuts of CPUs", [](Plan& p) { p.cuts = {{.rows = 16, .keys = 512, .most = 32}}; });
  breaks("no phase", [](Plan& p) { p.phases.clear(); });
  breaks("carry from nowhere", [](Plan& p) { p.phases[0].carry = Carry::in; });
  breaks("carry to nowhere", [](Plan& p) { p.phases[0].carry = Carry::out; });
  breaks("no pass", [](Plan& p) { p.phases[0].passes.clear(); });
  breaks("foreign branch", [](Plan& p) { p.phases[0].passes[0].ranges[1].branch = 7; });
  breaks("rate 0", [](Plan& p) { p.phases[0].passes[0].ranges[1].stream.rate = 0; });
  breaks("segment of 0", [](Plan& p) { p.phases[0].passes[0].ranges[0].lo[0].a = 0; });
  breaks("input", [](Plan& p) { p.phases[0].passes[0].ranges[0].hi.push_back({Bound::Kind::input, 3, 0, 0}); });
  breaks("part", [](Plan& p) { p.phases[0].passes[0].ranges[0].hi.push_back({Bound::Kind::part, 2, 3, 0}); });
  breaks("row condition", [](Plan& p) {
    p.phases[0].passes[0].ranges[0].rows.push_back({{Bound::Kind::row, 0, 0, 0}, true});
  });
  breaks("members", [](Plan& p) { p.phases[0].rows.by.clear(); });
  breaks("steps of patches", [](Plan& p) {
    p.phases[0].rows.by.clear();
    p.phases[0].rows.modulus = 64;
    p.phases[0].rows.step = 0;
  });
  breaks("member of rate 1", [](Plan& p) { p.phases[0].rows.by[0].rate = 1; });
  breaks("LSE slot", [](Plan& p) { p.phases[0].passes[0].lse_slot = 3; });
}

Plan with_summary() {
  Plan p = sound();
  const ExprPtr q = variable(Variable::q), k = variable(Variable::k);
  p.predicates.push_back(
      {.holds = nullptr, .key = apply(Op::divide, {k, constant(3)}), .lo = q, .hi = q, .modulus = 0});
  p.predicates.push_back(
      {.holds = apply(Op::less, {q, k}), .key = nullptr, .lo = nullptr, .hi = nullptr, .modulus = 0});
  p.predicates.push_back(
      {.holds = apply(Op::less, {q, q}), .key = nullptr, .lo = nullptr, .hi = nullptr, .modulus = 0});
  p.lists.push_back({.kind = List::Kind::spans, .block = kSummaryBlock, .predicate = 0});
  p.lists.push_back({.kind = List::Kind::meets, .block = kSummaryBlock, .predicate = 1});
  return p;
}

TEST(PlanText, SummariesAreVerified) {
  ASSERT_TRUE(verify(with_summary()).empty()) << verify(with_summary())[0];
  const std::string text = print(with_summary());
  EXPECT_NE(text.find("summary spans of 0 block 64\nsummary meets of 1 block 64\n"), std::string::npos);
  EXPECT_EQ(print(parse_plan(text).value()), text);
  const auto breaks = [](const char* what, const std::function<void(Plan&)>& change) {
    Plan p = with_summary();
    change(p);
    EXPECT_FALSE(verify(p).empty()) << what;
    EXPECT_FALSE(parse_plan(print(p)).ok()) << what;
  };
  breaks("condition that is not there", [](Plan& p) { p.lists[0].predicate = 3; });
  breaks("no condition", [](Plan& p) { p.lists[0].predicate = -1; });
  breaks("another block", [](Plan& p) { p.lists[0].block = 32; });
  breaks("truth as an interval", [](Plan& p) { p.lists[0].predicate = 1; });
  breaks("interval as a truth", [](Plan& p) { p.lists[1].predicate = 0; });
  breaks("condition on rows", [](Plan& p) { p.lists[1].predicate = 2; });
  const List random{.kind = List::Kind::random, .count = 1, .block = 4};
  breaks("list behind them", [&](Plan& p) { p.lists.push_back(random); });
  breaks("read as a list",
         [](Plan& p) { p.predicates[2].holds = listed(1, variable(Variable::q), variable(Variable::k)); });
  Plan sound = with_summary();
  sound.lists.insert(sound.lists.begin(), random);
  EXPECT_TRUE(verify(sound).empty()) << "a list in front of them";
}

TEST(PlanText, WhoChoseKeysIsVerified) {
  Plan p = sound();
  p.lists.push_back({.kind = List::Kind::random, .count = 1, .block = 32});
  p.predicates.push_back({.holds = listed(0, variable(Variable::q), variable(Variable::k)),
                          .key = nullptr,
                          .lo = nullptr,
                          .hi = nullptr,
                          .modulus = 0});
  p.predicates.push_back({.holds = apply(Op::less, {variable(Variable::q), variable(Variable::k)}),
                          .key = nullptr,
                          .lo = nullptr,
                          .hi = nullptr,
                          .modulus = 0});
  p.lists.push_back({.kind = List::Kind::choosers, .block = 32, .predicate = 0});
  ASSERT_TRUE(verify(p).empty()) << verify(p)[0];
  const std::string text = print(p);
  EXPECT_NE(text.find("summary choosers of 0 block 32\n"), std::string::npos) << text;
  EXPECT_EQ(print(parse_plan(text).value()), text);
  p.lists[1].block = 16;
  EXPECT_FALSE(verify(p).empty()) << "other blocks than the list's";
  p.lists[1] = {.kind = List::Kind::choosers, .block = 32, .predicate = 1};
  EXPECT_FALSE(verify(p).empty()) << "a condition that no list says";
}

TEST(PlanText, OtherFormatsAreRefusedByNumber) {
  std::string text = print(sound());
  text.replace(text.find("plan 1"), 6, "plan 9");
  const auto got = parse_plan(text);
  ASSERT_FALSE(got.ok());
  EXPECT_NE(got.error().message.find("format 9"), std::string::npos);
  EXPECT_FALSE(parse_plan("").ok());
  EXPECT_FALSE(parse_plan("ELF").ok());
}

TEST(PlanText, HostileTextEndsSoonAndCleanly) {
  const std::string text = print(sound());
  std::mt19937 generator(11);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 3000; ++i) {
    std::string bad = text;
    for (auto change = generator() % 6 + 1; change > 0; --change) {
      const std::size_t at = generator() % bad.size();
      switch (generator() % 4) {
        case 0:
          bad[at] = static_cast<char>(generator());
          break;
        case 1:
          bad.erase(at, generator() % 40);
          break;
        case 2:
          bad.insert(at, text.substr(generator() % text.size(), generator() % 60));
          break;
        default:
          bad.insert(at, "99999999999999999999");
          break;
      }
    }
    const auto got = parse_plan(bad);
    // What still is a plan must hold up: it verifies, prints, and its tables can be made or are refused.
    if (!got.ok()) continue;
    EXPECT_TRUE(verify(*got).empty());
    EXPECT_TRUE(parse_plan(print(*got)).ok());
    (void)make_tables(*got, 3).ok();
  }
  EXPECT_FALSE(parse_plan("weft plan 1\nphase attend carry none stationary query\nby segment 1 rate 2 phase " +
                          std::string(100000, '('))
                   .ok());
  EXPECT_FALSE(parse_plan(std::string(std::size_t{3} << 20, 'x')).ok());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

}  // namespace
}  // namespace weft::ir
