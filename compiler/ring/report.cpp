#include "compiler/ring/report.h"

#include "compiler/ring/portions.h"

#include <numeric>

namespace weft::ring {

namespace {

/// Who owns a token.
class OwnerIndex {
 public:
  explicit OwnerIndex(const OwnerMap& map) : ranks_(map.ranks()) {
    for (std::int64_t g = 0; g < ranks_; ++g) {
      for (const auto& run : map.runs[static_cast<std::size_t>(g)]) {
        striped_ = striped_ || run.stride > 1;
        owned_.push_back({run.first, run.end(), g});
      }
    }
    std::sort(owned_.begin(), owned_.end(), [](const Owned& a, const Owned& b) { return a.begin < b.begin; });
  }

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
};

/// Seconds of one rank: portions in their order, beside transfers that go on all the time.
double seconds_of(const Relation& relation, const Runs& own, const RankShare& share, const Machine& machine) {
  constexpr double kBeside = 1.05;  // what computing takes while transfers share the memory
  const auto& shape = relation.shape();
  const double flops_of_pair = 2 * static_cast<double>(shape.d + shape.d_v);
  const double near = share.needed_bytes > 0 ? share.near_bytes / share.needed_bytes : 0;
  const double s_per_byte = std::max(near / machine.near_bytes_per_s, (1 - near) / machine.far_bytes_per_s);
  const double first_byte = near < 1 ? machine.far_s : machine.near_s;
  const double own_bytes = static_cast<double>(share.tokens * shape.kv_heads * shape.batch) * row_bytes(relation);
  // Its own rows go into the arena, where there is one.
  double now = share.needed_bytes > 0 || own.size() > 1 ? 2 * own_bytes / machine.bytes_per_s : 0;
  const double transferred = first_byte + share.needed_bytes * s_per_byte;
  double needed = 0, launched = 0;
  for (const auto& portion : portions_of(relation, own)) {
    const double bytes = bytes_of(relation, portion.news);
    needed += bytes;
    const double arrival = portion.local ? 0 : first_byte + needed * s_per_byte;
    // Portions that wait for nothing are one launch.
    if (arrival > now || launched == 0) now = std::max(now, arrival) + machine.launch_s, launched = 1;
    const double computing = relation.pairs_of(portion.rows) * flops_of_pair / machine.flops_per_s;
    const double beside = std::clamp((transferred - now) / std::max(computing, 1e-30), 0.0, 1.0);
    now += computing * (1 + (share.needed_bytes > 0 ? kBeside - 1 : 0) * beside);
  }
  return now;
}

}  // namespace

bool Report::is_local() const {
  return std::all_of(ranks.begin(), ranks.end(), [](const RankShare& share) { return share.needed_bytes == 0; });
}

double Report::mean_needed() const {
  double sum = 0;
  for (const auto& share : ranks) sum += share.needed_bytes;
  return sum / static_cast<double>(ranks.size());
}

double Report::most_needed() const {
  double most = 0;
  for (const auto& share : ranks) most = std::max(most, share.needed_bytes);
  return most;
}

double imbalance_of(const std::vector<double>& pairs) {
  const double all = std::accumulate(pairs.begin(), pairs.end(), 0.0);
  const double most = *std::max_element(pairs.begin(), pairs.end());
  return all > 0 ? most * static_cast<double>(pairs.size()) / all : 1;
}

namespace {

/// What one rank computes and receives; `from`, by rank, is from whom.
RankShare share_of(const Relation& relation, const OwnerMap& map, const OwnerIndex& owner, std::size_t g,
                   std::int64_t node, std::vector<double>& from) {
  const auto& shape = relation.shape();
  const auto& own = map.runs[g];
  RankShare share{.tokens = count_of(own), .pairs = relation.pairs_of(own)};
  share.field_bytes =
      static_cast<double>((map.tokens - share.tokens) * shape.kv_heads * shape.batch) * row_bytes(relation);
  const double of_key =
      row_bytes(relation) * static_cast<double>(shape.batch) / static_cast<double>(relation.entries());
  const Needs needs = relation.needs_of(own);
  std::vector<double> times(needs.sets.size(), 0);  // heads and entries that need a set
  for (const int set : needs.of) ++times[static_cast<std::size_t>(set)];
  from.assign(map.runs.size(), 0);
  for (std::size_t set = 0; set < needs.sets.size(); ++set) {
    for (const auto& run : needs.sets[set]) {
      owner.each(run, [&](std::int64_t j, std::int64_t tokens) {
        from[static_cast<std::size_t>(j)] += static_cast<double>(tokens) * times[set] * of_key;
      });
    }
  }
  for (std::size_t j = 0; j < from.size(); ++j) {
    if (from[j] == 0) continue;
    ++share.messages;
    share.needed_bytes += from[j];
    if (static_cast<std::int64_t>(j) / node == static_cast<std::int64_t>(g) / node) share.near_bytes += from[j];
  }
  return share;
}

}  // namespace

double slowest_of_some(const Relation& relation, const OwnerMap& map, const std::vector<double>& pairs,
                       const Machine& machine) {
  const OwnerIndex owner(map);
  const auto last = pairs.size() - 1;
  std::vector<std::size_t> some = {
      0, last / 3, 2 * last / 3, last,
      static_cast<std::size_t>(std::max_element(pairs.begin(), pairs.end()) - pairs.begin())};
  std::sort(some.begin(), some.end());
  some.erase(std::unique(some.begin(), some.end()), some.end());
  double slowest = 0;
  std::vector<double> from;
  for (const auto g : some) {
    const auto share = share_of(relation, map, owner, g, machine.node, from);
    slowest = std::max(slowest, seconds_of(relation, map.runs[g], share, machine));
  }
  return slowest;
}

Report report_of(const Relation& relation, const OwnerMap& map, const Machine& machine) {
  const auto& shape = relation.shape();
  const OwnerIndex owner(map);
  Report out;
  out.ranks.resize(map.runs.size());
  std::vector<double> pairs, from;
  for (std::size_t g = 0; g < map.runs.size(); ++g) {
    const double sent = out.ranks[g].sent_bytes;
    out.ranks[g] = share_of(relation, map, owner, g, machine.node, from);
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
    out.predicted_s = std::max(out.predicted_s, seconds_of(relation, map.runs[g], out.ranks[g], machine));
  const double all = std::accumulate(pairs.begin(), pairs.end(), 0.0);
  const double alone = all * 2 * static_cast<double>(shape.d + shape.d_v) / machine.flops_per_s + machine.launch_s;
  out.efficiency = out.predicted_s > 0 ? alone / static_cast<double>(map.ranks()) / out.predicted_s : 1;
  return out;
}

}  // namespace weft::ring
