#include "compiler/ring/backward.h"

#include "compiler/ring/portions.h"
#include "compiler/ring/shares.h"

namespace weft::ring {

namespace {

/// By branch, where each has its own.
double lse_bytes(const ir::Plan& plan) {
  if (plan.weights != ir::Weights::softmax) return 0;
  return 4.0 * (ir::per_branch(plan.combine) ? plan.branches : 1);
}

double element(const Relation& relation) { return static_cast<double>(ir::size_of(relation.plan().bind.dtype)); }

/// Q, K, V, dO, O, LSE and dLSE of the other's rows, and dQ, dK and dV of its own.
Exchanged exchanged(const BackwardNeeds& needs, std::int64_t to, std::int64_t from) {
  const auto& split = needs.split();
  const auto& shape = needs.forward().shape();
  const auto group = static_cast<double>(shape.heads / shape.kv_heads);
  const auto rows_heads = [&](std::int64_t owner, std::int64_t lane) {
    return static_cast<double>(shape.batch * count_of(split.owned(owner)) * split.heads(lane).count);
  };
  const double of_keys = element(needs.forward()) * static_cast<double>(shape.d + shape.d_v);
  const double of_dq = element(needs.forward()) * static_cast<double>(shape.d);
  return {.before = rows_heads(from, to) * (group * bytes_of_backward_row(needs.forward()) + of_keys),
          .behind = rows_heads(to, from) * (group * of_dq + of_keys)};
}

RankShare share_of(const BackwardNeeds& needs, const OwnerIndex& owner, std::int64_t g, std::int64_t node,
                   std::vector<double>& from) {
  const auto& split = needs.split();
  const auto& forward = needs.forward();
  const auto& shape = forward.shape();
  const auto& heads = split.heads(g);
  const auto& own = split.computed(g);
  RankShare share{.tokens = count_of(split.owned(g))};
  share.pairs = (forward.pairs_of({own}, heads) + needs.transposed().pairs_of({own}, heads)) / 2;
  const double of_key = row_bytes(forward), all = static_cast<double>(shape.kv_heads * shape.batch);
  const double of_sums = 4 * static_cast<double>(shape.d + shape.d_v);
  share.field_bytes = static_cast<double>(split.home.tokens - share.tokens) * all * (of_key + of_sums);
  share.own_bytes = static_cast<double>(count_of(own) * heads.count * shape.batch) * of_key;
  from.assign(static_cast<std::size_t>(split.ranks()), 0);
  const auto group = split.group_of(g);
  const auto add = [&](const std::vector<Needs>& of, const Relation& relation, double of_one) {
    const double of_entries = static_cast<double>(shape.batch) / static_cast<double>(relation.entries());
    for (const auto& one : of) add_needed(owner, split, g, one.of_heads(heads), of_one * of_entries, from);
  };
  add(needs.keys_of(group), forward, of_key);
  const double keys = std::accumulate(from.begin(), from.end(), 0.0);
  add(needs.rows_of(group), needs.transposed(),
      bytes_of_backward_row(forward) * static_cast<double>(shape.heads / shape.kv_heads));
  share.rows_bytes = std::accumulate(from.begin(), from.end(), 0.0) - keys;
  share.near_bytes = near_bytes(from, g, node);
  for (std::int64_t lane = 0; lane < split.group_size(); ++lane) {
    const auto j = split.rank_of(group, lane);
    if (j == g) continue;
    const auto [before, behind] = exchanged(needs, g, j);
    share.exchanged_before += before;
    share.exchanged_behind += behind;
    from[static_cast<std::size_t>(j)] += before + behind;
  }
  add_received(from, share);
  return share;
}

/// Kernels of CPUs compute the five products of a pair together, if its row is there or its key; those of GPUs S, dP
/// and dQ of rows, and S, dP, dK and dV of keys.
bool in_two_passes(const Relation& forward) { return forward.plan().choices.kernel_class != ir::KernelClass::vector; }
double flops_of_five(const ir::Shape& shape) { return 2 * static_cast<double>(3 * shape.d + 2 * shape.d_v); }
double flops_by_row(const ir::Shape& shape) { return 2 * static_cast<double>(2 * shape.d + shape.d_v); }
double flops_by_key(const ir::Shape& shape) { return 4 * static_cast<double>(shape.d + shape.d_v); }

/// Pairs of own rows and own keys.
double pairs_of_both(const Relation& forward, const Runs& own, const Heads& heads) {
  if (count_of(own) == forward.shape().n_q) return forward.pairs_of({own}, heads);
  double out = 0;
  for (const auto& keys : own) {
    // Keys that stand apart are taken to have their share.
    const Keys all{keys.first, keys.first + (keys.count - 1) * keys.stride + 1};
    out += forward.pairs_of({own, all}, heads) / static_cast<double>(keys.stride);
  }
  return out;
}

double seconds_of(const BackwardNeeds& needs, std::int64_t rank, const RankShare& share, const Machine& machine) {
  const auto& split = needs.split();
  const auto& forward = needs.forward();
  const auto& shape = forward.shape();
  const auto& own = split.computed(rank);
  const auto& heads = split.heads(rank);
  const double travels = share.keys_bytes() + share.rows_bytes;
  const double of_rows = static_cast<double>(count_of(own) * heads.count * shape.batch * shape.heads / shape.kv_heads) *
                         bytes_of_backward_row(forward);
  double now = exchange_seconds(split, rank, share.exchanged_before, machine);
  // Own rows go into the arenas while others' travel, and results out of them.
  const double copied = 2 * (share.own_bytes + of_rows) / machine.bytes_per_s;
  const double arrived = inflow_from(travels > 0 ? share.near_bytes / travels : 0, machine).of(travels);
  now += std::max(copied, arrived) + machine.launch_s;
  const double by_row = forward.pairs_of({own}, heads), by_key = needs.transposed().pairs_of({own}, heads);
  const double flops = in_two_passes(forward)
                           ? by_row * flops_by_row(shape) + by_key * flops_by_key(shape)
                           : (by_row + by_key - pairs_of_both(forward, own, heads)) * flops_of_five(shape);
  return now + flops / machine.flops_per_s + copied + exchange_seconds(split, rank, share.exchanged_behind, machine);
}

}  // namespace

std::vector<Needs> BackwardNeeds::rows_of(std::int64_t group) const {
  const auto& own = split_.groups.runs[static_cast<std::size_t>(group)];
  return own.empty() ? std::vector<Needs>() : transposed_.needs_by_cell({{own}}, own);
}

std::vector<Needs> BackwardNeeds::keys_of(std::int64_t group) const {
  const auto& own = split_.groups.runs[static_cast<std::size_t>(group)];
  if (own.empty()) return {};
  Runs rows = own;
  if (finds_deltas_) {
    for (const auto& needs : rows_of(group)) {
      for (const auto& set : needs.sets) rows.insert(rows.end(), set.begin(), set.end());
    }
  }
  return forward_.needs_by_cell({{rows}}, own);
}

Status prepare_backward(Split& split) {
  split.moved = {};
  if (split.round_keys == 0) return done;
  return user_error(
      "gradients of a ring want all rows in memory at once that they need; give more memory, or more ranks");
}

double bytes_of_backward_row(const Relation& forward) {
  const auto& shape = forward.shape();
  const auto& plan = forward.plan();
  const double of_out = plan.weights == ir::Weights::softmax ? element(forward) * static_cast<double>(shape.d_v) : 0;
  return element(forward) * static_cast<double>(shape.d + shape.d_v) + of_out + 2 * lse_bytes(plan);
}

Report report_of(const BackwardNeeds& needs, const Machine& machine) {
  const auto& forward = needs.forward();
  const OwnerIndex owner(needs.split());
  const auto& shape = forward.shape();
  const double of_pair = in_two_passes(forward) ? flops_by_row(shape) + flops_by_key(shape) : flops_of_five(shape);
  const double alone = forward.pairs_of({{0, shape.n_q}}) * of_pair / machine.flops_per_s + machine.launch_s;
  return report_with(
      needs.split().ranks(), alone,
      [&](std::int64_t g, std::vector<double>& from) { return share_of(needs, owner, g, machine.node, from); },
      [&](std::int64_t g, const RankShare& share) { return seconds_of(needs, g, share, machine); });
}

}  // namespace weft::ring
