#include "compiler/ir/pattern_interpreter_problem.h"
#include "compiler/ir/philox.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

/// Sets whose keys are drawn for a whole row at once: `random` (semantics section 7) and `top`
/// (section 8).
namespace weft::ir {
namespace {

/// Mean of the tokens of one block, where they exist; `first` is the tensor's first position.
std::vector<double> block_mean(const Tensor& tensor, std::int64_t b, std::int64_t head, std::int64_t first,
                               std::int64_t begin, std::int64_t end) {
  const std::int64_t d = tensor.shape[3];
  begin = std::max(begin - first, std::int64_t{0});
  end = std::min(end - first, tensor.shape[1]);
  std::vector<double> mean(static_cast<std::size_t>(d));
  for (std::int64_t row = begin; row < end; ++row) {
    for (std::int64_t i = 0; i < d; ++i) mean[static_cast<std::size_t>(i)] += tensor.at(b, row, head, i);
  }
  for (auto& value : mean) value /= static_cast<double>(std::max<std::int64_t>(1, end - begin));
  return mean;
}

std::vector<double> pooled_scores(const Scope& scope, const Pair& pair, std::int64_t count) {
  const Problem& problem = scope.problem;
  if (problem.q == nullptr || problem.k == nullptr) return std::vector<double>(static_cast<std::size_t>(count));
  const std::int64_t size = scope.block;
  const auto query =
      block_mean(*problem.q, pair.b, pair.h, problem.shape.offset_of(pair.b), pair.q * size, (pair.q + 1) * size);
  const std::int64_t key_head = pair.h / (problem.shape.heads / problem.shape.kv_heads);
  std::vector<double> scores;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto key = block_mean(*problem.k, pair.b, key_head, 0, i * size, (i + 1) * size);
    scores.push_back(std::inner_product(query.begin(), query.end(), key.begin(), 0.0));
  }
  return scores;
}

std::vector<double> given_scores(const Set& set, const Scope& scope, const Pair& pair, std::int64_t count) {
  std::vector<double> scores;
  for (std::int64_t i = 0; i < count; ++i) scores.push_back(element(scope, set.input, pair, {pair.q, i}));
  return scores;
}

std::vector<std::int64_t> best_blocks(const Set& set, const Scope& scope, const Pair& pair) {
  const std::int64_t candidates = set.causal_top ? std::clamp<std::int64_t>(pair.q + 1, 0, scope.n_k) : scope.n_k;
  auto scores = set.input < 0 ? pooled_scores(scope, pair, candidates) : given_scores(set, scope, pair, candidates);
  for (auto& score : scores) score = std::isnan(score) ? -std::numeric_limits<double>::infinity() : score;
  std::vector<std::int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  // The diagonal first, then by score; equal scores by smaller index.
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t x, std::int64_t y) {
    if (x == pair.q || y == pair.q) return x == pair.q && y != pair.q;
    return scores[static_cast<std::size_t>(x)] > scores[static_cast<std::size_t>(y)];
  });
  order.resize(std::min(order.size(), static_cast<std::size_t>(set.args[0])));
  std::sort(order.begin(), order.end());
  return order;
}

constexpr std::size_t kMostRows = 4096;

}  // namespace

const std::vector<std::int64_t>& drawn_keys(const Set& set, const Scope& scope, const Pair& pair) {
  auto& all = scope.problem.drawn;
  auto found =
      std::find_if(all.begin(), all.end(), [&](const Drawn& d) { return d.set == &set && d.block == scope.block; });
  if (found == all.end()) found = all.insert(all.end(), Drawn{.set = &set, .block = scope.block});
  const bool is_random = set.kind == SetKind::random;
  if (found->rows.size() > kMostRows) found->rows.clear();
  const auto [at, is_new] = found->rows.try_emplace({is_random ? 0 : pair.b, pair.h, pair.q});
  if (is_new) {
    at->second = is_random
                     ? sample_keys(set.args[0], scope.n_k, static_cast<std::uint64_t>(set.args[1]), pair.h, pair.q)
                     : best_blocks(set, scope, pair);
  }
  return at->second;
}

}  // namespace weft::ir
