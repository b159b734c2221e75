#include "compiler/ring/choose.h"

#include <fmt/format.h>

namespace weft::ring {

namespace {

constexpr double kBalanced = 1.03;

struct Snake {
  std::int64_t group = 1, rounds = 1;
  std::vector<double> pairs = {};  ///< by rank
  double imbalance = 1;
};

/// Many ranks have small pieces anyway.
std::int64_t most_rounds(std::int64_t ranks) { return ranks <= 128 ? 16 : ranks <= 256 ? 8 : 4; }

/// Pairs of every snake's ranks, from those of the pieces of the finest: borders of the others are among its.
class Balances {
 public:
  Balances(const Relation& relation, std::int64_t ranks, std::int64_t rounds) : ranks_(ranks), rounds_(rounds) {
    const auto fine = snake(relation.shape().n_q, ranks * rounds, 1, 1);
    for (const auto& runs : fine.runs) pairs_.push_back(relation.pairs_of(runs));
  }

  Snake of(std::int64_t group, std::int64_t rounds) const {
    Snake out{.group = group, .rounds = rounds, .pairs = std::vector<double>(static_cast<std::size_t>(ranks_), 0)};
    std::int64_t piece = 0;
    for (std::int64_t first = 0; first < ranks_; first += group) {
      const std::int64_t size = std::min(group, ranks_ - first);
      for (std::int64_t round = 0; round < rounds; ++round) {
        for (std::int64_t place = 0; place < size; ++place, ++piece) {
          const auto rank = static_cast<std::size_t>(first + (round % 2 == 0 ? place : size - 1 - place));
          const std::int64_t each = rounds_ / rounds;
          for (std::int64_t i = 0; i < each; ++i) out.pairs[rank] += pairs_[static_cast<std::size_t>(piece * each + i)];
        }
      }
    }
    out.imbalance = imbalance_of(out.pairs);
    return out;
  }

 private:
  std::int64_t ranks_, rounds_;
  std::vector<double> pairs_;
};

/// Contiguous; and of each number of rounds the smallest groups that are balanced, as what is paired then stays near.
std::vector<Snake> candidates(const Relation& relation, std::int64_t ranks) {
  std::vector<Snake> out = {Balances(relation, ranks, 1).of(1, 1)};
  if (ranks == 1 || out[0].imbalance < 1.002) return out;
  const Balances balances(relation, ranks, most_rounds(ranks));
  for (std::int64_t rounds = 2; rounds <= most_rounds(ranks); rounds *= 2) {
    std::optional<Snake> best;
    for (std::int64_t group = 2;; group *= 2) {
      auto now = balances.of(std::min(group, ranks), rounds);
      const bool enough = now.imbalance <= kBalanced || group >= ranks;
      if (!best || now.imbalance < best->imbalance - 1e-9) best = std::move(now);
      if (enough) break;
    }
    out.push_back(std::move(*best));
  }
  const bool zigzag = std::any_of(out.begin(), out.end(), [&](const Snake& s) { return s.group == ranks; });
  if (!zigzag) out.push_back(balances.of(ranks, 2));
  return out;
}

}  // namespace

Choice choose(const Relation& relation, ir::RingLayout layout, std::int64_t ranks, const Machine& machine) {
  if (layout != ir::RingLayout::automatic) return {.map = owners(layout, relation.shape().n_q, ranks)};
  std::optional<OwnerMap> best;
  double fastest = 0;
  std::vector<std::string> reasons;
  for (const auto& candidate : candidates(relation, ranks)) {
    auto map = snake(relation.shape().n_q, ranks, candidate.group, candidate.rounds);
    const double seconds = slowest_of_some(relation, map, candidate.pairs, machine);
    reasons.push_back(
        fmt::format("{} takes {:.4g} ms, imbalance {:.3f}", map.name, 1e3 * seconds, candidate.imbalance));
    if (best && seconds > 0.999 * fastest) continue;  // the simpler one comes first
    fastest = seconds;
    best = std::move(map);
  }
  return {.map = std::move(*best), .reasons = std::move(reasons)};
}

}  // namespace weft::ring
