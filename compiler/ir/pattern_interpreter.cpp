#include "compiler/ir/pattern_interpreter.h"

#include "compiler/ir/pattern_interpreter_problem.h"
#include "compiler/ir/philox.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace weft::ir {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Several sums side by side let the compiler use vectors without leave to reorder.
double dot(const double* a, const double* b, std::int64_t n) {
  double sums[8] = {};
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (std::int64_t j = 0; j < 8; ++j) sums[j] += a[i + j] * b[i + j];
  }
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

bool per_branch(Combine combine) { return combine == Combine::sum || combine == Combine::mean; }

double score_of(const Problem& problem, const Scope& scope, double raw, const Pair& pair) {
  const Pattern& p = problem.pattern;
  const double scale =
      p.scale ? evaluate_real(*p.scale, scope, pair) : 1 / std::sqrt(static_cast<double>(problem.shape.d));
  const double s = scale * raw;
  return p.score ? evaluate_real(*p.score, scope, pair, s) : s;
}

/// Evaluates rows one by one; buffers are as long as there are keys and live across rows.
class Rows {
 public:
  Rows(const Problem& problem, const Tensor& v, Outcome& out)
      : problem_(problem),
        scope_{problem, problem.shape.n_q, problem.shape.n_k},
        v_(v),
        out_(out),
        threshold_(dropout_threshold(problem.pattern.dropout)),
        count_(index(problem.shape.n_k)),
        score_(index(problem.shape.n_k)),
        kept_(problem.pattern.branches.size()) {}

  void run(std::int64_t b, std::int64_t h, std::int64_t row) {
    row_ = row;
    pair_ = {b, h, row + problem_.shape.offset_of(b), 0};
    find_kept();
    find_scores();
    const Combine combine = problem_.pattern.combine;
    const double share = combine == Combine::mean ? 1 / static_cast<double>(kept_.size()) : 1;
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      out_.branch_lse.data[flat_branch(i)] = softmax(kept_[i], false, per_branch(combine) ? share : 0);
    }
    if (!per_branch(combine)) out_.lse.data[flat_row()] = softmax(all_, true, 1);
  }

 private:
  const Shape& shape() const { return problem_.shape; }
  std::size_t flat_row() const { return index((pair_.b * shape().heads + pair_.h) * shape().n_q + row_); }
  std::size_t flat_branch(std::size_t i) const {
    return i * index(shape().batch * shape().heads * shape().n_q) + flat_row();
  }
  std::int64_t key_head() const { return pair_.h / (shape().heads / shape().kv_heads); }
  const double* key_row(const Tensor& t, std::int64_t k) const {
    return &t.data[index(((pair_.b * shape().n_k + k) * shape().kv_heads + key_head()) * t.shape[3])];
  }

  void find_kept() {
    std::fill(count_.begin(), count_.end(), 0);
    const auto& branches = problem_.pattern.branches;
    for (std::size_t i = 0; i < branches.size(); ++i) {
      kept_[i].clear();
      if (!branches[i].heads.contains(pair_.h, shape().heads)) continue;
      for (pair_.k = 0; pair_.k < shape().n_k; ++pair_.k) {
        if (!keeps(*branches[i].set, scope_, pair_)) continue;
        kept_[i].push_back(pair_.k);
        ++count_[index(pair_.k)];
      }
    }
    all_.clear();
    for (std::int64_t k = 0; k < shape().n_k; ++k) {
      if (count_[index(k)] > 0) all_.push_back(k);
    }
  }

  void find_scores() {
    const std::int64_t d = shape().d;
    const double* query = &problem_.q->data[index(((pair_.b * shape().n_q + row_) * shape().heads + pair_.h) * d)];
    for (const std::int64_t k : all_) {
      pair_.k = k;
      const double s = score_of(problem_, scope_, dot(query, key_row(*problem_.k, k), d), pair_);
      score_[index(k)] = s;
    }
  }

  double multiplicity(std::int64_t k, bool counted) const {
    return counted && problem_.pattern.combine != Combine::unite ? count_[index(k)] : 1;
  }

  /// One softmax over `keys`; adds `share` of its output to the row of O. Returns the LSE.
  double softmax(const std::vector<std::int64_t>& keys, bool counted, double share) {
    double largest = -kInfinity;
    for (const std::int64_t k : keys) {
      // A NaN score poisons the row that keeps it: std::max would lose it.
      if (!(score_[index(k)] <= largest)) largest = score_[index(k)];
    }
    if (largest == -kInfinity) return -kInfinity;
    if (share > 0) measure_scores(keys, largest);
    double total = 0;
    for (const std::int64_t k : keys) total += multiplicity(k, counted) * std::exp(score_[index(k)] - largest);
    if (share > 0) add_values(keys, counted, largest, share / total);
    return largest + std::log(total);
  }

  /// The largest score, but for those whose weights are 0 in f32 beside the row's largest.
  void measure_scores(const std::vector<std::int64_t>& keys, double largest) {
    constexpr double kFarthest = 87.4;  // e^-87.4 < 2^-126
    double& size = out_.score_sizes.data[flat_row()];
    for (const std::int64_t k : keys) {
      const double s = score_[index(k)];
      if (std::isfinite(s) && s >= largest - kFarthest) size = std::max(size, std::fabs(s));
    }
    out_.max_abs_score = std::max(out_.max_abs_score, size);
  }

  void add_values(const std::vector<std::int64_t>& keys, bool counted, double largest, double factor) {
    const std::int64_t d_v = shape().d_v;
    const double p = problem_.pattern.dropout;
    double* out = &out_.o.data[index(((pair_.b * shape().n_q + row_) * shape().heads + pair_.h) * d_v)];
    for (const std::int64_t k : keys) {
      if (p > 0 && dropped(shape().dropout_seed, threshold_, pair_.b, pair_.h, pair_.q, k)) continue;
      const double w = multiplicity(k, counted) * std::exp(score_[index(k)] - largest) * factor / (1 - p);
      const double* value = key_row(v_, k);
      for (std::int64_t i = 0; i < d_v; ++i) out[i] += w * value[i];
    }
  }

  const Problem& problem_;
  Scope scope_;
  const Tensor& v_;
  Outcome& out_;
  std::uint64_t threshold_;
  std::vector<int> count_;
  std::vector<double> score_;
  std::vector<std::vector<std::int64_t>> kept_;  ///< by branch
  std::vector<std::int64_t> all_ = {};           ///< kept by some branch
  std::int64_t row_ = 0;
  Pair pair_ = {};
};

