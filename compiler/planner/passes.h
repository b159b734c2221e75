#pragma once

#include "compiler/planner/planner.h"

#include <vector>

/// The passes of the planner, in the order of the table in planner.cpp. Each is one file and one
/// function from draft to draft.
namespace weft::planner {

/// One conjunction of a branch's set: conditions on the head, an interval of y per x, congruences, conditions on x,
/// conditions on pairs.
struct Conjunction {
  std::vector<ir::HeadCondition> heads;
  std::vector<ir::Bound> lo, hi;
  std::vector<ir::RowCondition> rows;
  std::vector<ir::Congruence> x, y;
  std::vector<ir::PredicateUse> pairs;  ///< by number in the draft's plan
  bool operator==(const Conjunction&) const = default;
};

/// What the passes work on.
struct Draft {
  const ir::Pattern& pattern;
  const Target& target;
  Options options;
  ir::Plan plan;
  std::vector<std::vector<Conjunction>> branches;  ///< disjunctive normal form of each branch's set
  std::vector<ir::KeyRange> ranges;                ///< all of them, with their branch
  std::vector<Diagnostic> diagnostics;
  int chunk_k = 0;  ///< GPUs: the least keys of a chunk where few rows have many; 0: keys are not cut
};

/// Refuses what this version cannot plan, naming the construct and its place. Guarantees: sets are of
/// the kinds that `normalize` knows, inputs are i32[batch], dims fit.
void refuse_unsupported(Draft& draft);

/// Sets to disjunctive normal form over monotone half-lines `y < E(x)`, congruences and conditions on pairs, for the
/// wanted orientation. Guarantees: `branches`, at most 256 conjunctions each, none of them plainly empty.
void normalize(Draft& draft);

/// Conjunctions to key ranges: one congruence becomes the stride that the keys are walked with, the
/// others filters. Requires `branches`; guarantees `ranges`.
void make_ranges(Draft& draft);

/// Tile sizes and register tiles from the target's facts, overridden by `schedule`.
void choose_tiles(Draft& draft);

/// Row orders: which dilated branches group rows into classes, and whether branches that want
/// different orders become phases with carried state; by simulated cost. Requires `ranges` and
/// choices; guarantees `plan.phases`.
void choose_rows(Draft& draft);

/// How launches with few queries cut the keys of a row (ir/key_chunks.h). Requires choices and `plan.phases`.
void cut_keys(Draft& draft);

/// Matrix instructions: tiles for launches whose rows fill 16 (ir/few_rows.h). Requires all else of the plan.
void choose_decoding(Draft& draft);

/// Longest tiles first, so that the last thread to finish has little left.
void order_tiles(Draft& draft);

/// Conditions on pairs that read the caller's tensors key by key get summaries of blocks of keys, and of gradients
/// those that lists say lists of who chose which keys, as long as there is room for lists and rows are queries.
void summarize(Draft& draft);

/// The plan that stands beside that of dQ, of keys, has the same lists, as far as it can use them: who chose its keys;
/// and what a condition asks of queries there may be what a summary knows of keys, position by position: documents.
void share_summaries(const ir::Plan& of_queries, ir::Plan& of_keys);

// Pieces that passes share.

/// One conjunction as a key range of a branch.
ir::KeyRange range_of(const Conjunction& c, int branch, const ir::HeadSet& heads);

/// May several branches keep a pair, which weighs as much as they are? Not those of heads apart.
bool counts_branches(const ir::Pattern& pattern);

struct MatrixTile {
  int blocks = 1;  ///< of threads, on an SM
  int rows = 0, keys = 0, stages = 1;
  int threads = 0;  ///< where warps share rows
};
/// Do so many blocks of threads find room on an SM, by about what each takes of shared memory: rows of Q, of gradients
/// of dO, too, rows of K and V, and lists? codegen/cuda/classes.h knows it exactly.
bool matrices_fit(const Draft& draft, const MatrixTile& tile);

/// One pass per softmax of the combine mode over the given ranges.
std::vector<ir::Pass> softmax_passes(const Draft& draft, const std::vector<ir::KeyRange>& ranges);

/// Streamed rows × stationary rows that one phase executes per stationary row of one head, over a
/// sample of tiles.
double simulate(const ir::Plan& plan, const ir::Phase& phase, std::int64_t heads, std::int64_t tokens);

}  // namespace weft::planner
