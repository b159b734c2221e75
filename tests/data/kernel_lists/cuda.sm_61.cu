// Attention kernel made by Weft for sm_61: f16 storage, f32 arithmetic on plain lanes.
// Which rows a tile holds and which keys it visits stands in the tables of the argument block, so that no
// length, segment or rate is compiled in. Read it from the end: weft_kernel opens a tile, attend walks its keys,
// attend_block multiplies a block of them.

// ---- the plan's choices ----

constexpr int kRows = 128;           // queries of a tile: what one block of threads computes
constexpr int kKeys = 64;            // keys computed at a time
constexpr int kThreads = 128;        // of a block
constexpr int kBlocks = 2;           // that an SM must hold: registers may take what they leave
constexpr int kPrepassThreads = 128; // of a block of the prepass
constexpr int kListedRows = 8;       // rows of blocks for which it chooses the best keys
constexpr int kSummaryBlock = 64;    // keys, or queries, of which is asked together
constexpr int kDim = 64;             // columns of Q and K
constexpr int kDimV = 64;            // columns of V and O
constexpr int kSummed = 64;          // columns of what a row sums up
constexpr int kColumnWarps = 1;      // warps that share rows, each with columns of its own
constexpr int kDepth = 8;            // columns of Q and K in a chunk
constexpr int kStaged = 16;          // rows of V in a chunk
constexpr int kGroupRows = 32;       // whose pairs with a block of keys may be decided at once
constexpr int kDigits = 0;           // of how many those are, in base 2
constexpr int kTries = 1;            // keys that a thread tries at once
constexpr int kAhead = 0;            // blocks of keys that are known ahead of the one at hand
constexpr int kInputs = 0;           // tensors beside Q, K and V
constexpr int kLengths = 0;          // those of them that are lengths, which bounds refer to, as bits
constexpr int kConditions = 2;       // on pairs, beyond bounds and congruences
constexpr int kUnits = 1;            // of those, if some may be passed over
constexpr bool kFollowsLists = true; // to the next keys that they choose
constexpr int kSharedFixed = 36784;  // bytes of shared memory, and more for each key range of a head
constexpr bool kHasSegments = true;  // bounds where a segment begins or ends
constexpr bool kGradient = false, kKeepsMeets = false, kCounts = false, kCutsKeys = false, kSeveralSoftmaxes = false,
               kDirect = false, kHasSink = false, kSomeEntries = false, kSharesTiles = false, kTransposed = false,
               kPaged = false, kListsPages = false, kHasSets = false, kSpans = false, kNarrows = false,
               kByValues = false, kHasClasses = false, kHasRowBits = false, kHasRowConditions = false,
               kHasStreams = false, kHasFilters = false, kHasSlots = false, kHasForms = false, kHasParts = false;  // what this kernel does without

#include "args.h"
#include "words.h"
using namespace weft::walk;

#include "block_memory.h"
#include "ptx.cuh"
#include "numbers.cuh"

constexpr Element kStored = Element::f16;

#include "sides.cuh"
#include "philox.cuh"
#include "lists.cuh"
#include "best_keys.cuh"
#include "shape.cuh"
#include "meets_memory.cuh"
#include "simt_memory.cuh"
#include "block.cuh"
#include "rows.cuh"
#include "conditions.cuh"
#include "schedule.cuh"
#include "skips.cuh"
#include "next_listed.cuh"
#include "keys.cuh"
#include "tile.cuh"
#include "meets.cuh"
#include "expressions.cuh"
#include "sinkless.cuh"
#include "lse.cuh"
#include "written.cuh"
#include "carried.cuh"
#include "simt_lanes.cuh"
#include "mask.cuh"
#include "pairs.cuh"
#include "settle.cuh"
#include "simt_stage.cuh"
#include "simt_views.cuh"
#include "simt_products.cuh"
#include "simt_columns.cuh"
#include "simt_softmax.cuh"
#include "simt_results.cuh"
#include "results.cuh"
#include "simt_attend.cuh"

// ---- conditions on pairs, and bounds that rows give ----

/// (k / 64 in list0[q / 64])
__device__ __forceinline__ bool holds_0(const weft_args& a, const Tile& t, int q, int k) {
  return is_listed(a.lists[0], t, q >> 6, k >> 6);
}

/// q / 64
__device__ __forceinline__ i64 part_0_0(const weft_args& a, const Tile& t, int q) {
  return q >> 6;
}

/// (k / 64 in list1[q / 64])
__device__ __forceinline__ bool holds_1(const weft_args& a, const Tile& t, int q, int k) {
  return is_listed(a.lists[1], t, q >> 6, k >> 6);
}

