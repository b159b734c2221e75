#pragma once

#include "compiler/ring/owners.h"

/// Who owns which tokens, and who computes what of them.
namespace weft::ring {

/// Heads of K and V that follow one another, with the query heads that share them.
struct Heads {
  std::int64_t first = 0, count = 0;
  std::int64_t end() const { return first + count; }
  bool operator==(const Heads&) const = default;
};

/// Ranks that follow one another are a group, in which each is a lane: it computes the rows of all ranks of its group,
/// for heads of its own. Q, K and V of the others' rows come to it before, and O of their rows goes back behind: what
/// others call the all-to-all of heads. A group of one rank computes its own rows for all heads, and nothing changes
/// places.
struct Split {
  OwnerMap home;             ///< by rank
  OwnerMap groups;           ///< by group
  std::vector<Heads> lanes;  ///< of each group

  /// Each rank computes what it owns.
  static Split of_owners(OwnerMap owners, std::int64_t kv_heads);
  /// The rows of each group, in equal parts, belong to its ranks.
  static Split of_groups(OwnerMap groups, std::vector<Heads> lanes);

  std::int64_t ranks() const { return home.ranks(); }
  std::int64_t group_size() const { return std::ssize(lanes); }
  bool changes_heads() const { return group_size() > 1; }
  std::int64_t group_of(std::int64_t rank) const { return rank / group_size(); }
  std::int64_t lane_of(std::int64_t rank) const { return rank % group_size(); }
  std::int64_t rank_of(std::int64_t group, std::int64_t lane) const { return group * group_size() + lane; }

  const Runs& owned(std::int64_t rank) const { return home.runs[static_cast<std::size_t>(rank)]; }
  const Runs& computed(std::int64_t rank) const { return groups.runs[static_cast<std::size_t>(group_of(rank))]; }
  const Heads& heads(std::int64_t rank) const { return lanes[static_cast<std::size_t>(lane_of(rank))]; }
};

/// Heads in as many lanes, each of some that follow one another, so that the one with the most work has the least that
/// it can. `work`: of each head; as many lanes as heads at most.
std::vector<Heads> lanes_of(const std::vector<double>& work, std::int64_t lanes);

}  // namespace weft::ring
