#include "tests/support/random_pattern.h"

#include "tests/support/random_numbers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace weft::test {
namespace {

using ir::ExprPtr;
using ir::HeadSet;
using ir::Op;
using ir::SetKind;
using ir::SetPtr;

SetPtr combine(SetKind kind, std::vector<SetPtr> children) { return ir::make_set(kind, std::move(children)); }

class Generator {
 public:
  Generator(std::uint64_t seed, const RandomOptions& options) : random_(seed), options_(options) {}

  RandomProblem run() {
    make_shape();
    problem_.pattern.name = "random";
    std::vector<SetPtr> keeps;
    if (!random_.one_in(3)) keeps.push_back(leaf());
    if (random_.one_in(4)) keeps.push_back(set(1));
    while (problem_.pattern.branches.empty() || !random_.one_in(3)) {
      if (static_cast<std::int64_t>(problem_.pattern.branches.size()) >= options_.most_branches) break;
      random_.one_in(2) ? add_dilated_branches() : add_branch();
    }
    for (auto& branch : problem_.pattern.branches) {
      std::vector<SetPtr> parts{branch.set};
      parts.insert(parts.end(), keeps.begin(), keeps.end());
      branch.set = combine(SetKind::intersection, std::move(parts));
    }
    problem_.pattern.combine = static_cast<ir::Combine>(random_.between(0, 4));
    return std::move(problem_);
  }

 private:
  void make_shape() {
    ir::Shape& shape = problem_.shape;
    shape.batch = random_.one_in(3) ? 2 : 1;
    shape.n_q = shape.n_k = random_.between(1, options_.most_tokens);
    shape.kv_heads = random_.one_in(2) ? 1 : random_.between(1, options_.most_heads);
    shape.heads = shape.kv_heads * random_.between(1, options_.most_heads / shape.kv_heads);
    shape.d = random_.between(1, 4);
    shape.d_v = random_.between(1, 4);
    if (!options_.other_ends) return;
    if (random_.one_in(3)) shape.n_q = random_.between(1, options_.most_tokens);
    if (random_.one_in(4)) shape.offset = {random_.between(0, options_.most_tokens)};
    if (random_.one_in(6)) {
      shape.offset.assign(static_cast<std::size_t>(shape.batch), 0);
      for (auto& offset : shape.offset) offset = random_.between(0, options_.most_tokens);
    }
  }

  /// Mostly small, now and then longer than the sequence.
  std::int64_t length() { return random_.between(1, random_.one_in(4) ? 2 * options_.most_tokens : 12); }

  ExprPtr phase(std::int64_t rate) {
    const ExprPtr h = ir::variable(ir::Variable::h);
    const ExprPtr r = ir::constant(rate);
    switch (random_.between(0, 3)) {
      case 0:
        return ir::apply(Op::modulo, {h, r});
      case 1: {
        const ExprPtr up = ir::apply(Op::add, {ir::variable(ir::Variable::heads), ir::constant(rate - 1)});
        return ir::apply(Op::divide, {h, ir::apply(Op::divide, {up, r})});
      }
      case 2:
        return h;
      default:
        return ir::constant(random_.between(0, 2 * rate));
    }
  }

  SetPtr dilated(bool all_queries) {
    // One draw a statement: the order in which arguments are evaluated is the compiler's choice.
    const std::int64_t rate = random_.between(1, 6);
    const std::int64_t segment = length();
    return ir::make_dilated(segment, rate, phase(rate), all_queries);
  }

  SetPtr lengths() {
    if (problem_.inputs.empty()) {
      problem_.pattern.inputs.push_back(
          {.name = "valid", .axes = {{.kind = ir::Axis::Kind::batch, .extent = 0}}, .range = {}});
      ir::Tensor values({problem_.shape.batch});
      for (auto& value : values.data) value = static_cast<double>(random_.between(0, problem_.shape.n_k));
      problem_.inputs.push_back(std::move(values));
    }
    return ir::make_input_set(SetKind::lengths, 0);
  }

  SetPtr leaf() {
    switch (random_.between(0, options_.lengths ? 7 : 6)) {
      case 0:
      case 1:
        return ir::make_set(SetKind::causal);
      case 2:
        return ir::make_set(SetKind::window, {length() - 1, random_.one_in(2) ? 0 : length() - 1});
      case 3:
        return ir::make_set(SetKind::segment, {length()});
      case 4:
        return dilated(random_.one_in(3));
      case 5:
        return ir::make_set(random_.one_in(2) ? SetKind::sink : SetKind::prefix, {length() - 1});
      case 6:
        return random_.one_in(3) ? ir::make_set(SetKind::all) : dilated(false);
      default:
        return lengths();
    }
  }

  SetPtr set(int nesting) {
    if (nesting == 0 || random_.one_in(3)) return leaf();
    switch (random_.between(0, options_.complements ? 3 : 1)) {
      case 0:
        return combine(SetKind::intersection, {set(nesting - 1), set(nesting - 1)});
      case 1:
        return combine(SetKind::unite, {set(nesting - 1), set(nesting - 1)});
      case 2:
        return combine(SetKind::difference, {set(nesting - 1), set(nesting - 1)});
      default:
        return combine(SetKind::complement, {set(nesting - 1)});
    }
  }

  HeadSet head_range() {
    const std::int64_t lo = random_.between(0, problem_.shape.heads - 1);
    return {.kind = HeadSet::Kind::range, .lo = lo, .hi = random_.between(lo + 1, problem_.shape.heads)};
  }

  void add_branch() {
    const HeadSet heads = random_.one_in(3) ? head_range() : HeadSet{};
    problem_.pattern.branches.push_back({set(options_.nesting), heads, {}});
  }

  /// What a `branches` statement gives, all of one head policy.
  void add_dilated_branches() {
    const std::int64_t count = random_.between(1, 3);
    const bool all_queries = random_.one_in(4);
    const auto kind = static_cast<HeadSet::Kind>(random_.between(0, 2));
    for (std::int64_t i = 0; i < count; ++i) {
      HeadSet heads{.kind = kind};
      if (kind != HeadSet::Kind::all) {
        heads.index = i;
        heads.count = count;
      }
      problem_.pattern.branches.push_back({dilated(all_queries), heads, {}});
    }
  }

  RandomNumbers random_;
  RandomOptions options_;
  RandomProblem problem_;
};

}  // namespace

RandomProblem random_problem(std::uint64_t seed, const RandomOptions& options) {
  return Generator(seed, options).run();
}

std::string describe(const RandomProblem& problem) {
  const ir::Shape& s = problem.shape;
  std::string out = fmt::format("# batch {} n_q {} n_k {} heads {} kv {} d {} d_v {} offset [{}]\n", s.batch, s.n_q,
                                s.n_k, s.heads, s.kv_heads, s.d, s.d_v, fmt::join(s.offset, ", "));
  for (std::size_t i = 0; i < problem.inputs.size(); ++i) {
    out += fmt::format("# {} = [{}]\n", problem.pattern.inputs[i].name, fmt::join(problem.inputs[i].data, ", "));
  }
  return out + ir::print(problem.pattern);
}

}  // namespace weft::test
