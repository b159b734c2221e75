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
constexpr int kInputs = 2;           // tensors beside Q, K and V
constexpr int kLengths = 0;          // those of them that are lengths, which bounds refer to, as bits
constexpr int kConditions = 2;       // on pairs, beyond bounds and congruences
constexpr int kUnits = 1;            // of those, if some may be passed over
constexpr bool kSpans = true;        // summaries tell of 64 and of 4,096 keys at once what values they have
constexpr bool kNarrows = true;      // rows keep an interval of keys by some of them, or none
constexpr bool kByValues = true;     // pairs by a value of the key, which rows compare
constexpr int kSharedFixed = 36912;  // bytes of shared memory, and more for each key range of a head
constexpr bool kGradient = false, kKeepsMeets = false, kCounts = false, kCutsKeys = false, kSeveralSoftmaxes = false,
               kDirect = false, kHasSink = false, kSomeEntries = false, kSharesTiles = false, kTransposed = false,
               kPaged = false, kListsPages = false, kFollowsLists = false, kHasSets = false, kHasClasses = false,
               kHasRowBits = false, kHasRowConditions = false, kHasStreams = false, kHasFilters = false,
               kHasSegments = false, kHasSlots = false, kHasForms = false, kHasParts = false;  // what this kernel does without

#include "args.h"
#include "words.h"
using namespace weft::walk;

#include "block_memory.h"
#include "ptx.cuh"
#include "numbers.cuh"

constexpr Element kStored = Element::f16;

#include "sides.cuh"
#include "shape.cuh"
#include "meets_memory.cuh"
#include "simt_memory.cuh"
#include "block.cuh"
#include "rows.cuh"
#include "conditions.cuh"
#include "schedule.cuh"
#include "skips.cuh"
#include "no_next_listed.cuh"
#include "summaries.cuh"
#include "value_bounds.cuh"
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

/// input0[b, q] <= input0[b, k] and input0[b, k] < input0[b, q] + 1
__device__ __forceinline__ bool holds_0(const weft_args& a, const Tile& t, int q, int k) {
  const int element_1 = load_global<int>((const int*)a.inputs[0].data + times(t.b, a.inputs[0].strides[0]) + min(max(q, 0), keys_of(a, t.b) - 1));
  const int element_2 = load_global<int>((const int*)a.inputs[0].data + times(t.b, a.inputs[0].strides[0]) + k);
  return (element_1 <= element_2) & ((i64)element_2 < (i64)element_1 + (i64)1);
}

/// input0[b, q]
__device__ __forceinline__ i64 part_0_0(const weft_args& a, const Tile& t, int q) {
  return load_global<int>((const int*)a.inputs[0].data + times(t.b, a.inputs[0].strides[0]) + min(max(q, 0), keys_of(a, t.b) - 1));
}

/// input0[b, q] + 1
__device__ __forceinline__ i64 part_0_1(const weft_args& a, const Tile& t, int q) {
  const int element_1 = load_global<int>((const int*)a.inputs[0].data + times(t.b, a.inputs[0].strides[0]) + min(max(q, 0), keys_of(a, t.b) - 1));
  return (i64)element_1 + (i64)1;
}

/// input0[b, k]
__device__ __forceinline__ i64 key_0(const weft_args& a, const Tile& t, int k) {
  return load_global<int>((const int*)a.inputs[0].data + times(t.b, a.inputs[0].strides[0]) + k);
}

/// input0[b, q]
__device__ __forceinline__ i64 lo_0(const weft_args& a, const Tile& t, int q) {
  return load_global<int>((const int*)a.inputs[0].data + times(t.b, a.inputs[0].strides[0]) + min(max(q, 0), keys_of(a, t.b) - 1));
}

/// input0[b, q] + 1
__device__ __forceinline__ i64 hi_0(const weft_args& a, const Tile& t, int q) {
  const int element_1 = load_global<int>((const int*)a.inputs[0].data + times(t.b, a.inputs[0].strides[0]) + min(max(q, 0), keys_of(a, t.b) - 1));
  return (i64)element_1 + (i64)1;
}

/// input1[h, q, k] != 0
__device__ __forceinline__ bool holds_1(const weft_args& a, const Tile& t, int q, int k) {
  const int element_1 = load_global<unsigned char>((const unsigned char*)a.inputs[1].data + times(t.h, a.inputs[1].strides[0]) + times(min(max(q, 0), keys_of(a, t.b) - 1), a.inputs[1].strides[1]) + k);
  return element_1 != 0;
}

/// q
__device__ __forceinline__ i64 part_1_0(const weft_args& a, const Tile& t, int q) {
  return q;
}

__device__ __forceinline__ bool holds(const weft_args& a, const Tile& t, int condition, int q, int k) {
  if (condition == 0) return holds_0(a, t, q, k);
  if (condition == 1) return holds_1(a, t, q, k);
  return 0;
}

__device__ __forceinline__ bool rows_agree(const weft_args& a, const Tile& t, int condition, int q, int other) {
  if (condition == 0) return part_0_0(a, t, q) == part_0_0(a, t, other) && part_0_1(a, t, q) == part_0_1(a, t, other);
  if (condition == 1) return part_1_0(a, t, q) == part_1_0(a, t, other);
  return 0;
}

__device__ __forceinline__ i64 key_of(const weft_args& a, const Tile& t, int condition, int k) {
  if (condition == 0) return key_0(a, t, k);
  if (condition == 1) return 0;
  return 0;
}

__device__ __forceinline__ i64 lo_of(const weft_args& a, const Tile& t, int condition, int q) {
  if (condition == 0) return lo_0(a, t, q);
  if (condition == 1) return 0;
  return 0;
}

__device__ __forceinline__ i64 hi_of(const weft_args& a, const Tile& t, int condition, int q) {
  if (condition == 0) return hi_0(a, t, q);
  if (condition == 1) return 0;
  return 0;
}

__device__ __forceinline__ i64 form_of(const weft_args& a, const Tile& t, int form, int q) {
  return 0;
}

__device__ __forceinline__ int kind_of(int condition) {
  if (condition == 0) return kInterval | kSmall;
  if (condition == 1) return 0;
  return 0;
}

__device__ __forceinline__ int spans_of(int condition) {
  if (condition == 0) return 0;
  if (condition == 1) return -1;
  return 0;
}

__device__ __forceinline__ int modulus_of(int condition) {
  if (condition == 0) return 0;
  if (condition == 1) return 0;
  return 0;
}

__device__ __forceinline__ unsigned may_meet(const weft_args& a, Shared& s, const Tile& t, Use use, int block, bool wide) {
  if (use.condition == 0) return span_may_meet(a, a.lists[0], t, s.conditions[0], use, block, wide) ? kAllUnits : 0;
  if (use.condition == 1) return pairs_may_meet(a.lists[1], s, t, use, block, wide) ? kAllUnits : 0;
  return kAllUnits;
}


// ---- the prepass: phase 2 i pools the keys for list i, phase 2 i + 1 fills it ----

extern "C" __global__ void __launch_bounds__(kPrepassThreads) weft_prepass(const weft_args a) {
  WEFT_SHARED_MEMORY(memory);
  switch (a.phase) {
    case 1: return fill_spans(a, *(SummaryShared*)memory, a.lists[0], 0, false);
    case 3: return fill_meets(a, a.lists[1], 1, true);
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
