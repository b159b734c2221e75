#include "compiler/ring/choose.h"

#include "compiler/ir/key_chunks.h"
#include "compiler/ring/move_queries.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <vector>

namespace weft::ring {

namespace {

constexpr double kBalanced = 1.03;
/// Of the time of others, where a row's bits are no more one device's.
constexpr double kWorthOtherBits = 0.8;

struct Candidate {
  OwnerMap map;
  std::vector<std::vector<double>> by_head = {};  ///< pairs by rank and head of K and V
  std::vector<double> pairs = {};                 ///< by rank
  double imbalance = 1;

  void add_up() {
    for (const auto& of_rank : by_head) pairs.push_back(std::accumulate(of_rank.begin(), of_rank.end(), 0.0));
    imbalance = imbalance_of(pairs);
  }
};

/// Many ranks have small pieces anyway.
std::int64_t most_rounds(std::int64_t ranks) { return ranks <= 128 ? 16 : ranks <= 256 ? 8 : 4; }

/// All tokens in so many pieces that follow one another: pairs by piece and head of K and V. Groups of ranks in which
/// heads change places are fewer, and cut finer, and often ask for the same.
class CutTokens {
 public:
  explicit CutTokens(const Relation& relation) : relation_(relation) {}
  const std::vector<std::vector<double>>& in(std::int64_t pieces) {
    auto& known = known_[pieces];
    if (!known.empty()) return known;
    const auto cut = ring::snake(relation_.shape().n_q, pieces, 1, 1);
    for (const auto& runs : cut.runs) known.push_back(relation_.pairs_by_head({runs}, {0, relation_.shape().kv_heads}));
    return known;
  }
  const Relation& relation() const { return relation_; }

 private:
  const Relation& relation_;
  std::map<std::int64_t, std::vector<std::vector<double>>> known_;
};

void add(const std::vector<double>& of_heads, std::vector<double>& to) {
  for (std::size_t kv = 0; kv < of_heads.size(); ++kv) to[kv] += of_heads[kv];
}

/// Pairs of the pieces of the finest snake, among whose borders those of all others are.
class Pieces {
 public:
  Pieces(CutTokens& tokens, std::int64_t ranks, std::int64_t rounds)
      : tokens_(tokens.relation().shape().n_q), ranks_(ranks), rounds_(rounds), by_head_(tokens.in(ranks * rounds)) {
    for (const auto& of_piece : by_head_) pairs_.push_back(std::accumulate(of_piece.begin(), of_piece.end(), 0.0));
  }

  Candidate snake(std::int64_t group, std::int64_t rounds) const {
    Candidate out{.map = {}, .by_head = none()};
    std::int64_t piece = 0;
    for (std::int64_t first = 0; first < ranks_; first += group) {
      const std::int64_t size = std::min(group, ranks_ - first);
      for (std::int64_t round = 0; round < rounds; ++round) {
        for (std::int64_t place = 0; place < size; ++place, ++piece) {
          const auto rank = static_cast<std::size_t>(first + (round % 2 == 0 ? place : size - 1 - place));
          const std::int64_t each = rounds_ / rounds;
          for (std::int64_t i = 0; i < each; ++i)
            add(by_head_[static_cast<std::size_t>(piece * each + i)], out.by_head[rank]);
        }
      }
    }
    out.add_up();
    out.map = ring::snake(tokens_, ranks_, group, rounds);
    return out;
  }

