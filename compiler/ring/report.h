#pragma once

#include "compiler/ring/machine.h"
#include "compiler/ring/relation.h"

#include <string>
#include <vector>

/// What a ring would move and compute, without moving anything.
namespace weft::ring {

struct RankShare {
  std::int64_t tokens = 0;
  double pairs = 0;
  double needed_bytes = 0;    ///< of K and V, from others: what it receives
  double sent_bytes = 0;      ///< to others
  std::int64_t messages = 0;  ///< ranks that it receives from
  double field_bytes = 0;     ///< what it would receive in a ring or all-gather of all keys
  double near_bytes = 0;      ///< of needed_bytes those from its own node
};

struct Report {
  std::vector<RankShare> ranks;
  double imbalance = 1;    ///< the largest share of pairs by the mean one
  double predicted_s = 0;  ///< of the slowest rank
  double efficiency = 1;   ///< one device's predicted time, over all ranks, by it
  bool is_local() const;   ///< nothing travels
  double mean_needed() const;
  double most_needed() const;
};

/// The largest of these by their mean.
double imbalance_of(const std::vector<double>& pairs);

/// Predicted seconds of the slowest of a few ranks: those of `pairs`, by rank, with the most, and some spread evenly.
double slowest_of_some(const Relation& relation, const OwnerMap& map, const std::vector<double>& pairs,
                       const Machine& machine);

Report report_of(const Relation& relation, const OwnerMap& map, const Machine& machine);

}  // namespace weft::ring
