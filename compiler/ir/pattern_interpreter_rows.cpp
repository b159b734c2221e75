#include "compiler/ir/pattern_interpreter_rows.h"

#include "compiler/ir/pattern_interpreter_numbers.h"
#include "compiler/ir/philox.h"

#include <algorithm>
#include <cmath>

namespace weft::ir {
namespace {

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

}  // namespace

double Softmax::lse() const { return empty() ? largest : largest + std::log(total); }

RowWalk::RowWalk(const Problem& problem)
    : problem_(problem),
      scope_{problem, problem.shape.n_q, problem.shape.n_k},
      threshold_(dropout_threshold(problem.pattern.dropout)),
      count_(index(problem.shape.n_k)),
      score_(index(problem.shape.n_k)),
      kept_(problem.pattern.branches.size()) {}

void RowWalk::move_to(std::int64_t b, std::int64_t h, std::int64_t row) {
  row_ = row;
  pair_ = {b, h, row + problem_.shape.offset_of(b), 0};
  find_kept();
  find_scores();
}

void RowWalk::find_kept() {
  std::fill(count_.begin(), count_.end(), 0);
  const Shape& shape = problem_.shape;
  const auto& branches = problem_.pattern.branches;
  for (std::size_t i = 0; i < branches.size(); ++i) {
    kept_[i].clear();
    if (!branches[i].heads.contains(pair_.h, shape.heads)) continue;
    for (pair_.k = 0; pair_.k < shape.n_k; ++pair_.k) {
      if (!keeps(*branches[i].set, scope_, pair_)) continue;
      kept_[i].push_back(pair_.k);
      ++count_[index(pair_.k)];
    }
  }
  all_.clear();
  for (std::int64_t k = 0; k < shape.n_k; ++k) {
    if (count_[index(k)] > 0) all_.push_back(k);
  }
}

void RowWalk::find_scores() {
  for (const std::int64_t k : all_) score_[index(k)] = score_of(scope_, pair(k), product(k), as_it_is);
}

double RowWalk::product(std::int64_t k) const {
  const std::int64_t d = problem_.shape.d;
  return dot(&problem_.q->data[query_number() * index(d)], &problem_.k->data[key_number(k) * index(d)], d);
}

bool RowWalk::dropped(std::int64_t k) const {
  return problem_.pattern.dropout > 0 &&
         ir::dropped(problem_.shape.dropout_seed, threshold_, pair_.b, pair_.h, pair_.q, k);
}

Softmax RowWalk::softmax(const std::vector<std::int64_t>& keys, bool whole) const {
  Softmax out{.keys = &keys, .counted = whole};
  if (problem_.pattern.sigmoid) {
    out.largest = 0;
    out.total = 1;
    return out;
  }
  const ExprPtr& sink = problem_.pattern.sink_logit;
  const double of_sink = sink && whole ? evaluate_real(*sink, scope_, pair_) : out.largest;
  if (!(of_sink <= out.largest)) out.largest = of_sink;
  for (const std::int64_t k : keys) {
    // A NaN score poisons the row that keeps it: std::max would lose it.
    if (!(score(k) <= out.largest)) out.largest = score(k);
  }
  if (out.empty()) return out;
  out.sink = out.total = sink && whole ? std::exp(of_sink - out.largest) : 0;
  for (const std::int64_t k : keys) out.total += weight(out, k);
  return out;
}

double RowWalk::weight(const Softmax& softmax, std::int64_t k) const {
  const bool once = !softmax.counted || problem_.pattern.combine == Combine::unite;
  const double one =
      problem_.pattern.sigmoid ? apply_real(Op::sigmoid, score(k), 0.0) : std::exp(score(k) - softmax.largest);
  return (once ? 1 : count_[index(k)]) * one;
}

double RowWalk::share() const {
  return problem_.pattern.combine == Combine::mean ? 1 / static_cast<double>(kept_.size()) : 1;
}

std::size_t RowWalk::row_number() const {
  const Shape& shape = problem_.shape;
  return index((pair_.b * shape.heads + pair_.h) * shape.n_q + row_);
}

std::size_t RowWalk::branch_number(std::size_t i) const {
  const Shape& shape = problem_.shape;
  return i * index(shape.batch * shape.heads * shape.n_q) + row_number();
}

std::size_t RowWalk::query_number() const {
  const Shape& shape = problem_.shape;
  return index((pair_.b * shape.n_q + row_) * shape.heads + pair_.h);
}

std::size_t RowWalk::key_number(std::int64_t k) const {
  const Shape& shape = problem_.shape;
  const std::int64_t head = pair_.h / (shape.heads / shape.kv_heads);
  return index((pair_.b * shape.n_k + k) * shape.kv_heads + head);
}

}  // namespace weft::ir