  /// Contiguous, and then pieces of the rank with the most change places with pieces of the one with the least, until
  /// all have about as much: what is local mostly stays so.
  Candidate swapped() const {
    std::vector<std::int64_t> rank_of;
    std::vector<double> pairs(static_cast<std::size_t>(ranks_), 0);
    for (std::size_t piece = 0; piece < pairs_.size(); ++piece) {
      rank_of.push_back(static_cast<std::int64_t>(piece) / rounds_);
      pairs[static_cast<std::size_t>(rank_of.back())] += pairs_[piece];
    }
    std::vector<std::vector<std::size_t>> of(pairs.size());
    for (std::size_t piece = 0; piece < pairs_.size(); ++piece)
      of[static_cast<std::size_t>(rank_of[piece])].push_back(piece);
    for (std::size_t left = 8 * pairs_.size(); left > 0 && imbalance_of(pairs) > kSwapped; --left) {
      const auto [least, most] = std::minmax_element(pairs.begin(), pairs.end());
      const double gap = *most - *least;
      auto& from = of[static_cast<std::size_t>(most - pairs.begin())];
      auto& to = of[static_cast<std::size_t>(least - pairs.begin())];
      std::size_t *heavy = nullptr, *light = nullptr;
      double best = gap / 2;  // how far a swap is from halving the gap; it must narrow it
      for (auto& a : from) {
        for (auto& b : to) {
          const double off = std::abs(pairs_[a] - pairs_[b] - gap / 2);
          if (off < best) best = off, heavy = &a, light = &b;
        }
      }
      if (heavy == nullptr) break;
      const double moved = pairs_[*heavy] - pairs_[*light];
      std::swap(rank_of[*heavy], rank_of[*light]);
      std::swap(*heavy, *light);
      *most -= moved;
      *least += moved;
    }
    Candidate out{.map = chunks(tokens_, ranks_, rank_of), .by_head = none()};
    for (std::size_t piece = 0; piece < by_head_.size(); ++piece)
      add(by_head_[piece], out.by_head[static_cast<std::size_t>(rank_of[piece])]);
    out.add_up();
    return out;
  }

 private:
  static constexpr double kSwapped = 1.02;

  std::vector<std::vector<double>> none() const {
    return {static_cast<std::size_t>(ranks_), std::vector<double>(by_head_.front().size(), 0)};
  }

  std::int64_t tokens_, ranks_, rounds_;
  const std::vector<std::vector<double>>& by_head_;
  std::vector<double> pairs_;
};

/// Contiguous; of each number of rounds the smallest groups that are balanced, as what is paired then stays near; and,
/// where neither is, chunks that changed places.
std::vector<Candidate> candidates(CutTokens& tokens, std::int64_t ranks) {
  std::vector<Candidate> out;
  out.push_back(Pieces(tokens, ranks, 1).snake(1, 1));
  if (ranks == 1 || out[0].imbalance < 1.002) return out;
  const Pieces pieces(tokens, ranks, most_rounds(ranks));
  bool zigzag = false;
  for (std::int64_t rounds = 2; rounds <= most_rounds(ranks); rounds *= 2) {
    std::optional<Candidate> best;
    for (std::int64_t group = 2;; group *= 2) {
      auto now = pieces.snake(std::min(group, ranks), rounds);
      const bool enough = now.imbalance <= kBalanced || group >= ranks;
      zigzag = zigzag || (group >= ranks && rounds == 2);
      if (!best || now.imbalance < best->imbalance - 1e-9) best = std::move(now);
      if (enough) break;
    }
    out.push_back(std::move(*best));
  }
  if (!zigzag) out.push_back(pieces.snake(ranks, 2));
  const bool balanced =
      std::any_of(out.begin(), out.end(), [](const Candidate& c) { return c.imbalance <= kBalanced; });
  if (!balanced) out.push_back(pieces.swapped());
  return out;
}

/// The best of what was looked at so far.
class Best {
 public:
  Best(const Relation& relation, const Machine& machine) : relation_(relation), machine_(machine) {}

  /// `pairs`: by rank. Of later ones that take about as long the simpler, which come first, are better.
  void look_at(Split split, const std::vector<double>& pairs, double enough = 0.999) {
    const double to_beat = seconds_ ? enough * *seconds_ : std::numeric_limits<double>::infinity();
    const double seconds = slowest_of_some(relation_, split, pairs, machine_, to_beat);
    choice_.reasons.push_back(fmt::format("{}{} takes {}{:.4g} ms, imbalance {:.3f}", split.home.name,
                                          split.moves_queries() ? " by queries" : "",
                                          seconds > to_beat ? "at least " : "", 1e3 * seconds, imbalance_of(pairs)));
    if (seconds > to_beat) return;
    seconds_ = seconds;
    choice_.split = std::move(split);
  }
  /// Is it about as fast as so many ranks can be?
  bool is_ideal(std::int64_t ranks) const {
    constexpr double kIdeal = 0.97;
    return seconds_ && seconds_alone(relation_, machine_) / static_cast<double>(ranks) > kIdeal * *seconds_;
  }
  Choice take() { return std::move(choice_); }

