#include "compiler/ir/pattern_interpreter.h"
#include "dsl/parse.h"
#include "dsl/words.h"
#include "tests/support/program.h"
#include "tests/support/random_numbers.h"
#include "tests/support/random_program.h"

#include <gtest/gtest.h>

#include <string>

/// What parameters simplify away must not be missed: a text is refused for what it says, never for what is left of it.
namespace weft::ir {
namespace {

/// A text with conditions that hold always or never around some of its sets: known from the text alone in `folded`,
/// and in `whole` written so that nothing simplifies.
struct Wrapped {
  std::string folded, whole;
};

bool looks_like_a_set(const dsl::Expr& e) {
  using dsl::Operator;
  if (e.kind == dsl::ExprKind::name) return dsl::find_set(e.word) != nullptr;
  if (e.kind == dsl::ExprKind::call) return e.word != "all" && dsl::find_set(e.word) != nullptr;
  if (e.kind == dsl::ExprKind::unary) return e.op == Operator::complement;
  if (e.kind != dsl::ExprKind::binary) return false;
  return e.op == Operator::intersect || e.op == Operator::unite ||
         (e.op == Operator::subtract && looks_like_a_set(*e.args[0].value));
}

class Wrapper {
 public:
  Wrapper(const std::string& text, std::uint64_t seed) : text_(text), random_(seed) {}

  Wrapped file(const dsl::File& file) {
    Wrapped out{"const yes = true;\nconst no = false;\n", ""};
    std::size_t at = 0;
    for (const auto& pattern : file.patterns) {
      for (const auto& s : pattern.statements) {
        using dsl::StatementKind;
        const bool has_set = s.kind == StatementKind::branch || s.kind == StatementKind::keep ||
                             (s.kind == StatementKind::let && looks_like_a_set(*s.value));
        if (!has_set) continue;
        copy(out, at, s.value->outer.begin);
        append(out, set(*s.value));
        at = s.value->outer.end;
      }
    }
    copy(out, at, text_.size());
    return out;
  }

 private:
  static void append(Wrapped& out, const Wrapped& more) {
    out.folded += more.folded;
    out.whole += more.whole;
  }
  void copy(Wrapped& out, std::size_t begin, std::size_t end) const {
    append(out, {text_.substr(begin, end - begin), text_.substr(begin, end - begin)});
  }

  /// The set with those inside it wrapped, and perhaps itself.
  Wrapped set(const dsl::Expr& e) {
    Wrapped out;
    std::size_t at = e.outer.begin;
    for (const auto& arg : e.args) {
      if (!looks_like_a_set(*arg.value) || (e.kind == dsl::ExprKind::call && e.word != "blocks")) continue;
      copy(out, at, arg.value->outer.begin);
      append(out, set(*arg.value));
      at = arg.value->outer.end;
    }
    copy(out, at, e.outer.end);
    if (!random_.one_in(3)) return out;
    const bool yes = random_.one_in(2);
    const std::string op = random_.pick(std::vector<std::string>{" | ", " & ", " - "});
    out.folded = "((" + out.folded + ")" + op + (yes ? "where(yes))" : "where(no))");
    out.whole = "((" + out.whole + ")" + op + (yes ? "where(q == q))" : "where(q != q))");
    return out;
  }

  const std::string& text_;
  test::RandomNumbers random_;
};

/// Does some row of the program keep a key?
bool keeps_a_pair(const Pattern& pattern, const Shape& shape, const InputValues& inputs) {
  const PairEvaluator evaluator(pattern, shape, inputs);
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      for (std::int64_t row = 0; row < shape.n_q; ++row) {
        for (std::int64_t k = 0; k < shape.n_k; ++k) {
          if (evaluator.multiplicity(b, h, row + shape.offset_of(b), k) > 0) return true;
        }
      }
    }
  }
  return false;
}

TEST(SimplifiedSets, AreNoReasonToRefuseAText) {
  int kept = 0, with_blocks = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    test::Program program = test::random_program(seed, {.most_tokens = 24, .most_heads = 3});
    const auto file = dsl::parse({"random.weft", program.text});
    ASSERT_TRUE(file.ok()) << program.text;
    const Wrapped wrapped = Wrapper(program.text, seed).file(*file);
    program.text = wrapped.whole;
    const auto whole = test::lowered(program);
    program.text = wrapped.folded;
    const auto folded = test::lowered(program);
    // `top` has no pooled scores here.
    if (!whole.ok() || wrapped.whole.find("pooled") != std::string::npos) continue;
    const InputValues inputs = test::draw_inputs(*whole, program.shape, program.seed);
    if (!check_shapes(*whole, program.shape, inputs).ok()) continue;
    if (!keeps_a_pair(*whole, program.shape, inputs)) continue;
    EXPECT_TRUE(folded.ok()) << "seed " << seed << "\n"
                             << wrapped.folded << "\n"
                             << (folded.ok() ? "" : folded.error().diagnostics.at(0).message);
    if (!folded.ok()) continue;
    ++kept;
    with_blocks += wrapped.folded.find("blocks]") != std::string::npos;
    ASSERT_EQ(folded->inputs.size(), whole->inputs.size());
    for (std::size_t i = 0; i < whole->inputs.size(); ++i) {
      EXPECT_EQ(folded->inputs[i].block, whole->inputs[i].block) << "seed " << seed << "\n" << wrapped.folded;
    }
  }
  EXPECT_GT(kept, 200);
  EXPECT_GT(with_blocks, 10);
}

}  // namespace
}  // namespace weft::ir
