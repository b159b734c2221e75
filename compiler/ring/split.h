#pragma once

#include "compiler/ring/owners.h"

#include <algorithm>

/// Who owns which tokens, and who computes what of them.
namespace weft::ring {

/// Heads of K and V that follow one another, with the query heads that share them.
struct Heads {
  std::int64_t first = 0, count = 0;
  std::int64_t end() const { return first + count; }
  bool operator==(const Heads&) const = default;
};

/// Rows whose queries go to the keys. Their keys are cut at multiples of a number that no rank has a say in; each chunk
/// is computed by one rank, and who owns the row merges what chunks kept, from left to right. So its bits go by the
/// chunks, and not by the ranks.
struct Moved {
  Runs rows;                          ///< sorted, of stride 1; empty: none
  std::int64_t keys = 0;              ///< of a chunk
  std::vector<std::int64_t> rank_of;  ///< by chunk

  std::int64_t chunks() const { return std::ssize(rank_of); }
  /// Chunks [first, end) as keys.
  Keys keys_of(std::int64_t first, std::int64_t end, std::int64_t tokens) const {
    return {first * keys, std::min(end * keys, tokens)};
  }
  /// Calls visit(first, end) for the chunks of a rank, those that follow one another together.
  template <typename Visit>
  void each_stretch(std::int64_t rank, const Visit& visit) const {
    for (std::int64_t first = 0, end = 0; first < chunks(); first = end) {
      for (end = first + 1; end < chunks() && of(end) == of(first); ++end) {
      }
      if (of(first) == rank) visit(first, end);
    }
  }

 private:
  std::int64_t of(std::int64_t chunk) const { return rank_of[static_cast<std::size_t>(chunk)]; }
};

/// Where ranks go through the keys in rounds, rows that are computed together, of which each has its own keys: causal
/// rows that come early are done early.
inline constexpr std::int64_t kPartsOfRounds = 32;

/// Ranks that follow one another are a group, in which each is a lane: it computes the rows of all ranks of its group,
/// for heads of its own. Q, K and V of the others' rows come to it before, and O of their rows goes back behind: what
/// others call the all-to-all of heads. A group of one rank computes its own rows for all heads, and nothing changes
/// places.
struct Split {
  OwnerMap home;             ///< by rank
  OwnerMap groups;           ///< by group
  std::vector<Heads> lanes;  ///< of each group
  Moved moved = {};          ///< where no heads change places
  /// Where K and V that a rank needs do not fit its memory: all ranks go through the keys in rounds of so many, at
  /// multiples of it, and each row's state from one round to the next. 0: they fit.
  std::int64_t round_keys = 0;

  /// Each rank computes what it owns.
  static Split of_owners(OwnerMap owners, std::int64_t kv_heads);
  /// The rows of each group, in equal parts, belong to its ranks.
  static Split of_groups(OwnerMap groups, std::vector<Heads> lanes);

  std::int64_t ranks() const { return home.ranks(); }
  std::int64_t group_size() const { return std::ssize(lanes); }
  bool changes_heads() const { return group_size() > 1; }
  bool moves_queries() const { return !moved.rows.empty(); }
  std::int64_t group_of(std::int64_t rank) const { return rank / group_size(); }
  std::int64_t lane_of(std::int64_t rank) const { return rank % group_size(); }
  std::int64_t rank_of(std::int64_t group, std::int64_t lane) const { return group * group_size() + lane; }

  const Runs& owned(std::int64_t rank) const { return home.runs[static_cast<std::size_t>(rank)]; }
  /// Tokens whose K and V it has before anything of others comes.
  const Runs& computed(std::int64_t rank) const { return groups.runs[static_cast<std::size_t>(group_of(rank))]; }
  /// Of these, the rows that it computes with all their keys.
  Runs rows_of(std::int64_t rank) const {
    return moves_queries() ? outside(computed(rank), moved.rows) : computed(rank);
  }
  Runs moved_of(std::int64_t rank) const { return moves_queries() ? inside(moved.rows, owned(rank)) : Runs(); }
  const Heads& heads(std::int64_t rank) const { return lanes[static_cast<std::size_t>(lane_of(rank))]; }
};

/// Heads in as many lanes, each of some that follow one another, so that the one with the most work has the least that
/// it can. `work`: of each head; as many lanes as heads at most.
std::vector<Heads> lanes_of(const std::vector<double>& work, std::int64_t lanes);

}  // namespace weft::ring
