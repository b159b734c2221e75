#pragma once

#include "compiler/ir/schedule.h"
#include "compiler/ring/relation.h"
#include "compiler/ring/report.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

/// What reports of both passes count by.
namespace weft::ring {

/// Which group owns a token, and what of moved rows each rank has.
class OwnerIndex {
 public:
  explicit OwnerIndex(const Split& split) : ranks_(split.groups.ranks()) {
    const auto& map = split.groups;
    for (std::int64_t g = 0; split.moves_queries() && g < ranks_; ++g) {
      moved_rows_.push_back(count_of(split.moved_of(g)));
      moved_chunks_.push_back(std::count(split.moved.rank_of.begin(), split.moved.rank_of.end(), g));
    }
    for (std::int64_t g = 0; g < ranks_; ++g) {
      for (const auto& run : map.runs[static_cast<std::size_t>(g)]) {
        striped_ = striped_ || run.stride > 1;
        owned_.push_back({run.first, run.end(), g});
      }
    }
    std::sort(owned_.begin(), owned_.end(), [](const Owned& a, const Owned& b) { return a.begin < b.begin; });
  }

  std::int64_t moved_rows(std::int64_t rank) const { return moved_rows_[static_cast<std::size_t>(rank)]; }
  std::int64_t moved_chunks(std::int64_t rank) const { return moved_chunks_[static_cast<std::size_t>(rank)]; }

  /// Calls visit(rank, tokens) for the owners of a run's tokens; a rank may come several times.
  template <typename Visit>
  void each(const Run& run, const Visit& visit) const {
    if (run.count == 0) return;
    if (striped_) {
      // The owners of a progression repeat.
      const std::int64_t period = std::min(run.count, ranks_ / std::gcd(ranks_, run.stride));
      for (std::int64_t i = 0; i < period; ++i)
        visit((run.first + i * run.stride) % ranks_, (run.count - 1 - i) / period + 1);
      return;
    }
    auto at = std::upper_bound(owned_.begin(), owned_.end(), run.first,
                               [](std::int64_t x, const Owned& owned) { return x < owned.begin; }) -
              1;
    const Residue residue{run.stride, ir::floor_mod(run.first, run.stride)};
    for (; at != owned_.end() && at->begin < run.end(); ++at) {
      const Run part = members(residue, std::max(at->begin, run.first), std::min(at->end, run.end()));
      if (part.count > 0) visit(at->rank, part.count);
    }
  }

 private:
  struct Owned {
    std::int64_t begin, end, rank;
  };
  std::int64_t ranks_;
  bool striped_ = false;
  std::vector<Owned> owned_;
  std::vector<std::int64_t> moved_rows_, moved_chunks_;
};

/// `from`, by rank, grows by what rank `to` receives of what is needed: `of_one` bytes a token and head.
inline void add_needed(const OwnerIndex& owner, const Split& split, std::int64_t to, const Needs& needs, double of_one,
                       std::vector<double>& from) {
  std::vector<double> times(needs.sets.size(), 0);  // heads and entries that need a set
  for (const int set : needs.of) ++times[static_cast<std::size_t>(set)];
  for (std::size_t set = 0; set < needs.sets.size(); ++set) {
    if (times[set] == 0) continue;
    for (const auto& run : needs.sets[set]) {
      owner.each(run, [&](std::int64_t group, std::int64_t tokens) {
        from[static_cast<std::size_t>(split.rank_of(group, split.lane_of(to)))] +=
            static_cast<double>(tokens) * times[set] * of_one;
      });
    }
  }
}

inline void add_received(const std::vector<double>& from, RankShare& share) {
  for (const double bytes : from) {
    if (bytes == 0) continue;
    ++share.messages;
    share.needed_bytes += bytes;
  }
}

/// What of these comes from ranks that share a node with `to`.
inline double near_bytes(const std::vector<double>& from, std::int64_t to, std::int64_t node) {
  const auto first = from.begin() + to / node * node;
  return std::accumulate(first, first + std::min<std::int64_t>(node, from.end() - first), 0.0);
}

/// What changes places inside a group for its member `to`, from another: what the pass reads of the other's rows, and
/// what it writes of its own.
struct Exchanged {
  double before = 0, behind = 0;
};

/// What brings a rank the rows of others.
struct Inflow {
  double first_byte, s_per_byte;
  double of(double bytes) const { return bytes > 0 ? first_byte + bytes * s_per_byte : 0; }
};
/// `near`: the share of it that comes from the same node.
inline Inflow inflow_from(double near, const Machine& machine) {
  return {.first_byte = near < 1 ? machine.far_s : machine.near_s,
          .s_per_byte = std::max(near / machine.near_bytes_per_s, (1 - near) / machine.far_bytes_per_s)};
}

/// Seconds in which heads change places in the group of a rank.
double exchange_seconds(const Split& split, std::int64_t rank, double bytes, const Machine& machine);

/// Sums of what all ranks sent, and what follows from the slowest. `share_of(rank, from)` and
/// `seconds_of(rank, share)`.
template <typename ShareOf, typename SecondsOf>
Report report_with(std::int64_t ranks, double seconds_alone, const ShareOf& share_of, const SecondsOf& seconds_of) {
  Report out;
  out.ranks.resize(static_cast<std::size_t>(ranks));
  std::vector<double> pairs, from;
  for (std::size_t g = 0; g < out.ranks.size(); ++g) {
    const double sent = out.ranks[g].sent_bytes;
    out.ranks[g] = share_of(static_cast<std::int64_t>(g), from);
    out.ranks[g].sent_bytes = sent;
    for (std::size_t j = 0; j < from.size(); ++j) out.ranks[j].sent_bytes += from[j];
    pairs.push_back(out.ranks[g].pairs);
  }
  out.imbalance = imbalance_of(pairs);
  // The slowest has the most to do, or the most to wait for.
  const auto most = [&](auto member) {
    return static_cast<std::size_t>(
        std::max_element(out.ranks.begin(), out.ranks.end(), [&](auto& a, auto& b) { return a.*member < b.*member; }) -
        out.ranks.begin());
  };
  for (const std::size_t g : {most(&RankShare::pairs), most(&RankShare::needed_bytes)})
    out.predicted_s = std::max(out.predicted_s, seconds_of(static_cast<std::int64_t>(g), out.ranks[g]));
  out.efficiency = out.predicted_s > 0 ? seconds_alone / static_cast<double>(ranks) / out.predicted_s : 1;
  return out;
}

}  // namespace weft::ring
