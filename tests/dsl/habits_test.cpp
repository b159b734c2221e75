// What people write out of habit, and slips of the hand: each is told with a fix, and the fix is what was meant.

#include "texts.h"

#include "dsl/parse.h"
#include "tests/support/blessed.h"
#include "tests/support/random_numbers.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace weft::test {
namespace {

struct Habit {
  const char* written;
  const char* meant;  ///< statements; empty where no fix may be offered, since none is surely right
};

const Habit kHabits[] = {
    // C
    {"keep where(k <= q && q - k < 8);", "keep where(k <= q and q - k < 8);"},
    {"keep where(k <= q && q - k < 8 && h == 0 || k == 0);", "keep where(k <= q and q - k < 8 and h == 0 or k == 0);"},
    {"keep causal && window(3, 0);", "keep causal & window(3, 0);"},
    {"keep causal && window(3, 0) && strided(2);", "keep causal & window(3, 0) & strided(2);"},
    {"keep sink(2) || window(3, 0);", "keep sink(2) | window(3, 0);"},
    {"score k <= q ? s : 0;", "score select(k <= q, s, 0);"},
    {"score k < q ? s : k == q ? 1 : 0;", "score select(k < q, s, select(k == q, 1, 0));"},
    {"score softcap(h == 0 ? s : 2 * s, 9);", "score softcap(select(h == 0, s, 2 * s), 9);"},
    {"// causal\nkeep causal;", "# causal\nkeep causal;"},
    {"keep causal; // of course\nscore 2 * s;", "keep causal; # of course\nscore 2 * s;"},
    {"keep causal; /* of course */\nscore 2 * s;", "keep causal; # of course */\nscore 2 * s;"},
    {"keep where(!(k > q));", "keep where(not (k > q));"},
    {"keep where(q = k);", "keep where(q == k);"},
    {"keep where(q - 3 = k);", "keep where(q - 3 == k);"},
    // Python
    {"keep where(q // 4 == k // 4);", "keep where(q / 4 == k / 4);"},
    {"score s ** 2;", "score (s * s);"},
    {"score 4 / s**3;", "score 4 / (s * s * s);"},
    {"score s if k > q else 0;", "score select(k > q, s, 0);"},
    {"score s if k > q else 0 if h == 1 else 2 * s;", "score select(k > q, s, select(h == 1, 0, 2 * s));"},
    {"branches dilated(segments=[16, 32], rates = [1, 2]);", "branches dilated(segments: [16, 32], rates: [1, 2]);"},
    {"keep random(3, seed=7);", "keep random(3, seed: 7);"},
    {"schedule { tile_q = 64; }", "schedule { tile_q: 64; }"},
    {"let w: 3; keep window(w, 0);", "let w = 3; keep window(w, 0);"},
    {"keep where(any(r in range(4): q - k == r));", "keep where(any(r in 0..4: q - k == r));"},
    {"keep where(k in range(2, 5));", "keep where(k in 2..5);"},
    {"keep where(True);", "keep where(true);"},
    {"keep window(1_024, 0);", "keep window(1024, 0);"},
    {"keep random(3, seed: 18446744073709551615);", "keep random(3, seed: -1);"},
    {"keep random(3, seed: 18446744073709551616);", ""},
    {"keep window(4K, 0);", "keep window(4k, 0);"},
    {"score s * .5;", "score s * 0.5;"},
    {"score torch.exp(s);", "score exp(s);"},
    {"keep causal\nscore 2 * s;", "keep causal;\nscore 2 * s;"},
    // NumPy and FlexAttention
    {"keep where(q_idx >= kv_idx);", "keep where(q >= k);"},
    {"score where(k <= q, s, 0.0);", "score select(k <= q, s, 0.0);"},
    {"score s * (k <= q);", "score select(k <= q, s, 0.0);"},
    {"score s + (h == 0) * 4;", "score s + select(h == 0, 4, 0);"},
    {"score s - (k > q);", "score s - select(k > q, 1, 0);"},
    {"keep ~causal;", "keep !causal;"},
    {"keep where(~(k > q));", "keep where(not (k > q));"},
    {"score minimum(s, 3.0);", "score min(s, 3.0);"},
    {"score select(k <= q, s, -infinity) + k;", "score select(k <= q, s, -inf) + k;"},
    {"dtype 'f16';", "dtype f16;"},
    {"combine \"union\";", "combine union;"},
    {"dtype bfloat16;", "dtype bf16;"},
    {"input t: float[head, sequence]; score s + t[h, k];", "input t: f32[heads, tokens]; score s + t[h, k];"},
    {"heads: 8;", "heads 8;"},
    {"heads = 8;", "heads 8;"},
    {"keep: causal;", "keep causal;"},
    {"score=s * 2;", "score s * 2;"},
    {"dtype: f16;", "dtype f16;"},
    // Sets
    {"keep causal + window(3, 0);", "keep causal | window(3, 0);"},
    {"keep causal + window(3, 0) - sink(2);", "keep (causal | window(3, 0)) - sink(2);"},
    {"keep causal * window(3, 0);", "keep causal & window(3, 0);"},
    {"keep causal and window(3, 0);", "keep causal & window(3, 0);"},
    {"keep not causal;", "keep !causal;"},
    {"keep where(causal);", "keep causal;"},
    {"keep where(not causal);", "keep !causal;"},
    {"keep where(causal and window(3, 0));", "keep causal & window(3, 0);"},
    {"keep where(causal and q < 9 and k > 2);", "keep causal & where(q < 9 and k > 2);"},
    {"keep window(9, 9) - where(causal or q < 9);", "keep window(9, 9) - (causal | where(q < 9));"},
    {"keep where(k <= q & q - k < 8);", "keep where(k <= q and q - k < 8);"},
    {"keep k <= q;", "keep where(k <= q);"},
    {"window(3, 0) causal;", ""},
    {"keep window(3, 0) causal;", ""},
    {"keep causal();", "keep causal;"},
    // Brackets
    {"keep window(3, 0;", "keep window(3, 0);"},
    {"keep where(k <= q and (q - k < 8;", "keep where(k <= q and (q - k < 8));"},
    {"keep blocks(8, window(3, 0);\nscore s + 1;", "keep blocks(8, window(3, 0));\nscore s + 1;"},
    {"keep where(k in [1, 2));", "keep where(k in [1, 2]);"},
    {"keep causal);", "keep causal;"},
    {"keep window(3 0);", "keep window(3, 0);"},
    // Words
    {"keep windw(3, 0);", "keep window(3, 0);"},
    {"kepe causal;", "keep causal;"},
    {"score tahn(s);", "score tanh(s);"},
    {"heads 8 dim 64;", "heads 8; dim 64;"},
    {"keep window(a: 3, cc: 0);", "keep window(a: 3, c: 0);"},
};

bool is_error(const Diagnostic& d) { return d.severity == Severity::error; }

/// The text with every fix that is offered, one after another until there are none.
std::string mended(std::string text) {
  for (int round = 0; round < 8; ++round) {
    const auto found = findings({"input.weft", text});
    const auto with_fix =
        std::find_if(found.begin(), found.end(), [](const Diagnostic& d) { return d.fix.has_value(); });
    if (with_fix == found.end()) return text;
    const Fix& fix = *with_fix->fix;
    text.replace(fix.range.begin, fix.range.end - fix.range.begin, fix.replacement);
  }
  return text;
}

TEST(Habits, GetTheFixThatWasMeant) {
  for (const Habit& habit : kHabits) {
    const std::string text = in_pattern(habit.written);
    const auto found = findings({"input.weft", text});
    EXPECT_TRUE(std::any_of(found.begin(), found.end(), is_error)) << habit.written;
    const std::string after = mended(text);
    if (*habit.meant == '\0') {
      EXPECT_EQ(after, text) << "a fix that is surely wrong";
      continue;
    }
    EXPECT_EQ(after, in_pattern(habit.meant));
    for (const Diagnostic& d : findings({"input.weft", after})) {
      EXPECT_FALSE(is_error(d)) << habit.written << "\n" << render(d, {"input.weft", after});
    }
  }
}

/// Sound texts that say in a score what a set says better.
TEST(Habits, OfHidingKeys) {
  const Habit kHiding[] = {
      {"score select(k <= q - 3, s, -1e9);", "keep where(k <= q - 3);"},
      {"score select(k <= q, s, -inf);", "keep where(k <= q);"},
      {"score select(k > q, -65504, 2 * s);", "keep where(k <= q); score 2 * s;"},
      {"score select(k == q or h == 0, -1e30, s);", "keep where(not (k == q or h == 0));"},
      {"score softcap(s, 30) + select(k <= q, 0, -1e9);", "keep where(k <= q); score softcap(s, 30);"},
      {"score select(q - k < 9, 0.0, -inf) + s;", "keep where(q - k < 9);"},
      {"let far = -1e6; score select(q - k < 9, s, far);", "let far = -1e6; keep where(q - k < 9);"},
      {"score select(k <= q, s, 0.0);", ""},
      {"score select(k <= q, s, s - 1e9);", ""},
      {"score select(s > 0, s, -inf);", ""},  // a set knows no score
  };
  for (const Habit& habit : kHiding) {
    const std::string text = in_pattern(habit.written), after = mended(text);
    EXPECT_EQ(after, *habit.meant == '\0' ? text : in_pattern(habit.meant));
    for (const Diagnostic& d : findings({"input.weft", after})) EXPECT_FALSE(is_error(d)) << after;
  }
}

std::vector<Diagnostic> errors_of(const std::string& text) {
  auto found = findings({"input.weft", text});
  std::erase_if(found, [](const Diagnostic& d) { return !is_error(d); });
  return found;
}

/// A slip in a text that was right: where one error is told with a fix, the fix makes the text right again.
TEST(Habits, FixesOfSlipsMakeTheTextRight) {
  const std::vector<std::string> pieces = {";", ",", ":",    "=",    "(", ")", "[", "]",
                                           "&", "|", "and ", "not ", ".", "x", "!", "?"};
  RandomNumbers random(11);
  int slips = 0, mended_slips = 0;
  for (const auto& path : sample_files()) {
    const std::string text = read_text(path);
    for (int round = 0; round < 40; ++round) {
      std::string slip = text;
      const auto at = static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(text.size()) - 1));
      if (random.one_in(2))
        slip.erase(at, 1);
      else
        slip.insert(at, random.pick(pieces));
      const auto found = errors_of(slip);
      if (found.size() != 1 || !found[0].fix) continue;
      ++slips;
      const Fix& fix = *found[0].fix;
      std::string after = slip;
      after.replace(fix.range.begin, fix.range.end - fix.range.begin, fix.replacement);
      const auto left = errors_of(after);
      mended_slips += left.empty();
      for (const Diagnostic& d : left) {
        ADD_FAILURE() << render(found[0], {"before", slip}) << render(d, {"after", after});
      }
    }
  }
  EXPECT_GT(slips, 100);
  EXPECT_GT(mended_slips, 100);
}

