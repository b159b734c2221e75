#include "compiler/ring/report.h"

#include "compiler/ring/portions.h"

#include <fmt/format.h>

#include <numeric>

namespace weft::ring {

namespace {

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

/// Seconds of one rank: what changes places before, then portions in their order, beside transfers that go on all the
/// time, then what goes back.
double seconds_of(const Relation& relation, const Split& split, std::int64_t rank, const RankShare& share,
                  const Machine& machine) {
  constexpr double kBeside = 1.05;  // what computing takes while transfers share the memory
  const auto& shape = relation.shape();
  const auto& rows = split.computed(rank);
  const auto& heads = split.heads(rank);
  const double flops_of_pair = 2 * static_cast<double>(shape.d + shape.d_v);
  const double keys = share.keys_bytes();
  const double near = keys > 0 ? share.near_bytes / keys : 0;
  const double s_per_byte = std::max(near / machine.near_bytes_per_s, (1 - near) / machine.far_bytes_per_s);
  const double first_byte = near < 1 ? machine.far_s : machine.near_s;
  const std::int64_t first = split.rank_of(split.group_of(rank), 0);
  const bool is_near = first / machine.node == (first + split.group_size() - 1) / machine.node;
  const auto exchange = [&](double bytes) {
    if (!split.changes_heads()) return 0.0;
    // It goes into a buffer and out of one.
    return (is_near ? machine.near_s : machine.far_s) + 2 * bytes / machine.bytes_per_s +
           bytes / (is_near ? machine.near_bytes_per_s : machine.far_bytes_per_s);
  };
  double now = exchange(share.exchanged_before);
  // Its own rows go into the arena, where there is one.
  if (keys > 0 || rows.size() > 1) now += 2 * share.own_bytes / machine.bytes_per_s;
  // Keys travel while own rows are put in their place, but not before these have come.
  const double begun = exchange(share.exchanged_before);
  const double transferred = begun + first_byte + keys * s_per_byte;
  double needed = 0, launched = 0;
  // Queries go before keys do.
  const bool one_node = split.ranks() <= machine.node;
  const auto sent = [&](double bytes) {
    return (one_node ? machine.near_s : machine.far_s) +
           bytes / (one_node ? machine.near_bytes_per_s : machine.far_bytes_per_s);
  };
  const double queries = share.moved_before > 0 ? sent(share.moved_before) : 0;
  for (const auto& portion : portions_of(relation, split, rank)) {
    const double bytes = bytes_of(relation, portion.news.of_heads(heads));
    needed += bytes;
    const double arrival =
        std::max(portion.local ? 0 : begun + first_byte + needed * s_per_byte, portion.moved ? queries : 0);
    // Portions that wait for nothing are one launch.
    if (arrival > now || launched == 0) now = std::max(now, arrival) + machine.launch_s, launched = 1;
    const double computing = relation.pairs_of(portion.cell, heads) * flops_of_pair / machine.flops_per_s;
    const double beside = std::clamp((transferred - now) / std::max(computing, 1e-30), 0.0, 1.0);
    now += computing * (1 + (keys > 0 ? kBeside - 1 : 0) * beside);
  }
  // States come back, and are read.
  if (share.moved_behind > 0)
    now += sent(share.moved_behind) + machine.launch_s + share.moved_behind / machine.bytes_per_s;
  return now + exchange(share.exchanged_behind);
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

std::string bits_of(const Split& split) {
  const auto keys = split.moves_queries() ? split.moved.keys : split.round_keys;
  return keys > 0 ? fmt::format("chunks of {} keys", keys) : "one device";
}

std::string carrier_of(const Split& split, const Report& report) {
  const bool keys = std::any_of(report.ranks.begin(), report.ranks.end(),
                                [](const RankShare& share) { return share.keys_bytes() > 0; });
  if (split.changes_heads()) return keys ? "heads, keys" : "heads";
  if (split.moves_queries()) return keys ? "queries, keys" : "queries";
  return keys ? "keys" : "local";
}

double imbalance_of(const std::vector<double>& pairs) {
  const double all = std::accumulate(pairs.begin(), pairs.end(), 0.0);
  const double most = *std::max_element(pairs.begin(), pairs.end());
  return all > 0 ? most * static_cast<double>(pairs.size()) / all : 1;
}

namespace {

/// What changes places inside a group for its member `to`, from another: Q, K and V of the other's rows, and O and LSE
/// of its own.
struct Exchanged {
  double before = 0, behind = 0;
};
Exchanged exchanged(const Relation& relation, const Split& split, std::int64_t to, std::int64_t from) {
  const auto& shape = relation.shape();
  const auto element = static_cast<double>(ir::size_of(relation.plan().bind.dtype));
  const auto group = shape.heads / shape.kv_heads;
  const auto rows_heads = [&](std::int64_t owner, std::int64_t lane) {
    return static_cast<double>(shape.batch * count_of(split.owned(owner)) * split.heads(lane).count);
  };
  const auto& plan = relation.plan();
  const double of_all = plan.weights == ir::Weights::softmax && !ir::per_branch(plan.combine) ? 1 : 0;
  const double lse = 4 * (of_all + (plan.bind.branch_lse ? static_cast<double>(plan.branches) : 0));
  return {
      .before = rows_heads(from, to) * element * static_cast<double>(group * shape.d + shape.d + shape.d_v),
      .behind = rows_heads(to, from) * static_cast<double>(group) * (element * static_cast<double>(shape.d_v) + lse)};
}

/// Where queries go to the keys: what rank `to` receives of another.
Exchanged moved(const Relation& relation, const OwnerIndex& owner, std::int64_t to, std::int64_t from) {
  const auto& shape = relation.shape();
  const auto& plan = relation.plan();
  const auto rows = [&](std::int64_t rank) {
    return static_cast<double>(shape.batch * shape.heads * owner.moved_rows(rank));
  };
  const auto state = static_cast<double>(std::ssize(plan.phases.front().passes) * plan.state_bytes());
  const auto of_q = static_cast<double>(shape.d * ir::size_of(plan.bind.dtype));
  return {.before = owner.moved_chunks(to) > 0 ? rows(from) * of_q : 0,
          .behind = rows(to) * static_cast<double>(owner.moved_chunks(from)) * state};
}

/// All that a rank computes.
std::vector<Cell> cells_of(const Relation& relation, const Split& split, std::int64_t rank) {
  if (!split.moves_queries()) return {{split.computed(rank)}};
  std::vector<Cell> out = {{split.rows_of(rank)}};
  split.moved.each_stretch(rank, [&](std::int64_t first, std::int64_t end) {
    out.push_back({split.moved.rows, split.moved.keys_of(first, end, relation.shape().n_k)});
  });
  return out;
}

/// What one rank computes and receives; `from`, by rank, is from whom. `owner`: of groups.
RankShare share_of(const Relation& relation, const Split& split, const OwnerIndex& owner, std::int64_t g,
                   std::int64_t node, std::vector<double>& from) {
  const auto& shape = relation.shape();
  const auto& rows = split.computed(g);
  const auto& heads = split.heads(g);
  RankShare share{.tokens = count_of(split.owned(g))};
  const auto cells = cells_of(relation, split, g);
  for (const auto& cell : cells) share.pairs += relation.pairs_of(cell, heads);
  share.field_bytes =
      static_cast<double>((split.home.tokens - share.tokens) * shape.kv_heads * shape.batch) * row_bytes(relation);
  share.own_bytes = static_cast<double>(count_of(rows) * heads.count * shape.batch) * row_bytes(relation);
  const double of_key =
      row_bytes(relation) * static_cast<double>(shape.batch) / static_cast<double>(relation.entries());
  from.assign(static_cast<std::size_t>(split.ranks()), 0);
  for (const auto& of_cell : relation.needs_by_cell(cells, rows)) {
    const Needs needs = of_cell.of_heads(heads);
    std::vector<double> times(needs.sets.size(), 0);  // heads and entries that need a set
    for (const int set : needs.of) ++times[static_cast<std::size_t>(set)];
    for (std::size_t set = 0; set < needs.sets.size(); ++set) {
      if (times[set] == 0) continue;
      for (const auto& run : needs.sets[set]) {
        owner.each(run, [&](std::int64_t group, std::int64_t tokens) {
          from[static_cast<std::size_t>(split.rank_of(group, split.lane_of(g)))] +=
              static_cast<double>(tokens) * times[set] * of_key;
        });
      }
    }
  }
  const auto first_near = g / node * node, end_near = std::min(split.ranks(), first_near + node);
  for (auto j = first_near; j < end_near; ++j) share.near_bytes += from[static_cast<std::size_t>(j)];
  for (std::int64_t lane = 0; lane < split.group_size(); ++lane) {
    const auto j = split.rank_of(split.group_of(g), lane);
    if (j == g) continue;
    const auto [before, behind] = exchanged(relation, split, g, j);
    share.exchanged_before += before;
    share.exchanged_behind += behind;
    from[static_cast<std::size_t>(j)] += before + behind;
  }
  for (std::int64_t j = 0; split.moves_queries() && j < split.ranks(); ++j) {
    if (j == g) continue;
    const auto [before, behind] = moved(relation, owner, g, j);
    share.moved_before += before;
    share.moved_behind += behind;
    from[static_cast<std::size_t>(j)] += before + behind;
  }
  for (const double bytes : from) {
    if (bytes == 0) continue;
    ++share.messages;
    share.needed_bytes += bytes;
  }
  return share;
}

}  // namespace

double slowest_of_some(const Relation& relation, const Split& split, const std::vector<double>& pairs,
                       const Machine& machine) {
  const OwnerIndex owner(split);
  const auto last = pairs.size() - 1;
  std::vector<std::size_t> some = {
      0, last / 3, 2 * last / 3, last,
      static_cast<std::size_t>(std::max_element(pairs.begin(), pairs.end()) - pairs.begin())};
  std::sort(some.begin(), some.end());
  some.erase(std::unique(some.begin(), some.end()), some.end());
  double slowest = 0;
  std::vector<double> from;
  for (const auto at : some) {
    const auto g = static_cast<std::int64_t>(at);
    const auto share = share_of(relation, split, owner, g, machine.node, from);
    slowest = std::max(slowest, seconds_of(relation, split, g, share, machine));
  }
  return slowest;
}

double seconds_alone(const Relation& relation, const Machine& machine) {
  const auto& shape = relation.shape();
  return relation.pairs_of({{0, shape.n_q}}) * 2 * static_cast<double>(shape.d + shape.d_v) / machine.flops_per_s +
         machine.launch_s;
}

Report report_of(const Relation& relation, const Split& split, const Machine& machine) {
  const OwnerIndex owner(split);
  Report out;
  out.ranks.resize(static_cast<std::size_t>(split.ranks()));
  std::vector<double> pairs, from;
  for (std::size_t g = 0; g < out.ranks.size(); ++g) {
    const double sent = out.ranks[g].sent_bytes;
    out.ranks[g] = share_of(relation, split, owner, static_cast<std::int64_t>(g), machine.node, from);
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
  for (const std::size_t g : {most(&RankShare::pairs), most(&RankShare::needed_bytes)}) {
    out.predicted_s =
        std::max(out.predicted_s, seconds_of(relation, split, static_cast<std::int64_t>(g), out.ranks[g], machine));
  }
  const double alone = seconds_alone(relation, machine) / static_cast<double>(split.ranks());
  out.efficiency = out.predicted_s > 0 ? alone / out.predicted_s : 1;
  return out;
}

}  // namespace weft::ring
