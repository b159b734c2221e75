#include "compiler/ir/chosen_keys.h"
#include "compiler/ir/pattern_interpreter_problem.h"
#include "compiler/ir/philox.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

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

/// The mean of every block of keys of a head.
const std::vector<std::vector<double>>& key_means(const Scope& scope, std::int64_t b, std::int64_t head) {
  const Problem& problem = scope.problem;
  auto& means = problem.key_means[{b, head, scope.block}];
  while (std::ssize(means) < scope.n_k) {
    const std::int64_t begin = std::ssize(means) * scope.block;
    means.push_back(block_mean(*problem.k, b, head, 0, begin, begin + scope.block));
  }
  return means;
}

std::vector<double> pooled_scores(const Scope& scope, const Pair& pair, std::int64_t count) {
  const Problem& problem = scope.problem;
  const std::int64_t size = scope.block;
  const auto query =
      block_mean(*problem.q, pair.b, pair.h, problem.shape.offset_of(pair.b), pair.q * size, (pair.q + 1) * size);
  const auto& means = key_means(scope, pair.b, pair.h / (problem.shape.heads / problem.shape.kv_heads));
  std::vector<double> scores;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto& key = means[static_cast<std::size_t>(i)];
    scores.push_back(std::inner_product(query.begin(), query.end(), key.begin(), 0.0));
  }
  return scores;
}

std::vector<double> given_scores(const Set& set, const Scope& scope, const Pair& pair, std::int64_t count) {
  std::vector<double> scores;
  for (std::int64_t i = 0; i < count; ++i) scores.push_back(element(scope, set.input, pair, {pair.q, i}));
  return scores;
}

std::int64_t candidates_of(const Set& set, const Scope& scope, const Pair& pair) {
  return set.causal_top ? std::clamp<std::int64_t>(pair.q + 1, 0, scope.n_k) : scope.n_k;
}

bool knows_scores(const Set& set, const Problem& problem) {
  const auto input = static_cast<std::size_t>(set.input);
  return set.input < 0 ? problem.q != nullptr && problem.k != nullptr
                       : input < problem.inputs.size() && !problem.inputs[input].data.empty();
}

/// Without what blocks are scored by, any choice is as good as another: the diagonal, and others that are drawn.
std::vector<std::int64_t> some_blocks(const Set& set, const Scope& scope, const Pair& pair) {
  auto keys = sample_keys(set.args[0], candidates_of(set, scope, pair), 0, pair.h, pair.q);
  const bool has_diagonal = pair.q < 0 || pair.q >= scope.n_k || std::binary_search(keys.begin(), keys.end(), pair.q);
  if (keys.empty() || has_diagonal) return keys;
  keys.back() = pair.q;
  std::sort(keys.begin(), keys.end());
  return keys;
}

std::vector<std::int64_t> best_blocks(const Set& set, const Scope& scope, const Pair& pair) {
  const auto scores = top_scores(set, scope, pair);
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

/// The row as somebody else chose it, in order whatever its places hold.
std::optional<std::vector<std::int64_t>> given_keys(const Set& set, const Scope& scope, const Pair& pair) {
  if (scope.problem.chosen == nullptr) return std::nullopt;
  for (const auto& keys : *scope.problem.chosen) {
    if (keys.of.block != scope.block || !same(*keys.of.set, set) || !keys.has(pair.q)) continue;
    const std::int32_t* const places = keys.places(pair.b, pair.h, pair.q);
    std::vector<std::int64_t> row(places, places + keys.extent[3]);
    std::sort(row.begin(), row.end());
    return row;
  }
  return std::nullopt;
}

std::vector<std::int64_t> choose(const Set& set, const Scope& scope, const Pair& pair) {
  if (auto given = given_keys(set, scope, pair)) return std::move(*given);
  if (set.kind == SetKind::top && !knows_scores(set, scope.problem)) return some_blocks(set, scope, pair);
  if (set.kind == SetKind::top) return best_blocks(set, scope, pair);
  return sample_keys(set.args[0], scope.n_k, static_cast<std::uint64_t>(set.args[1]), pair.h, pair.q);
}

constexpr std::size_t kMostRows = 4096;

}  // namespace

std::vector<double> top_scores(const Set& set, const Scope& scope, const Pair& pair) {
  const std::int64_t candidates = candidates_of(set, scope, pair);
  auto scores = set.input < 0 ? pooled_scores(scope, pair, candidates) : given_scores(set, scope, pair, candidates);
  for (auto& score : scores) score = std::isnan(score) ? -std::numeric_limits<double>::infinity() : score;
  return scores;
}

const std::vector<std::int64_t>& drawn_keys(const Set& set, const Scope& scope, const Pair& pair) {
  auto& all = scope.problem.drawn;
  auto found =
      std::find_if(all.begin(), all.end(), [&](const Drawn& d) { return d.set == &set && d.block == scope.block; });
  if (found == all.end()) found = all.insert(all.end(), Drawn{.set = &set, .block = scope.block});
  const bool is_random = set.kind == SetKind::random;
  if (found->rows.size() > kMostRows) found->rows.clear();
  const auto [at, is_new] = found->rows.try_emplace({is_random ? 0 : pair.b, pair.h, pair.q});
  if (is_new) at->second = choose(set, scope, pair);
  return at->second;
}

}  // namespace weft::ir