/// q / 64
__device__ __forceinline__ i64 part_1_0(const weft_args& a, const Tile& t, int q) {
  return q >> 6;
}

__device__ __forceinline__ bool holds(const weft_args& a, const Tile& t, int condition, int q, int k) {
  if (condition == 0) return holds_0(a, t, q, k);
  if (condition == 1) return holds_1(a, t, q, k);
  return 0;
}

__device__ __forceinline__ bool rows_agree(const weft_args& a, const Tile& t, int condition, int q, int other) {
  if (condition == 0) return part_0_0(a, t, q) == part_0_0(a, t, other);
  if (condition == 1) return part_1_0(a, t, q) == part_1_0(a, t, other);
  return 0;
}

__device__ __forceinline__ i64 key_of(const weft_args& a, const Tile& t, int condition, int k) {
  if (condition == 0) return 0;
  if (condition == 1) return 0;
  return 0;
}

__device__ __forceinline__ i64 lo_of(const weft_args& a, const Tile& t, int condition, int q) {
  if (condition == 0) return 0;
  if (condition == 1) return 0;
  return 0;
}

__device__ __forceinline__ i64 hi_of(const weft_args& a, const Tile& t, int condition, int q) {
  if (condition == 0) return 0;
  if (condition == 1) return 0;
  return 0;
}

__device__ __forceinline__ i64 form_of(const weft_args& a, const Tile& t, int form, int q) {
  return 0;
}

__device__ __forceinline__ int kind_of(int condition) {
  if (condition == 0) return kByUnits;
  if (condition == 1) return kByUnits;
  return 0;
}

__device__ __forceinline__ int spans_of(int condition) {
  if (condition == 0) return -1;
  if (condition == 1) return -1;
  return 0;
}

__device__ __forceinline__ bool find_keys_of_runs(const weft_args&, Shared&, const Tile&, int, int) {
  return false;
}

__device__ __forceinline__ int modulus_of(int condition) {
  if (condition == 0) return 0;
  if (condition == 1) return 0;
  return 0;
}

__device__ __forceinline__ unsigned may_meet(const weft_args& a, Shared& s, const Tile& t, Use use, int block, bool wide) {
  if (use.condition == 0) return wide ? kAllUnits : units_may_meet(a, s, t, use, 64, block);
  if (use.condition == 1) return wide ? kAllUnits : units_may_meet(a, s, t, use, 64, block);
  return kAllUnits;
}

__device__ __forceinline__ int next_unit(const weft_args& a, const Tile& t, int condition, int q, int unit) {
  if (condition == 0) {
    const i64 block = next_listed(a.lists[0], t, part_0_0(a, t, q), unit);
    return (int)min(max(block, (i64)unit), (i64)kLargest);
  }
  if (condition == 1) {
    const i64 block = next_listed(a.lists[1], t, part_1_0(a, t, q), unit);
    return (int)min(max(block, (i64)unit), (i64)kLargest);
  }
  return unit;
}


// ---- the prepass: phase 2 i pools the keys for list i, phase 2 i + 1 fills it ----

extern "C" __global__ void __launch_bounds__(kPrepassThreads) weft_prepass(const weft_args a) {
  WEFT_SHARED_MEMORY(memory);
  ListShared& shared = *(ListShared*)memory;
  switch (a.phase) {
    case 1: return draw(open_row(a, a.lists[0], 64), 11ull);
    case 2: return pool_keys(a, 64);
    case 3: return choose_best<true, true>(a, shared, a.lists[1], 64, 0, true);
  }
}

// ---- the kernel: block i computes tile number tile_begin + i ----

extern "C" __global__ void __launch_bounds__(kThreads, kBlocks) weft_kernel(const weft_args a) {
  WEFT_SHARED_MEMORY(memory);
  Shared& shared = *(Shared*)memory;
  const i64* head;  // tables of the tile's head
  if (!open_tile(a, shared, head)) return;
  const Tile& tile = shared.tile;
  State state;

  // One softmax over the keys of every branch.
  const i64* pass = a.tables + word(head + kPassesAt);
  do {
    const Views views = open_views(a, shared, tile);
    start_tile(a, shared, views, tile);
    const int zones = make_zones(a, shared, tile, pass);
    clear(shared, state);
    attend(a, shared, state, views, tile, zones);
  } while (is_wanted_again(shared, state, pass));
  close_sums(shared, state);
  const bool chunk = is_cut(a, tile.b);  // of keys: weft_merge goes on
  if (!chunk) {
    join_sinks(a, shared, state);
    pass = get(shared.pass);
    if (word(pass + kWritesLse)) store_lse(a, shared, state, (int)word(pass + kLseSlot));
    normalize(shared, state, 1);
  }
  store_rows(a, shared, state, chunk);
}
