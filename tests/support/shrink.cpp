#include "tests/support/random_pattern.h"

#include <algorithm>
#include <utility>

/// Greedy shrinking: every step proposes problems that are simpler in one respect, the first that
/// still fails is taken, until none does.
namespace weft::test {
namespace {

using ir::HeadSet;
using ir::Set;
using ir::SetKind;
using ir::SetPtr;

std::int64_t least(const Set& set) { return set.kind == SetKind::segment || set.kind == SetKind::dilated ? 1 : 0; }

SetPtr with_args(const Set& set, std::vector<std::int64_t> args) {
  if (set.kind == SetKind::dilated) return ir::make_dilated(args[0], args[1], set.expr, set.all_queries);
  return ir::make_set(set.kind, std::move(args));
}

void add_smaller_numbers(const SetPtr& set, std::vector<SetPtr>& out) {
  for (std::size_t i = 0; i < set->args.size(); ++i) {
    for (const std::int64_t value : {least(*set), set->args[i] / 2, set->args[i] - 1}) {
      if (value < least(*set) || value >= set->args[i]) continue;
      auto args = set->args;
      args[i] = value;
      out.push_back(with_args(*set, std::move(args)));
    }
  }
}

/// Sets that are simpler than `set` in one place.
std::vector<SetPtr> simpler(const SetPtr& set) {
  std::vector<SetPtr> out = set->children;
  for (std::size_t i = 0; i < set->children.size(); ++i) {
    if (set->children.size() > 2) {
      auto fewer = set->children;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      out.push_back(ir::make_set(set->kind, std::move(fewer)));
    }
    for (auto& child : simpler(set->children[i])) {
      auto children = set->children;
      children[i] = std::move(child);
      out.push_back(ir::make_set(set->kind, std::move(children)));
    }
  }
  if (set->kind != SetKind::all && set->children.empty()) out.push_back(ir::make_set(SetKind::all));
  add_smaller_numbers(set, out);
  if (set->kind == SetKind::dilated) {
    if (set->expr->op != ir::Op::constant || set->expr->integer != 0) {
      out.push_back(ir::make_dilated(set->args[0], set->args[1], ir::constant(0), set->all_queries));
    }
    if (set->all_queries) out.push_back(ir::make_dilated(set->args[0], set->args[1], set->expr, false));
  }
  return out;
}

std::int64_t size_of(const RandomProblem& problem) {
  std::int64_t size = problem.shape.batch + problem.shape.n_q + problem.shape.n_k + problem.shape.heads;
  size += problem.shape.kv_heads + problem.shape.d + problem.shape.d_v;
  return size;
}

/// Inputs that fit the sizes again.
void refit(RandomProblem& problem) {
  for (auto& input : problem.inputs) {
    ir::Tensor fitted({problem.shape.batch});
    for (std::size_t i = 0; i < fitted.data.size(); ++i) {
      fitted.data[i] = std::min(i < input.data.size() ? input.data[i] : 0.0, static_cast<double>(problem.shape.n_k));
    }
    input = std::move(fitted);
  }
  if (problem.shape.offset.size() > 1) problem.shape.offset.resize(static_cast<std::size_t>(problem.shape.batch));
}

void add_smaller_shapes(const RandomProblem& problem, std::vector<RandomProblem>& out) {
  const auto propose = [&](auto change) {
    RandomProblem next = problem;
    change(next.shape);
    refit(next);
    if (size_of(next) < size_of(problem) || next.shape.offset.size() < problem.shape.offset.size()) {
      out.push_back(std::move(next));
    }
  };
  using Shape = ir::Shape;
  propose([](Shape& s) { s.batch = 1; });
  propose([](Shape& s) { s.heads = s.kv_heads = 1; });
  propose([](Shape& s) { s.heads = s.kv_heads; });
  propose([](Shape& s) { s.kv_heads = 1; });
  propose([](Shape& s) { s.d = s.d_v = 1; });
  propose([](Shape& s) { s.offset.clear(); });
  propose([](Shape& s) { s.n_q = s.n_k = std::max<std::int64_t>(1, s.n_k / 2); });
  propose([](Shape& s) { s.n_q = s.n_k = std::max<std::int64_t>(1, s.n_k - 1); });
  propose([](Shape& s) { s.n_q = std::max<std::int64_t>(1, s.n_q / 2); });
  propose([](Shape& s) { s.n_q = std::max<std::int64_t>(1, s.n_q - 1); });
  propose([](Shape& s) { s.n_k = std::max<std::int64_t>(1, s.n_k - 1); });
}

HeadSet as_range(const HeadSet& heads, std::int64_t count) {
  HeadSet range{.kind = HeadSet::Kind::range};
  while (range.lo < count && !heads.contains(range.lo, count)) ++range.lo;
  range.hi = range.lo;
  while (range.hi < count && heads.contains(range.hi, count)) ++range.hi;
  return range;
}

bool in_group(const ir::Branch& branch) {
  return branch.heads.kind == HeadSet::Kind::group || branch.heads.kind == HeadSet::Kind::group_last;
}

/// Groups that are empty for this number of heads fall away: a range cannot be.
void make_ranges(std::vector<ir::Branch>& branches, std::int64_t heads) {
  for (auto& branch : branches) {
    if (in_group(branch)) branch.heads = as_range(branch.heads, heads);
  }
  const auto empty = [](const ir::Branch& b) {
    return b.heads.kind == HeadSet::Kind::range && b.heads.lo == b.heads.hi;
  };
  branches.erase(std::remove_if(branches.begin(), branches.end(), empty), branches.end());
}

void add_simpler_branches(const RandomProblem& problem, std::vector<RandomProblem>& out) {
  const auto& branches = problem.pattern.branches;
  for (std::size_t i = 0; i < branches.size(); ++i) {
    const auto propose = [&](auto change) {
      RandomProblem next = problem;
      change(next.pattern.branches);
      out.push_back(std::move(next));
    };
    if (in_group(branches[i])) {
      // Groups stand and fall together, so they are made ranges of heads first.
      propose([&](auto& all) { all[i].heads = {}; });
      propose([&](auto& all) { make_ranges(all, problem.shape.heads); });
    } else if (branches.size() > 1) {
      propose([&](auto& all) { all.erase(all.begin() + static_cast<std::ptrdiff_t>(i)); });
    }
    if (branches[i].heads.kind == HeadSet::Kind::range) propose([&](auto& all) { all[i].heads = {}; });
    for (const auto& set : simpler(branches[i].set)) propose([&](auto& all) { all[i].set = set; });
  }
}

std::vector<RandomProblem> proposals(const RandomProblem& problem) {
  std::vector<RandomProblem> out;
  add_smaller_shapes(problem, out);
  if (problem.pattern.combine != ir::Combine::joint) {
    out.push_back(problem);
    out.back().pattern.combine = ir::Combine::joint;
  }
  add_simpler_branches(problem, out);
  return out;
}

bool fits(const RandomProblem& problem) {
  return ir::check_shapes(problem.pattern, problem.shape, problem.inputs).ok();
}

}  // namespace

RandomProblem shrink(RandomProblem problem, const std::function<bool(const RandomProblem&)>& fails, int budget) {
  for (bool smaller = true; smaller && budget > 0;) {
    smaller = false;
    for (auto& next : proposals(problem)) {
      if (!fits(next)) continue;
      if (budget-- <= 0) break;
      if (!fails(next)) continue;
      problem = std::move(next);
      smaller = true;
      break;
    }
  }
  return problem;
}

}  // namespace weft::test
