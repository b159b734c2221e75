#pragma once

#include "codegen/args.h"
#include "compiler/ir/schedule.h"
#include "compiler/walk/zones.h"

#include <cstdint>
#include <iterator>
#include <type_traits>

/// What a CPU binary is: micro-kernels, which work on vectors of rows and call nothing, and where they look for things.
/// Its only symbol, `void weft_kernel(MicroKernels*)`, fills in those that it has. Who walks the keys and calls them:
/// runtime/cpu.
namespace weft::codegen::cpu {

/// Words at the start of the scratch: facts of the tile being computed.
enum TileWord {
  kB,
  kH,
  kOffset,      ///< batch entry, head, position of row 0
  kCount,       ///< rows
  kGroup,       ///< heads whose rows the tile has, position by position
  kRowsFrom,    ///< of the rows those that the launch computes: the first …
  kRowsTo,      ///< … and the one behind the last
  kStatesAt,    ///< byte offset of the terms' states: functions that read them do not depend on what conditions need
  kBranchesAt,  ///< byte offset of who keeps the block's keys in which branch
  kWildRows,    ///< gradients: Q or dO of some row holds a NaN or an infinity
  kTileWords = 16
};

/// What the tile's rows say to one condition on pairs, and what is known of keys. What only the condition tells is set
/// by @describe.
struct Condition {
  walk::Said said;
  // Of the condition.
  std::int64_t is_interval;
  std::int64_t parts, parts_at;  ///< numbers for each row, and where in the scratch they stand …
  std::int64_t bounds_at;        ///< … with an interval's lower bounds, followed by the upper ones; 0: none, …
  std::int64_t narrowing_at;     ///< … and the same where bounds narrow the keys of a run
  std::int64_t unit;             ///< keys in a row that it cannot tell apart
  std::int64_t modulus;          ///< > 1: one value of an interval is a stream of keys of this step
  std::int64_t grid_unit;        ///< see ir::PeriodicKey; 0: the key is none
  std::int64_t grid_modulus;
  std::int64_t summary;            ///< number of the list that summarizes it, or -1 …
  std::int64_t summarizes_blocks;  ///< … which has a word for each block of rows and of keys
  std::int64_t list, of_list;  ///< number of the list whose choice is all it says, or -1, and how many keys a block has
  // Of the keys that were asked about last.
  std::int64_t known_from, known_end;
  std::int64_t known;      ///< the answer, as walk::Answer has it
  std::int64_t known_key;  ///< of an interval: its key's value at known_from …
  std::int64_t slope;      ///< … and by how much that grows from one key to the next until known_end: 0 or 1
  std::int64_t run_rows[ir::kMostRuns];   ///< one row of each run, …
  std::int64_t run_parts[ir::kMostRuns];  ///< … and its first part: of a list the number of the row
};

/// Where the gradient of an input is added up: f32, row-major by its extents, and which of it was.
struct ElementSums {
  float* data;  ///< null: not wanted
  std::int64_t first, last;
};

/// Sizes of a kernel, and byte offsets in its scratch.
struct Layout {
  int lanes;  ///< f32 per vector
  int rows;   ///< per tile
  int keys;   ///< per block
  int d, d_v;
  int d_pad, v_pad;  ///< to whole eights: columns of Q, K and V in the scratch; those behind the last hold 0
  int micro_k, micro_q, sub_k;
  int element;  ///< bytes of the stored type
  /// Numbers that a lane of a product takes at once: 2 of bf16, neighbours in a row of K and Q, or a column's of two
  /// neighbouring keys in V and P, where the target has an instruction for it.
  int pair;
  int few_queries;  ///< launches of up to so many have full blocks of their own
  int positions;    ///< positions of a block's keys stand beside their rows
  int paged;        ///< K and V stand in pages
  int mask_bytes;   ///< of a mask with a bit for each lane of a vector
  int dropout;
  int direct;                ///< scores are the weights: no maxima, no sums of weights, no LSE
  int sink;                  ///< a further term of a row's sum
  int conditions;            ///< on pairs: how many
  int sum_columns;           ///< of what a row adds up: d_v of O, or d of dQ
  int gradient;              ///< the kernel is the backward pass, …
  int columns_k, columns_v;  ///< … whose rows of Q, dO, dK and dV are whole vectors, with zeros behind the last column
  int sum_row;               ///< both of dK and dV, one behind the other
  int elements;              ///< of inputs, that its scores and its sink are made of …
  int sink_elements;         ///< … of which so many, the last ones, are of the sink
  int branches;              ///< that mix with constant weights: each has a delta of its own; else 0
  int counts;                ///< pairs may be kept more than once: how often stands at `weight`
  int mask_row;              ///< bytes of a vector's masks, one for each key of a block

  std::int64_t x, bits, q_row, o_row, idle_row, score_factor, q, q_lanes, few_sums, acc, out, m, l, alpha, top, settled,
      settled_m, settled_l, held, scores, kept, weight, groups;
  /// Of gradients: rows of dO and O; a row of zeros; Q and dO row by row; dO column by column; rowsum(dO * O) and what
  /// becomes of it; dP, then dS; scores as they were before the pattern's expression.
  std::int64_t d_o_row, out_row, zero_row, q_rows, d_o_rows, d_o, row_dot, delta, d_scores, products;
  /// For each branch: who keeps which keys of a block; of each row the sums of P dP and of P, and their quotient.
  std::int64_t branch_kept[2], branch_dot, branch_total, branch_delta;
  std::int64_t key_sums[2];  ///< addresses of rows of dK and dV
  std::int64_t input_sums;   ///< ElementSums of each element, and what a vector of rows adds to one
  std::int64_t lane_values, lane_places;
  std::int64_t key_at[2], value_at[2], key_weight[2], key_position[2];
  std::int64_t key_wide, value_wide;
  std::int64_t round_keys, random;  ///< dropout: keys of ten rounds; words of four keys for one vector of rows
  std::int64_t conditions_at, mask;
  std::int64_t terms;        ///< from here on: per term
  std::int64_t term_stride;  ///< walk::TermState, then lo and hi per row as i32
};
static_assert(std::has_unique_object_representations_v<Layout> && sizeof(Layout) % 8 == 0, "it is emitted as words");

struct MicroKernels {
  Layout at;
#define WEFT_MICRO_KERNEL(result, name, what, ...) \
  result (*name)(const weft_args*, void* scratch __VA_OPT__(, ) __VA_ARGS__) = nullptr;
#include "codegen/cpu/micro_kernels.def"
#undef WEFT_MICRO_KERNEL
};
struct MicroKernelName {
  const char *name, *what;
};
inline constexpr MicroKernelName kMicroKernels[] = {
#define WEFT_MICRO_KERNEL(result, name, what, ...) {#name, what},
#include "codegen/cpu/micro_kernels.def"
#undef WEFT_MICRO_KERNEL
};
static_assert(sizeof(MicroKernels) == sizeof(Layout) + std::size(kMicroKernels) * sizeof(void*));

/// Bytes of `weft_args::scratch` that one call needs: behind the terms' states four cuts a term and a zone's list.
inline std::int64_t scratch_bytes(const Layout& at, std::int64_t most_terms) {
  return (at.terms + most_terms * (at.term_stride + 5 * 8) + 127) / 64 * 64;
}

}  // namespace weft::codegen::cpu