 private:
  const Relation& relation_;
  const Machine& machine_;
  Choice choice_;
  std::optional<double> seconds_;
};

/// Groups of each size in which heads can change places.
void look_at_heads(CutTokens& tokens, ir::RingLayout layout, std::int64_t ranks, Best& best) {
  const auto& relation = tokens.relation();
  const auto& shape = relation.shape();
  std::vector<double> work;
  for (std::int64_t kv = 0; kv < shape.kv_heads; ++kv)
    work.push_back(relation.pairs_of(Cell{{{0, shape.n_q}}}, {kv, 1}));
  for (std::int64_t size = 2; size <= std::min(ranks, shape.kv_heads); ++size) {
    if (ranks % size != 0 || (relation.undivided() && size < ranks)) continue;
    const auto lanes = lanes_of(work, size);
    std::vector<Candidate> of_size;
    if (layout != ir::RingLayout::automatic) {
      Candidate only{.map = owners(layout, shape.n_q, ranks / size)};
      for (const auto& rows : only.map.runs)
        only.by_head.push_back(relation.pairs_by_head({rows}, {0, shape.kv_heads}));
      of_size.push_back(std::move(only));
    } else {
      of_size = candidates(tokens, ranks / size);
    }
    for (auto& candidate : of_size) {
      std::vector<double> pairs;
      for (const auto& of_group : candidate.by_head) {
        for (const auto& heads : lanes)
          pairs.push_back(std::accumulate(of_group.begin() + heads.first, of_group.begin() + heads.end(), 0.0));
      }
      best.look_at(Split::of_groups(std::move(candidate.map), lanes), pairs);
    }
  }
}

/// Where the layout is `auto`, contiguous: what made it uneven moves. False where no row does.
bool look_at_queries(const Relation& relation, ir::RingLayout layout, std::int64_t ranks, double enough, Best& best) {
  auto split = Split::of_owners(layout == ir::RingLayout::automatic ? snake(relation.shape().n_q, ranks, 1, 1)
                                                                    : owners(layout, relation.shape().n_q, ranks),
                                relation.shape().kv_heads);
  const auto pairs = move_queries(relation, split);
  if (split.moves_queries()) best.look_at(split, pairs, enough);
  return split.moves_queries();
}

}  // namespace

std::optional<Carrier> carrier_named(std::string_view word) {
  for (const auto& [name, carrier] : kCarriers) {
    if (word == name) return carrier;
  }
  return {};
}

Result<Choice> choose(const Relation& relation, ir::RingLayout layout, std::int64_t ranks, const Machine& machine,
                      Carrier carrier) {
  const auto kv_heads = relation.shape().kv_heads;
  const bool automatic = layout == ir::RingLayout::automatic;
  if (relation.undivided() && ranks > 1) {
    if (carrier == Carrier::keys || carrier == Carrier::queries || ranks > kv_heads) return *relation.undivided();
    carrier = Carrier::heads;
  }
  if (carrier == Carrier::queries && ranks > 1) {
    WEFT_CHECK(ir::check_key_cuts(relation.plan()));
    if (layout == ir::RingLayout::striped)
      return user_error("a striped ring sends no queries to the keys; another layout does, or the carrier 'keys'");
    Best by_queries(relation, machine);
    if (look_at_queries(relation, layout, ranks, 1, by_queries)) return by_queries.take();
    carrier = Carrier::keys;  // no rows keep more than others
  }
  if (carrier != Carrier::heads && !automatic)
    return Choice{.split = Split::of_owners(owners(layout, relation.shape().n_q, ranks), kv_heads)};
  Best best(relation, machine);
  CutTokens tokens(relation);
  if (carrier != Carrier::heads || ranks == 1) {
    for (auto& candidate : candidates(tokens, ranks))
      best.look_at(Split::of_owners(std::move(candidate.map), kv_heads), candidate.pairs);
    if (ranks == 1 || carrier == Carrier::keys || best.is_ideal(ranks)) return best.take();
  }
  look_at_heads(tokens, layout, ranks, best);
  if (carrier == Carrier::automatic && !relation.undivided() && ir::check_key_cuts(relation.plan()).ok())
    look_at_queries(relation, layout, ranks, kWorthOtherBits, best);
  auto choice = best.take();
  if (choice.split.ranks() > 0) return choice;
  if (kv_heads == 1) return user_error("one head of k and v cannot change places with another; use the carrier 'keys'");
  return user_error(
      fmt::format("heads cannot change places among {} ranks: that is no multiple of a number from 2 to {}, "
                  "the heads of k and v; use the carrier 'keys'",
                  ranks, kv_heads));
}

}  // namespace weft::ring