Status check_tensor(const char* name, const Tensor& tensor, const std::vector<std::int64_t>& expected) {
  if (tensor.shape == expected) return done;
  return user_error(
      fmt::format("{} has shape [{}], expected [{}]", name, fmt::join(tensor.shape, ", "), fmt::join(expected, ", ")));
}

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
  return score_of(state_->problem, state_->scope, dot, {b, h, q, k});
}

Result<Outcome> interpret_rows(const Pattern& pattern, const Shape& shape, const Tensor& q, const Tensor& k,
                               const Tensor& v, const InputValues& inputs, const std::vector<std::int64_t>& rows,
                               const std::vector<ChosenKeys>* chosen) {
  WEFT_CHECK(check_shapes(pattern, shape, inputs));
  WEFT_CHECK(check_tensor("q", q, {shape.batch, shape.n_q, shape.heads, shape.d}));
  WEFT_CHECK(check_tensor("k", k, {shape.batch, shape.n_k, shape.kv_heads, shape.d}));
  WEFT_CHECK(check_tensor("v", v, {shape.batch, shape.n_k, shape.kv_heads, shape.d_v}));
  Outcome out;
  out.o = Tensor({shape.batch, shape.n_q, shape.heads, shape.d_v});
  const auto branches = static_cast<std::int64_t>(pattern.branches.size());
  out.branch_lse = Tensor({branches, shape.batch, shape.heads, shape.n_q});
  out.score_sizes = Tensor({shape.batch, shape.heads, shape.n_q});
  if (!per_branch(pattern.combine)) out.lse = Tensor({shape.batch, shape.heads, shape.n_q});
  const Problem problem{.pattern = pattern, .shape = shape, .inputs = inputs, .q = &q, .k = &k, .chosen = chosen};
  Rows engine(problem, v, out);
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t h = 0; h < shape.heads; ++h) {
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

Bounds error_bounds(const Pattern& pattern, DType dtype, std::int64_t n_k, double max_abs_v, double max_abs_score) {
  const double n = static_cast<double>(std::max<std::int64_t>(n_k, 1));
  const double s = max_abs_score;
  double v = max_abs_v / (1 - pattern.dropout);
  if (pattern.combine == Combine::sum) v *= static_cast<double>(pattern.branches.size());
  switch (dtype) {
    case DType::f32:
      return {v * (2e-6 * (1 + std::log2(n)) + 2e-7 * s), 4e-6 * (1 + s)};
    case DType::f16:
      return {v * (2e-3 + 2e-7 * s), 1e-3 * (1 + s / 8)};
    case DType::bf16:
      return {v * (1.6e-2 + 2e-7 * s), 1e-2 * (1 + s / 8)};
  }
  return {};
}

}  // namespace weft::ir
