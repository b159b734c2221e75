#include "runtime/ring/rounds.h"

#include "runtime/engine/kernel_state.h"
#include "runtime/engine/key_cut.h"
#include "runtime/ring/launch.h"

#include <algorithm>

namespace weft {

namespace {

using Step = KeyCut::Step;

constexpr std::int64_t kSlots = 2;

}  // namespace

Result<Rounds> Rounds::make(const Kernel& kernel, const std::shared_ptr<KernelMemory>& memory,
                            const std::shared_ptr<KernelMemory>& messages, const ring::Relation& relation,
                            const ring::Split& split, int rank, const ir::Shape& shape, DType dtype) {
  const auto keys = split.round_keys, rounds = (shape.n_k + keys - 1) / keys;
  const auto keys_of = [&](std::int64_t round) {
    return ring::Keys{round * keys, std::min((round + 1) * keys, shape.n_k)};
  };
  const std::vector<Arena::Tensor> tensors = {{.heads = shape.kv_heads, .dim = shape.d, .dtype = dtype},
                                              {.heads = shape.kv_heads, .dim = shape.d_v, .dtype = dtype}};
  const ring::Runs held = {{0, std::min(keys, shape.n_k)}};
  WEFT_TRY(auto even, Arena::make(memory, shape, tensors, {held}));
  WEFT_TRY(auto odd, Arena::make(memory, shape, tensors, {held}));
  const auto needs_of = [&](std::int64_t group) {
    const auto& own = split.groups.runs[static_cast<std::size_t>(group)];
    std::vector<ring::Cell> cells;
    for (std::int64_t round = 0; round < rounds; ++round) cells.push_back({own, keys_of(round)});
    return relation.needs_by_cell(cells, own);
  };
  WEFT_TRY(auto transfers, Transfers::make(needs_of, split, rank, even, messages, Transfers::Room::of_one));
  Rounds out(kernel, shape, keys, {std::move(even), std::move(odd)}, std::move(transfers));

  const auto& own = split.computed(rank);
  const auto of_row =
      static_cast<std::size_t>(shape.batch * shape.heads * kSlots * floats_of_state(kernel.state().plan)) *
      sizeof(float);
  std::size_t states = 0;
  std::int64_t local = 0;
  for (const auto& part : ring::cut(own, ring::kPartsOfRounds)) {
    for (const auto& run : part) {
      Rows rows{.run = run, .local = local, .keeps = {}, .states = states};
      for (std::int64_t round = 0; round < rounds; ++round)
        rows.keeps.push_back(relation.pairs_of({{run}, keys_of(round)}, {0, shape.kv_heads}) > 0);
      local += run.count;
      states += of_row * static_cast<std::size_t>(run.count);
      out.rows_.push_back(std::move(rows));
    }
  }
  WEFT_TRY(out.states_, KernelBytes::make(memory, states));
  return out;
}

ring::Run Rounds::tokens_of(std::size_t round) const {
  const auto first = static_cast<std::int64_t>(round) * keys_;
  return {first, std::min(keys_, shape_.n_k - first)};
}

/// Own rows of a round's tokens are put in their place, and those of others come.
Result<std::uint64_t> Rounds::begin(std::size_t round, Link& link, const RingArgs& args) {
  auto& arena = arena_of(round);
  const auto tokens = tokens_of(round);
  arena.begin_at(tokens.first);
  for (const auto& rows : rows_) {
    for (const auto& run : ring::inside({rows.run}, {tokens})) {
      const auto local = rows.local + run.first - rows.run.first;
      WEFT_CHECK(arena.copy_in(0, {run}, rows_of(args.k, 1, local, run.count)));
      WEFT_CHECK(arena.copy_in(1, {run}, rows_of(args.v, 1, local, run.count)));
    }
  }
  return transfers_.post(round, link, arena);
}

Status Rounds::compute(std::size_t round, const RingArgs& args) {
  const auto first = tokens_of(round).first;
  for (const auto& rows : rows_) {
    // The first round begins the states of all.
    if (round > 0 && !rows.keeps[round]) continue;
    const auto run = launch_of(args, arena_of(round), rows.run, rows.local, shape_.n_q);
    auto* const states = reinterpret_cast<float*>(states_.data() + rows.states);
    WEFT_CHECK(run_cut(
        kernel_, run,
        {.states = states, .slots = kSlots, .slot = round > 0 ? 1 : 0, .first = first, .keys = keys_, .held = first}));
    if (round > 0)
      WEFT_CHECK(run_cut(kernel_, run, {.step = Step::fold, .states = states, .slots = kSlots, .count = 2}));
  }
  return done;
}

Status Rounds::run(Link& link, const RingArgs& args, double& wait_ms) {
  const std::size_t rounds = transfers_.steps();
  std::uint64_t step = 0;
  for (std::size_t round = 0; round < rounds; ++round) {
    if (round == 0) {
      WEFT_TRY(step, begin(0, link, args));
    }
    WEFT_CHECK(link.wait(step, wait_ms));
    WEFT_CHECK(transfers_.unpack(round, arena_of(round)));
    // Messages have room for one round.
    WEFT_CHECK(arena_of(round).settle());
    if (round + 1 < rounds) {
      WEFT_TRY(step, begin(round + 1, link, args));
    }
    WEFT_CHECK(compute(round, args));
  }
  for (const auto& rows : rows_) {
    auto* const states = reinterpret_cast<float*>(states_.data() + rows.states);
    WEFT_CHECK(run_cut(kernel_, launch_of(args, arena_of(0), rows.run, rows.local, shape_.n_q),
                       {.step = Step::finish, .states = states, .slots = kSlots}));
  }
  return arena_of(0).settle();
}

}  // namespace weft