TEST(Habits, OfParameters) {
  EXPECT_EQ(mended("pattern p(w = 3) { keep window(w, 0); }"), "pattern p(w: int = 3) { keep window(w, 0); }");
  EXPECT_EQ(mended("pattern p(c = 0.5) { score c * s; }"), "pattern p(c: real = 0.5) { score c * s; }");
  EXPECT_EQ(mended("pattern p(r = [1, 2]) { keep where(q in r); }"),
            "pattern p(r: [int] = [1, 2]) { keep where(q in r); }");
  EXPECT_EQ(mended("pattern p(c: float = 3) { score c * s; }"), "pattern p(c: real = 3) { score c * s; }");
  EXPECT_EQ(mended("const w: 3;\npattern p { keep window(w, 0); }"), "const w = 3;\npattern p { keep window(w, 0); }");
}

/// The other mistake does not hide that these are sets.
TEST(Habits, SeveralInOneText) {
  const std::string text = in_pattern("dtype 'f16'; keep causal && sink(3) && window(3, 0); score s ** 2;");
  const auto found = findings({"input.weft", text});
  ASSERT_EQ(found.size(), 4U);
  ASSERT_TRUE(found[1].fix);
  EXPECT_EQ(found[1].fix->replacement, "&");
  EXPECT_EQ(mended(text), in_pattern("dtype f16; keep causal & sink(3) & window(3, 0); score (s * s);"));
}

/// Brackets are missed where they were opened.
TEST(Habits, OpenBracketsAreToldAtTheirPlace) {
  EXPECT_EQ(marked(in_pattern("keep blocks(8, window(3, 0);")), std::vector<std::string>{"E0112 '('"});
  const auto found = findings({"input.weft", in_pattern("keep where(k in [1, 2;")});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].range.begin, in_pattern("keep where(k in ").size() - 2);
}

}  // namespace
}  // namespace weft::test
