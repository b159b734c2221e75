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
  double needed_bytes = 0;    ///< from others: what it receives
  double sent_bytes = 0;      ///< to others
  std::int64_t messages = 0;  ///< ranks that it receives from
  double field_bytes = 0;     ///< what it would receive in a ring or all-gather of all keys
  double near_bytes = 0;      ///< of K, V and `rows_bytes`, those from its own node
  /// Where heads change places, of needed_bytes: Q, K and V for its heads, before it computes, and O and LSE of its
  /// rows, behind.
  double exchanged_before = 0, exchanged_behind = 0;
  /// Where queries go to the keys, of needed_bytes: rows of Q for its chunks of keys, before it computes these, and
  /// what chunks of others kept of its own rows, behind.
  double moved_before = 0, moved_behind = 0;
  double rows_bytes = 0;  ///< of a backward pass, of needed_bytes: rows of Q, dO, O and LSE that keep own keys
  double own_bytes = 0;   ///< K and V of the rows that it computes, of its heads
  double keys_bytes() const {
    return needed_bytes - exchanged_before - exchanged_behind - moved_before - moved_behind - rows_bytes;
  }
  double held_bytes() const { return own_bytes + keys_bytes(); }  ///< all of K and V that its kernels read
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

/// What travels, in a word or two.
std::string carrier_of(const Split& split, const Report& report);

/// What a row's bits go by: `one device`, or `chunks of 4096 keys`.
std::string bits_of(const Split& split);

/// The largest of these by their mean.
double imbalance_of(const std::vector<double>& pairs);

/// One device's predicted time.
double seconds_alone(const Relation& relation, const Machine& machine);

/// Predicted seconds of the slowest of a few ranks: those of `pairs`, by rank, with the most, and some spread evenly.
/// Where one takes longer than `enough`, its own: nobody asks the others.
double slowest_of_some(const Relation& relation, const Split& split, const std::vector<double>& pairs,
                       const Machine& machine, double enough);

Report report_of(const Relation& relation, const Split& split, const Machine& machine);

}  // namespace weft::ring
