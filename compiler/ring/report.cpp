#include "compiler/ring/report.h"

#include "compiler/ring/portions.h"
#include "compiler/ring/shares.h"

#include <fmt/format.h>

#include <numeric>

namespace weft::ring {

namespace {

constexpr double kBeside = 1.05;  // what computing takes while transfers share the memory

Inflow inflow_of(const RankShare& share, const Machine& machine) {
  const double keys = share.keys_bytes();
  return inflow_from(keys > 0 ? share.near_bytes / keys : 0, machine);
}

double flops_of_pair(const Relation& relation) {
  return 2 * static_cast<double>(relation.shape().d + relation.shape().d_v);
}

/// Seconds of one rank that goes through the keys in rounds: those of the next come while one is computed, and each
/// leaves states of the rows that keep some of its keys, which are then folded into what those rows had.
double seconds_of_rounds(const Relation& relation, const Split& split, std::int64_t rank, const RankShare& share,
                         const Machine& machine) {
  const auto& shape = relation.shape();
  const auto& plan = relation.plan();
  const auto& rows = split.computed(rank);
  const auto& heads = split.heads(rank);
  std::vector<Cell> cells;
  for (std::int64_t first = 0; first < shape.n_k; first += split.round_keys)
    cells.push_back({rows, {first, std::min(first + split.round_keys, shape.n_k)}});
  const auto needs = relation.needs_by_cell(cells, rows);
  const auto inflow = inflow_of(share, machine);
  const double of_row = row_bytes(relation) * static_cast<double>(heads.count * shape.batch);
  const double of_states =
      static_cast<double>(shape.batch * shape.heads * std::ssize(plan.phases.front().passes) * plan.state_bytes());
  const auto parts = cut(rows, kPartsOfRounds);
  double now = 0, arrival = 0;
  // Own rows are put in their place before those of others are waited for.
  const auto begin = [&](std::size_t round) {
    const auto& keys = cells[round].keys;
    now += 2 * of_row * static_cast<double>(count_of(inside(rows, {{keys.first, keys.end - keys.first}}))) /
           machine.bytes_per_s;
    arrival = now + inflow.of(bytes_of(relation, needs[round].of_heads(heads)));
  };
  begin(0);
  for (std::size_t round = 0; round < cells.size(); ++round) {
    now = std::max(now, arrival);
    if (round + 1 < cells.size()) begin(round + 1);
    double pairs = 0, kept = 0, launches = 0;
    for (const auto& part : parts) {
      const double of_part = relation.pairs_of({part, cells[round].keys}, heads);
      if (of_part == 0 && round > 0) continue;
      pairs += of_part;
      kept += static_cast<double>(count_of(part));
      launches += round > 0 ? 2 : 1;
    }
    const double states = kept * of_states * (round > 0 ? 4 : 1) / machine.bytes_per_s;  // written, two read, written
    now += launches * machine.launch_s + states +
           pairs * flops_of_pair(relation) / machine.flops_per_s * (share.keys_bytes() > 0 ? kBeside : 1);
  }
  return now + static_cast<double>(std::ssize(parts)) * machine.launch_s +
         static_cast<double>(count_of(rows)) * of_states / machine.bytes_per_s;
}

/// Seconds of one rank: what changes places before, then portions in their order, beside transfers that go on all the
/// time, then what goes back.
double seconds_of(const Relation& relation, const Split& split, std::int64_t rank, const RankShare& share,
                  const Machine& machine) {
  if (split.round_keys > 0) return seconds_of_rounds(relation, split, rank, share, machine);
  const auto& rows = split.computed(rank);
  const auto& heads = split.heads(rank);
  const double keys = share.keys_bytes();
  const auto [first_byte, s_per_byte] = inflow_of(share, machine);
  const double begun = exchange_seconds(split, rank, share.exchanged_before, machine);
  double now = begun;
  // Its own rows go into the arena, where there is one.
  if (keys > 0 || rows.size() > 1) now += 2 * share.own_bytes / machine.bytes_per_s;
  // Keys travel while own rows are put in their place, but not before these have come.
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
    const double computing = relation.pairs_of(portion.cell, heads) * flops_of_pair(relation) / machine.flops_per_s;
    const double beside = std::clamp((transferred - now) / std::max(computing, 1e-30), 0.0, 1.0);
    now += computing * (1 + (keys > 0 ? kBeside - 1 : 0) * beside);
  }
  // States come back, and are read.
  if (share.moved_behind > 0)
    now += sent(share.moved_behind) + machine.launch_s + share.moved_behind / machine.bytes_per_s;
  return now + exchange_seconds(split, rank, share.exchanged_behind, machine);
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
                                [](const RankShare& share) { return share.keys_bytes() + share.rows_bytes > 0; });
  if (split.changes_heads()) return keys ? "heads, keys" : "heads";
  if (split.moves_queries()) return keys ? "queries, keys" : "queries";
  return keys ? "keys" : "local";
}

double exchange_seconds(const Split& split, std::int64_t rank, double bytes, const Machine& machine) {
  if (!split.changes_heads()) return 0;
  const std::int64_t first = split.rank_of(split.group_of(rank), 0);
  const bool is_near = first / machine.node == (first + split.group_size() - 1) / machine.node;
  // It goes into a buffer and out of one.
  return (is_near ? machine.near_s : machine.far_s) + 2 * bytes / machine.bytes_per_s +
         bytes / (is_near ? machine.near_bytes_per_s : machine.far_bytes_per_s);
}

double imbalance_of(const std::vector<double>& pairs) {
  const double all = std::accumulate(pairs.begin(), pairs.end(), 0.0);
  const double most = *std::max_element(pairs.begin(), pairs.end());
  return all > 0 ? most * static_cast<double>(pairs.size()) / all : 1;
}

namespace {

/// Q, K and V of the other's rows, and O and LSE of its own.
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
    add_needed(owner, split, g, of_cell.of_heads(heads), of_key, from);
  }
  share.near_bytes = near_bytes(from, g, node);
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
  add_received(from, share);
  return share;
}

}  // namespace

double slowest_of_some(const Relation& relation, const Split& split, const std::vector<double>& pairs,
                       const Machine& machine, double enough) {
  const OwnerIndex owner(split);
  const auto last = pairs.size() - 1;
  const auto most = static_cast<std::size_t>(std::max_element(pairs.begin(), pairs.end()) - pairs.begin());
  std::vector<std::size_t> some = {most};
  for (const auto at : {std::size_t{0}, last / 3, 2 * last / 3, last}) {
    if (std::find(some.begin(), some.end(), at) == some.end()) some.push_back(at);
  }
  double slowest = 0;
  std::vector<double> from;
  for (const auto at : some) {
    const auto g = static_cast<std::int64_t>(at);
    const auto share = share_of(relation, split, owner, g, machine.node, from);
    slowest = std::max(slowest, seconds_of(relation, split, g, share, machine));
    if (slowest > enough) break;
  }
  return slowest;
}

double seconds_alone(const Relation& relation, const Machine& machine) {
  return relation.pairs_of({{0, relation.shape().n_q}}) * flops_of_pair(relation) / machine.flops_per_s +
         machine.launch_s;
}

Report report_of(const Relation& relation, const Split& split, const Machine& machine) {
  const OwnerIndex owner(split);
  return report_with(
      split.ranks(), seconds_alone(relation, machine),
      [&](std::int64_t g, std::vector<double>& from) {
        return share_of(relation, split, owner, g, machine.node, from);
      },
      [&](std::int64_t g, const RankShare& share) { return seconds_of(relation, split, g, share, machine); });
}

}  // namespace weft::ring
