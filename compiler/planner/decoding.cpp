#include "compiler/ir/few_rows.h"
#include "compiler/planner/passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

namespace weft::planner {
namespace {

constexpr int kKeysOfWarp = 16;  ///< of a block: as many as one product with V takes

/// Registers that O leaves decide how many blocks of threads an SM can hold, 64 of a thread's beside it.
int most_blocks(const ir::Bind& bind) { return bind.d_v <= 64 ? 4 : bind.d_v <= 128 ? 3 : 2; }

/// Blocks of threads on an SM first: a block of keys is waited for as long as it computes.
bool choose(const Draft& draft, ir::Choices& c) {
  const int most_stages = draft.target.has_async_copy ? 2 : 1;
  for (const int warps : {4, 2}) {
    const int keys = kKeysOfWarp * warps;
    for (int stages = most_stages; stages > 0; --stages) {
      for (int blocks = most_blocks(draft.plan.bind); blocks > 0; --blocks) {
        const MatrixTile tile = {
            .blocks = blocks, .rows = c.tile_q, .keys = keys, .stages = stages, .threads = 32 * warps};
        if ((blocks == 1 && stages > 1) || !matrices_fit(draft, tile)) continue;
        c.threads = tile.threads;
        c.tile_k = c.sub_k = c.micro_k = keys;
        c.stages = stages;
        c.resident = blocks;
        return true;
      }
    }
  }
  return false;
}

}  // namespace

void choose_decoding(Draft& draft) {
  ir::Plan& plan = draft.plan;
  // Without asynchronous copies rows of K and V wait in registers, beside O.
  const bool is_wide = std::max(plan.bind.d, plan.bind.d_v) > 128 && !draft.target.has_async_copy;
  if (!ir::may_decode(plan) || is_wide) return;
  ir::Choices c = plan.choices;
  c.groups = 0;
  c.tile_q = c.sub_q = ir::kRowsOfDecoding;
  c.micro_q = 1;
  if (!choose(draft, c)) return;
  plan.reasons.push_back(fmt::format("decoding: {} rows, whose keys {} warps share, {} at a time, {} on an SM",
                                     c.tile_q, c.threads / 32, c.tile_k, c.resident));
  plan.decoding = std::make_shared<const ir::Plan>(ir::decoding_plan(plan, c));
}

}  // namespace weft::planner
