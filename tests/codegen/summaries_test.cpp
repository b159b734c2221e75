#include "compiler/ir/lower.h"
#include "compiler/ir/pattern_interpreter.h"
#include "dsl/parse.h"
#include "tests/codegen/any_kernel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

/// Tiles pass over keys that summaries of conditions say none keep, and over no others.
namespace weft::testing {
namespace {

using ir::ExprPtr;
using ir::Op;
using ir::Variable;

constexpr std::int64_t kKeys = 4500, kQueries = 70;  // more than one block of blocks
constexpr std::int64_t kTable = 320;                 // keys of a mask

struct Case {
  const char* name;
  ir::List::Kind kind;
  ir::Pattern pattern;
  std::vector<ir::Tensor> inputs;
  std::int64_t keys = kKeys;
};

ExprPtr input(ir::Pattern& p, ir::InputType type, const std::vector<ir::Axis::Kind>& axes,
              const std::vector<ExprPtr>& at) {
  ir::Input in;
  in.name = "t";
  in.type = type;
  for (auto kind : axes) in.axes.push_back({.kind = kind});
  if (p.inputs.empty()) p.inputs.push_back(in);
  return ir::input_at(0, ir::Type::integer, at);
}

ExprPtr of(Variable v) { return ir::variable(v); }

void keep_where(ir::Pattern& p, ExprPtr e) {
  ir::Set set;
  set.kind = ir::SetKind::where;
  set.expr = std::move(e);
  p.branches.push_back({.set = std::make_shared<const ir::Set>(std::move(set)), .heads = {}, .range = {}});
}

/// Documents whose numbers `number` gives from batch entry and key.
Case documents(const char* name, Op how, const std::function<double(std::int64_t, std::int64_t)>& number) {
  using Kind = ir::Axis::Kind;
  Case c{.name = name, .kind = ir::List::Kind::spans, .pattern = {}, .inputs = {}};
  const auto at = [&](Variable v) {
    return input(c.pattern, ir::InputType::i32, {Kind::batch, Kind::tokens}, {of(Variable::b), of(v)});
  };
  const ExprPtr q = at(Variable::q), k = at(Variable::k);
  keep_where(c.pattern, ir::apply(how, {k, q}));
  ir::Tensor t({2, kKeys});
  for (std::int64_t i = 0; i < 2 * kKeys; ++i) t.data[static_cast<std::size_t>(i)] = number(i / kKeys, i % kKeys);
  c.inputs = {t};
  return c;
}

/// A mask of heads, `share` of whose blocks are not empty; `negated`: its opposite.
Case table(const char* name, double share, bool negated) {
  using Kind = ir::Axis::Kind;
  Case c{.name = name, .kind = ir::List::Kind::meets, .pattern = {}, .inputs = {}, .keys = kTable};
  const ExprPtr entry = input(c.pattern, ir::InputType::u8, {Kind::heads, Kind::tokens, Kind::tokens},
                              {of(Variable::h), of(Variable::q), of(Variable::k)});
  keep_where(c.pattern, ir::apply(negated ? Op::equal : Op::not_equal, {entry, ir::constant(0)}));
  ir::Tensor t({2, kTable, kTable});
  std::mt19937 generator(7);
  std::bernoulli_distribution some(share), set(0.5);
  constexpr std::int64_t kBlocks = kTable / 64;
  std::vector<char> blocks(2 * kBlocks * kBlocks);
  for (auto& b : blocks) b = some(generator);
  for (std::int64_t i = 0; i < 2 * kTable * kTable; ++i) {
    const std::int64_t k = i % kTable, row = i / kTable;  // of both heads
    const bool in = blocks[static_cast<std::size_t>(row / 64 * kBlocks + k / 64)] != 0 && set(generator);
    t.data[static_cast<std::size_t>(i)] = in != negated ? 1 : 0;
  }
  c.inputs = {t};
  return c;
}

std::vector<Case> cases() {
  std::mt19937 generator(3);
  std::vector<Case> out;
  out.push_back(
      documents("InOrder", Op::equal, [](auto b, auto k) { return static_cast<double>((k + 13 * b) / 700); }));
  out.push_back(documents("Short", Op::equal, [](auto, auto k) { return static_cast<double>(k / 5); }));
  out.push_back(documents("Mixed", Op::equal, [&](auto, auto) { return static_cast<double>(generator() % 40); }));
  out.push_back(documents("Before", Op::less, [](auto b, auto k) { return static_cast<double>(k / (90 + b)); }));
  // Keys of none behind them, as in batches; numbers that come again; more of them in a tile than it asks for.
  out.push_back(documents("Padded", Op::equal,
                          [](auto b, auto k) { return k < 4000 + 90 * b ? static_cast<double>(k / 333 + 1) : 0.0; }));
  out.push_back(documents("Again", Op::equal, [](auto, auto k) { return static_cast<double>(k / 500 % 3); }));
  out.push_back(documents("Others", Op::not_equal, [](auto, auto k) { return static_cast<double>(k / 700); }));
  out.push_back(documents("Falling", Op::less, [](auto, auto k) { return static_cast<double>(-(k / 64)); }));
  out.push_back(
      documents("Extreme", Op::equal, [](auto, auto k) { return k % 900 < 70 ? 2147483647.0 : -2147483648.0; }));
  out.push_back(table("Sparse", 0.3, false));
  out.push_back(table("Opposite", 0.3, true));
  return out;
}

class Summaries : public ::testing::TestWithParam<const char*> {};

TEST_P(Summaries, HideNoKeyThatIsKept) {
  const auto target = find_target(GetParam());
  ASSERT_TRUE(target.ok());
  // By matrix instructions, too.
  const ir::DType dtype = std::string(GetParam()) == "sm_80" ? ir::DType::f16 : ir::DType::f32;
  for (const Case& c : cases()) {
    const ir::Shape shape{.batch = 2, .n_q = kQueries, .n_k = c.keys, .heads = 2, .kv_heads = 1, .d = 16, .d_v = 16};
    const auto q = rounded(normal({2, kQueries, 2, 16}, 1), dtype), k = rounded(normal({2, c.keys, 1, 16}, 2), dtype),
               v = rounded(normal({2, c.keys, 1, 16}, 3), dtype);
    const auto kernel = AnyKernel::make(c.pattern, {.d = 16, .d_v = 16, .dtype = dtype}, *target);
    ASSERT_TRUE(kernel.ok()) << c.name << ": " << kernel.error().message;
    ASSERT_EQ(kernel->plan().lists.size(), 1U) << c.name;
    EXPECT_EQ(kernel->plan().lists[0].kind, c.kind) << c.name;
    const auto want = ir::interpret(c.pattern, shape, q, k, v, c.inputs);
    const auto got = kernel->run(shape, q, k, v, c.inputs);
    ASSERT_TRUE(want.ok() && got.ok()) << c.name;
    const auto bound = ir::error_bounds(c.pattern, dtype, c.keys, 5, want->max_abs_score).o;
    for (std::size_t i = 0; i < want->o.data.size(); ++i) {
      ASSERT_LE(std::abs(got->o.data[i] - want->o.data[i]), bound) << c.name << " at " << i;
    }
    // The control: summaries that deny every key hide them all.
    const auto denied = kernel->run(shape, q, k, v, c.inputs, {.deny_all = true});
    ASSERT_TRUE(denied.ok()) << c.name;
    // These ask what fails the condition, and what meets it is told.
    if (std::string(c.name) == "Opposite" || std::string(c.name) == "Others") continue;
    for (double x : denied->o.data) ASSERT_EQ(x, 0) << c.name;
  }
}

INSTANTIATE_TEST_SUITE_P(On, Summaries, ::testing::Values("cpu:x86-64-v3", "sm_61", "sm_80"),
                         [](const auto& of) { return std::string(of.param, 0, 5) == "cpu:x" ? "cpu" : of.param; });

/// Of lists tiles look up the next block, however far it is: what they ask does not grow with the sequence.
TEST(Lists, AreAskedNoMoreOfLongSequences) {
  for (const char* name : {"sm_61", "sm_80"}) {
    const Target target = find_target(name).value();
    const ir::Bind bind{.d = 16, .d_v = 16, .dtype = best_dtype(name)};
    const auto file = dsl::parse({"input.weft", "pattern p { branch blocks(64, random(2, seed: 5)); }"});
    ASSERT_TRUE(file.ok());
    const auto pattern = ir::lower(*file, "p", {});
    ASSERT_TRUE(pattern.ok());
    const auto kernel = EmulatedKernel::make(*pattern, bind, target, {.count = true});
    ASSERT_TRUE(kernel.ok()) << kernel.error().message;
    const auto barriers = [&](std::int64_t keys) {
      const ir::Shape shape{.batch = 1, .n_q = 200, .n_k = keys, .heads = 1, .kv_heads = 1, .d = 16, .d_v = 16};
      emulate::Report report;
      const auto got = kernel->run(shape, rounded(normal({1, 200, 1, 16}, 1), bind.dtype),
                                   rounded(normal({1, keys, 1, 16}, 2), bind.dtype),
                                   rounded(normal({1, keys, 1, 16}, 3), bind.dtype), {}, {}, &report);
      EXPECT_TRUE(got.ok()) << got.error().message;
      return static_cast<double>(report.barriers);
    };
    EXPECT_LT(barriers(500000), 1.3 * barriers(50000)) << name;
  }
}

}  // namespace
}  // namespace weft::testing
