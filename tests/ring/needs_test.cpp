#include "compiler/ir/plan_interpreter.h"
#include "compiler/planner/planner.h"
#include "compiler/ring/relation.h"
#include "tests/support/effort.h"
#include "tests/support/random_pattern.h"
#include "tests/support/random_program.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>

/// Needs and pairs of ranks against the pairs that a plan visits, one by one.
namespace weft::ring {
namespace {

using test::RandomProblem;

/// Runs as the tokens that they hold; one that stands twice shows as a token of -1.
std::set<std::int64_t> tokens_of(const Runs& runs) {
  std::set<std::int64_t> out;
  for (const auto& run : runs) {
    for (std::int64_t i = 0; i < run.count; ++i) {
      if (!out.insert(run.first + i * run.stride).second) out.insert(-1);
    }
  }
  return out;
}

struct Counted {
  int closed = 0, walked = 0;
  std::int64_t needed = 0;
};

/// Cells of a rank's rows, some of each and of each some keys, need together what all of them need, and each key once;
/// of their keys they have all pairs.
std::string check_cells(const Relation& relation, const Runs& rows, const Needs& all) {
  std::vector<Cell> cells;
  for (std::int64_t part = 0; part < 3; ++part) {
    Runs some;
    for (const auto& run : rows) {
      const std::int64_t begin = part * run.count / 3, end = (part + 1) * run.count / 3;
      if (begin < end) some.push_back({run.first + begin * run.stride, end - begin, run.stride});
    }
    if (part == 0) cells.push_back({some});
    const auto n = relation.shape().n_k;
    for (std::int64_t i = 0; part > 0 && i < 4; ++i) cells.push_back({some, {i * n / 4, (i + 1) * n / 4}});
  }
  const auto parts = relation.needs_by_cell(cells, rows);
  for (std::int64_t entry = 0; entry < relation.entries(); ++entry) {
    for (std::int64_t kv = 0; kv < all.kv_heads; ++kv) {
      Runs together;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        for (const auto& run : parts[i].at(entry, kv)) {
          if (run.first < cells[i].keys.first || run.end() > cells[i].keys.end)
            return "a cell needs other keys than its";
          together.push_back(run);
        }
      }
      if (tokens_of(together) != tokens_of(all.at(entry, kv))) return "cells need something else";
    }
  }
  double pairs = 0;
  for (const auto& cell : cells) pairs += relation.pairs_of(cell, {0, relation.shape().kv_heads});
  const double of_all = relation.pairs_of(rows);
  return std::abs(pairs - of_all) > 1e-9 * of_all ? fmt::format("cells have {} pairs of {}", pairs, of_all) : "";
}

/// What is wrong with the needs of one map; empty: nothing.
std::string check(const RandomProblem& problem, const OwnerMap& map, Counted& counted, ir::Stationary stationary) {
  const auto plan = planner::plan(problem.pattern, {.d = 64, .d_v = 64}, find_target("cpu:x86-64-v3").value(),
                                  {.stationary = stationary, .for_kernels = false});
  if (!plan.ok()) return "";
  const auto tables = ir::make_tables(*plan, problem.shape.heads);
  if (!tables.ok()) return "";
  const auto relation = Relation::make(*plan, *tables, problem.shape, problem.inputs);
  if (!relation.ok()) return relation.error().message;
  if (relation->undivided())
    return relation->undivided()->message.find("by: pooled") != std::string::npos ? "" : relation->undivided()->message;
  (relation->is_closed() ? counted.closed : counted.walked) += 1;

  const auto& shape = problem.shape;
  const std::int64_t group = shape.heads / shape.kv_heads;
  std::vector<std::int64_t> owner(static_cast<std::size_t>(shape.n_k));
  for (std::int64_t g = 0; g < map.ranks(); ++g) {
    for (auto x : tokens_of(map.runs[static_cast<std::size_t>(g)])) owner[static_cast<std::size_t>(x)] = g;
  }
  std::map<std::array<std::int64_t, 3>, std::set<std::int64_t>> wanted;  // rank, entry, kv
  std::vector<double> pairs(static_cast<std::size_t>(map.ranks()), 0), of_row(static_cast<std::size_t>(shape.n_k), 0);
  std::vector<std::vector<double>> by_head(pairs.size(), std::vector<double>(static_cast<std::size_t>(shape.kv_heads)));
  // What a transposed plan visits is asked of one that is not: rows that keep a key are what the key needs.
  const bool by_key = stationary == ir::Stationary::key;
  const auto visited = planner::plan(problem.pattern, {.d = 64, .d_v = 64}, find_target("cpu:x86-64-v3").value(),
                                     {.for_kernels = false});
  const auto visited_tables = ir::make_tables(*visited, problem.shape.heads);
  ir::visit_pairs(*visited, *visited_tables, shape, problem.inputs, [&](const ir::Visit& v) {
    const auto x = by_key ? v.y : v.x, y = by_key ? v.x : v.y;
    const auto g = owner[static_cast<std::size_t>(x)];
    pairs[static_cast<std::size_t>(g)] += v.weight;
    by_head[static_cast<std::size_t>(g)][static_cast<std::size_t>(v.h / group)] += v.weight;
    of_row[static_cast<std::size_t>(x)] += v.weight;
    if (v.weight > 0 && owner[static_cast<std::size_t>(y)] != g) wanted[{g, v.b, v.h / group}].insert(y);
  });
  for (std::int64_t g = 0; g < map.ranks(); ++g) {
    const auto& rows = map.runs[static_cast<std::size_t>(g)];
    if (const double found = relation->pairs_of(rows); found != pairs[static_cast<std::size_t>(g)])
      return fmt::format("{}: rank {} has {} pairs, counted {}", map.name, g, pairs[static_cast<std::size_t>(g)],
                         found);
    if (relation->pairs_by_head({rows}, {0, shape.kv_heads}) != by_head[static_cast<std::size_t>(g)])
      return fmt::format("{}: rank {} has other pairs by head", map.name, g);
    for (const auto& run : rows) {
      for (std::int64_t x = run.first; x < run.end(); x += run.stride) {
        if (of_row[static_cast<std::size_t>(x)] > relation->most_pairs_of_row(run))
          return fmt::format("{}: row {} has more pairs than any of its run may have", map.name, x);
      }
    }
    const Needs needs = relation->needs_of(rows);
    if (auto wrong = check_cells(*relation, rows, needs); !wrong.empty()) return map.name + ": " + wrong;
    for (std::int64_t b = 0; b < shape.batch; ++b) {
      for (std::int64_t kv = 0; kv < shape.kv_heads; ++kv) {
        const auto found = tokens_of(needs.at(b, kv));
        counted.needed += std::ssize(found);
        if (found == wanted[{g, b, kv}]) continue;
        std::string text = fmt::format("{}: rank {} entry {} kv {} needs", map.name, g, b, kv);
        for (auto x : wanted[{g, b, kv}]) text += fmt::format(" {}", x);
        text += "; found";
        for (auto x : found) text += fmt::format(" {}", x);
        return text;
      }
    }
  }
  return "";
}

std::string check_all(const RandomProblem& problem, Counted& counted) {
  const std::int64_t n = problem.shape.n_k;
  for (const std::int64_t ranks : {2, 3, 5, 8}) {
    const OwnerMap maps[] = {owners(ir::RingLayout::contiguous, n, ranks), owners(ir::RingLayout::zigzag, n, ranks),
                             owners(ir::RingLayout::striped, n, ranks), snake(n, ranks, 2, 4)};
    for (const auto& map : maps) {
      for (const auto stationary : {ir::Stationary::query, ir::Stationary::key}) {
        if (stationary == ir::Stationary::key && ranks != 3) continue;  // for it takes as long again
        if (auto wrong = check(problem, map, counted, stationary); !wrong.empty())
          return fmt::format("{}{}", stationary == ir::Stationary::key ? "by key, " : "", wrong);
      }
    }
  }
  return "";
}

void prove(std::uint64_t first, int problems, const test::RandomOptions& options, Counted& counted) {
  problems *= test::random_times();
  for (int i = 0; i < problems; ++i) {
    const auto problem = test::random_problem(first + static_cast<std::uint64_t>(i), options);
    if (check_all(problem, counted).empty()) continue;
    Counted ignored;
    const auto small = test::shrink(problem, [&](const RandomProblem& p) { return !check_all(p, ignored).empty(); });
    FAIL() << "seed " << first + static_cast<std::uint64_t>(i) << ": " << check_all(small, ignored) << "\n"
           << test::describe(small);
  }
}

TEST(Needs, AreTheKeysThatPairsOfRandomPatternsHave) {
  Counted counted;
  prove(400000, 250, {.nesting = 2, .other_ends = false}, counted);
  // The generator must reach much, or this test proves less than it says.
  EXPECT_GT(counted.closed, 500);
  EXPECT_GT(counted.needed, 10000);
}

TEST(Needs, OfLongerSequencesWithRowClasses) {
  Counted counted;
  prove(410000, 25, {.most_tokens = 400, .most_heads = 3, .most_branches = 4, .nesting = 1, .other_ends = false},
        counted);
  EXPECT_GT(counted.closed, 20);
}

TEST(Needs, OfTheWholeLanguage) {
  Counted counted;
  for (std::uint64_t seed = 420000; seed < 420000 + test::effort(75U, 150U); ++seed) {
    auto program = test::random_program(seed, {.most_tokens = 60, .most_heads = 4, .nesting = 2});
    program.shape.n_q = program.shape.n_k;
    program.shape.offset.clear();
    const auto pattern = test::lowered(program);
    if (!pattern.ok()) continue;
    const RandomProblem problem{*pattern, program.shape, test::draw_inputs(*pattern, program.shape, program.seed)};
    ASSERT_EQ(check_all(problem, counted), "") << seed << "\n" << test::to_file(program);
  }
  EXPECT_GT(counted.closed, 100);
  EXPECT_GT(counted.walked, 500);
}

}  // namespace
}  // namespace weft::ring
