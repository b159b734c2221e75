#include "compiler/ir/pattern_interpreter.h"

#include "compiler/ir/pattern_interpreter_numbers.h"
#include "compiler/ir/pattern_interpreter_rows.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace weft::ir {
namespace {

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Evaluates rows one by one.
class Rows {
 public:
  Rows(const Problem& problem, const Tensor& v, Outcome& out) : problem_(problem), walk_(problem), v_(v), out_(out) {}

  void run(std::int64_t b, std::int64_t h, std::int64_t row) {
    walk_.move_to(b, h, row);
    const Combine combine = problem_.pattern.combine;
    if (!has_lse(problem_.pattern)) return add(walk_.whole(), 1);
    for (std::size_t i = 0; i < problem_.pattern.branches.size(); ++i) {
      const Softmax part = walk_.branch(i);
      out_.branch_lse.data[walk_.branch_number(i)] = part.lse();
      if (per_branch(combine)) add(part, walk_.share());
    }
    if (per_branch(combine)) return;
    const Softmax whole = walk_.whole();
    out_.lse.data[walk_.row_number()] = whole.lse();
    add(whole, 1);
  }

 private:
  /// Adds `share` of the softmax' output to the row of O.
  void add(const Softmax& part, double share) {
    if (part.empty()) return;
    measure_scores(part);
    const std::int64_t d_v = problem_.shape.d_v;
    const double factor = share / part.total;
    double sum = 0;
    double* out = &out_.o.data[walk_.query_number() * index(d_v)];
    for (const std::int64_t k : *part.keys) {
      sum += walk_.weight(part, k);
      if (walk_.dropped(k)) continue;
      const double w = walk_.weight(part, k) * factor / (1 - problem_.pattern.dropout);
      const double* value = &v_.data[walk_.key_number(k) * index(d_v)];
      for (std::int64_t i = 0; i < d_v; ++i) out[i] += w * value[i];
    }
    if (problem_.pattern.sigmoid) out_.largest_sum = std::max(out_.largest_sum, sum);
  }

  /// The largest score, but for those whose weights are 0 in f32 beside the row's largest.
  void measure_scores(const Softmax& part) {
    constexpr double kFarthest = 87.4;  // e^-87.4 < 2^-126
    double& size = out_.score_sizes.data[walk_.row_number()];
    for (const std::int64_t k : *part.keys) {
      const double s = walk_.score(k);
      if (std::isfinite(s) && s >= part.largest - kFarthest) size = std::max(size, std::fabs(s));
    }
    out_.max_abs_score = std::max(out_.max_abs_score, size);
  }

  const Problem& problem_;
  RowWalk walk_;
  const Tensor& v_;
  Outcome& out_;
};

}  // namespace

struct PairEvaluator::State {
  explicit State(Problem p) : problem(std::move(p)), scope{problem, problem.shape.n_q, problem.shape.n_k} {}
  Problem problem;
  Scope scope;  ///< refers to `problem`: a State never moves
};

PairEvaluator::PairEvaluator(const Pattern& pattern, const Shape& shape, const InputValues& inputs, const Tensor* q,
                             const Tensor* k)
    : state_(std::make_unique<State>(Problem{pattern, shape, inputs, q, k})) {}

PairEvaluator::~PairEvaluator() = default;

bool PairEvaluator::keeps(std::size_t branch, std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) const {
  const Branch& part = state_->problem.pattern.branches[branch];
  return part.heads.contains(h, state_->problem.shape.heads) && ir::keeps(*part.set, state_->scope, {b, h, q, k});
}

int PairEvaluator::multiplicity(std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) const {
  int count = 0;
  for (std::size_t i = 0; i < state_->problem.pattern.branches.size(); ++i) count += keeps(i, b, h, q, k);
  return state_->problem.pattern.combine == Combine::unite ? std::min(count, 1) : count;
}

double PairEvaluator::score(double dot, std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) const {
  return score_of(state_->scope, {b, h, q, k}, dot, as_it_is);
}

Result<Outcome> interpret_rows(const Pattern& pattern, const Shape& shape, const Tensor& q, const Tensor& k,
                               const Tensor& v, const InputValues& inputs, const std::vector<std::int64_t>& rows,
                               const std::vector<ChosenKeys>* chosen) {
  WEFT_CHECK(check_operands(pattern, shape, q, k, v, inputs));
  Outcome out;
  out.o = Tensor({shape.batch, shape.n_q, shape.heads, shape.d_v});
  const auto branches = static_cast<std::int64_t>(pattern.branches.size());
  if (has_lse(pattern)) out.branch_lse = Tensor({branches, shape.batch, shape.heads, shape.n_q});
  out.score_sizes = Tensor({shape.batch, shape.heads, shape.n_q});
  if (!per_branch(pattern.combine) && has_lse(pattern)) out.lse = Tensor({shape.batch, shape.heads, shape.n_q});
  const Problem problem{.pattern = pattern, .shape = shape, .inputs = inputs, .q = &q, .k = &k, .chosen = chosen};
  Rows engine(problem, v, out);
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t h = shape.head_begin; h < shape.head_end(); ++h) {
      for (const std::int64_t row : rows) engine.run(b, h, row);
    }
  }
  out.clamped = problem.clamped;
  return out;
}

Result<Outcome> interpret(const Pattern& pattern, const Shape& shape, const Tensor& q, const Tensor& k, const Tensor& v,
                          const InputValues& inputs) {
  std::vector<std::int64_t> rows(index(std::max<std::int64_t>(shape.n_q, 0)));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  return interpret_rows(pattern, shape, q, k, v, inputs, rows);
}

Bounds error_bounds(const Pattern& pattern, DType dtype, std::int64_t n_k, double max_abs_v, double max_abs_score,
                    double largest_sum) {
  const double n = static_cast<double>(std::max<std::int64_t>(n_k, 1));
  const double s = max_abs_score;
  double v = max_abs_v * largest_sum / (1 - pattern.dropout);
  if (pattern.combine == Combine::sum) v *= static_cast<double>(pattern.branches.size());
  const auto row = [&](double o, double lse) { return Bounds{v * (o + 2e-7 * s), lse, 10 * (o + 2e-7 * s)}; };
  switch (dtype) {
    case DType::f32:
      return row(2e-6 * (1 + std::log2(n)), 4e-6 * (1 + s));
    case DType::f16:
      return row(2e-3, 1e-3 * (1 + s / 8));
    case DType::bf16:
      return row(1.6e-2, 1e-2 * (1 + s / 8));
  }
  return {};
}

}  // namespace weft::ir
