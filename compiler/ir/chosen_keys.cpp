#include "compiler/ir/chosen_keys.h"

#include "compiler/ir/pattern_interpreter_problem.h"
#include "compiler/ir/philox.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace weft::ir {
namespace {

void collect(const SetPtr& set, std::int64_t block, std::vector<ChosenSet>& out) {
  if (set->kind == SetKind::random || set->kind == SetKind::top) {
    const ChosenSet found{.set = set, .block = block};
    const auto is_same = [&](const ChosenSet& known) { return same(known, found); };
    if (std::none_of(out.begin(), out.end(), is_same)) out.push_back(found);
  }
  const bool in_blocks = set->kind == SetKind::blocks;
  for (const auto& child : set->children) {
    collect(child, in_blocks ? bounded_product(block, bounded_product(set->args[0], 1)) : block, out);
  }
}

/// The places of one row against what may stand there.
class Row {
 public:
  Row(const ChosenKeys& keys, const Scope& scope, const Pair& pair)
      : set_(*keys.of.set), scope_(scope), pair_(pair), places_(keys.places(pair.b, pair.h, pair.q)) {
    count_ = keys.extent[3];
    while (used_ < count_ && places_[used_] != kNoKey) ++used_;
  }

  std::string problem() const {
    if (auto wrong = form(); !wrong.empty()) return wrong;
    return set_.kind == SetKind::random ? sample() : best();
  }

 private:
  std::vector<std::int64_t> chosen() const { return {places_, places_ + used_}; }

  std::string form() const {
    for (std::int64_t i = used_; i < count_; ++i) {
      if (places_[i] != kNoKey) return fmt::format("{} stands behind an unused place", places_[i]);
    }
    for (std::int64_t i = 0; i < used_; ++i) {
      if (places_[i] < 0 || places_[i] >= scope_.n_k) return fmt::format("chose {} of {}", places_[i], scope_.n_k);
      if (i > 0 && places_[i] <= places_[i - 1]) {
        return fmt::format("{} stands behind {}", places_[i], places_[i - 1]);
      }
    }
    return {};
  }

  std::string sample() const {
    const auto expected =
        sample_keys(set_.args[0], scope_.n_k, static_cast<std::uint64_t>(set_.args[1]), pair_.h, pair_.q);
    if (chosen() == expected) return {};
    return fmt::format("chose {}; the seed draws {}", fmt::join(chosen(), " "), fmt::join(expected, " "));
  }

  std::string best() const {
    const auto scores = top_scores(set_, scope_, pair_);
    const auto candidates = static_cast<std::int64_t>(scores.size());
    const std::int64_t expected = std::min(set_.args[0], candidates);
    if (used_ != expected) return fmt::format("chose {} of {}, not {}", used_, candidates, expected);
    if (used_ == 0) return {};
    if (places_[used_ - 1] >= candidates) return fmt::format("chose {}, which lies ahead", places_[used_ - 1]);
    const bool has_own = pair_.q >= 0 && pair_.q < candidates;
    if (has_own && !std::binary_search(places_, places_ + used_, pair_.q)) return "its own block is not chosen";
    auto ordered = scores;
    if (has_own) ordered[static_cast<std::size_t>(pair_.q)] = std::numeric_limits<double>::infinity();
    std::nth_element(ordered.begin(), ordered.begin() + (expected - 1), ordered.end(), std::greater<>());
    const double least = ordered[static_cast<std::size_t>(expected - 1)];
    for (const std::int64_t block : chosen()) {
      const double score = scores[static_cast<std::size_t>(block)];
      if (block == pair_.q || score >= least - 1e-4 * (1 + std::fabs(score))) continue;
      return fmt::format("chose {}, which scores {:.6g}; the least of the best {} scores {:.6g}", block, score,
                         expected, least);
    }
    return {};
  }

  const Set& set_;
  const Scope& scope_;
  Pair pair_;
  const std::int32_t* places_;
  std::int64_t count_ = 0, used_ = 0;
};

Scope scope_of(const Problem& problem, std::int64_t block) {
  const std::int64_t count = (problem.shape.n_k + block - 1) / block;
  return {.problem = problem, .n_q = count, .n_k = count, .block = block};
}

}  // namespace

bool same(const ChosenSet& a, const ChosenSet& b) { return a.block == b.block && same(*a.set, *b.set); }

std::string print(const ChosenSet& chosen, const Pattern& pattern) {
  std::vector<std::string> names;
  for (const auto& input : pattern.inputs) names.push_back(input.name);
  const auto text = print(*chosen.set, names);
  return chosen.block > 1 ? fmt::format("blocks({}, {})", chosen.block, text) : text;
}

std::vector<ChosenSet> chosen_sets(const Pattern& pattern) {
  std::vector<ChosenSet> out;
  for (const auto& branch : pattern.branches) collect(branch.set, 1, out);
  return out;
}

void choose_keys(const Pattern& pattern, const Shape& shape, const InputValues& inputs, const Tensor& q,
                 const Tensor& k, ChosenKeys& keys) {
  const Problem problem{pattern, shape, inputs, &q, &k};
  const Scope scope = scope_of(problem, keys.of.block);
  const auto& extent = keys.extent;
  keys.numbers.assign(static_cast<std::size_t>(extent[0] * extent[1] * extent[2] * extent[3]), kNoKey);
  auto at = keys.numbers.begin();
  for (std::int64_t b = 0; b < extent[0]; ++b) {
    for (std::int64_t h = 0; h < extent[1]; ++h) {
      for (std::int64_t row = 0; row < extent[2]; ++row, at += extent[3]) {
        const Pair pair{.b = b, .h = keys.first_head + h, .q = keys.first_row + row, .k = 0};
        const auto& chosen = drawn_keys(*keys.of.set, scope, pair);
        std::transform(chosen.begin(), chosen.end(), at, [](std::int64_t x) { return static_cast<std::int32_t>(x); });
      }
    }
  }
}

std::string wrong_choice(const Pattern& pattern, const Shape& shape, const InputValues& inputs, const Tensor& q,
                         const Tensor& k, const ChosenKeys& keys, const std::vector<std::int64_t>& rows) {
  const Problem problem{pattern, shape, inputs, &q, &k};
  const Scope scope = scope_of(problem, keys.of.block);
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    std::set<std::int64_t> blocks;
    for (const std::int64_t row : rows) blocks.insert(floor_div(row + shape.offset_of(b), keys.of.block));
    for (std::int64_t h = shape.head_begin; h < shape.head_end(); ++h) {
      for (const std::int64_t row : blocks) {
        const auto wrong = Row(keys, scope, {.b = b, .h = h, .q = row, .k = 0}).problem();
        if (wrong.empty()) continue;
        return fmt::format("{}, batch entry {}, head {}, row {}: {}", print(keys.of, pattern), b, h, row, wrong);
      }
    }
  }
  return {};
}

}  // namespace weft::ir
