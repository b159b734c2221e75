// Attention kernel made by Weft for sm_80: f16 storage, products by matrix instructions, sums in f32.
// Which rows a tile holds and which keys it visits stands in the tables of the argument block, so that no
// length, segment or rate is compiled in. Read it from the end: weft_kernel opens a tile, attend walks its keys,
// attend_block multiplies a block of them.

// ---- the plan's choices ----

constexpr int kRows = 128;           // queries of a tile: what one block of threads computes
constexpr int kKeys = 64;            // keys computed at a time
constexpr int kThreads = 128;        // of a block
constexpr int kBlocks = 2;           // that an SM must hold: registers may take what they leave
constexpr int kDim = 64;             // columns of Q and K
constexpr int kDimV = 64;            // columns of V and O
constexpr int kSummed = 64;          // columns of what a row sums up
constexpr int kStages = 2;           // blocks of keys that shared memory has room for
constexpr int kGroupRows = 16;       // whose pairs with a block of keys may be decided at once
constexpr bool kKeepsMeets = true;   // what rows say to a term waits for its next block of keys
constexpr bool kAsync = true;        // rows of K and V come to shared memory by themselves
constexpr bool kCounts = true;       // several branches may keep a pair
constexpr int kDigits = 2;           // of how many those are, in base 2
constexpr bool kCutsKeys = true;     // of few rows with many keys, which weft_merge goes on with
constexpr int kTries = 2;            // keys that a thread tries at once
constexpr int kAhead = 2;            // blocks of keys that are known ahead of the one at hand
constexpr int kInputs = 0;           // tensors beside Q, K and V
constexpr int kLengths = 0;          // those of them that are lengths, which bounds refer to, as bits
constexpr int kConditions = 0;       // on pairs, beyond bounds and congruences
constexpr int kUnits = 0;            // of those, if some may be passed over
constexpr int kSharedFixed = 62304;  // bytes of shared memory, and more for each key range of a head
constexpr bool kHasClasses = true;   // tiles of rows that meet the same conditions
constexpr bool kHasRowBits = true;   // congruences that rows must meet or miss
constexpr bool kHasStreams = true;   // keys in steps
constexpr bool kHasSegments = true;  // bounds where a segment begins or ends
constexpr bool kGradient = false, kByGroups = false, kFewRows = false, kSeveralSoftmaxes = false, kDirect = false,
               kHasSink = false, kSomeEntries = false, kSharesTiles = false, kTransposed = false, kPaged = false,
               kListsPages = false, kHasSets = false, kSpans = false, kByValues = false, kHasRowConditions = false,
               kHasFilters = false, kHasSlots = false, kHasForms = false, kHasParts = false;  // what this kernel does without

#include "args.h"
#include "words.h"
using namespace weft::walk;

#include "block_memory.h"
#include "ptx.cuh"
#include "mma_ptx.cuh"
#include "numbers.cuh"

constexpr Element kStored = Element::f16;

#include "sides.cuh"
#include "shape.cuh"
#include "meets_memory.cuh"
#include "mma_rows.cuh"
#include "mma_memory.cuh"
#include "block.cuh"
#include "rows.cuh"
#include "unconditional.cuh"
#include "schedule.cuh"
#include "no_skips.cuh"
#include "keys.cuh"
#include "tile.cuh"
#include "meets.cuh"
#include "sinkless.cuh"
#include "lse.cuh"
#include "written.cuh"
#include "carried.cuh"
#include "mma_stage.cuh"
#include "mma_lanes.cuh"
#include "mask.cuh"
#include "pairs.cuh"
#include "mma_views.cuh"
#include "settle.cuh"
#include "mma_products.cuh"
#include "mma_warps.cuh"
#include "mma_columns.cuh"
#include "mma_softmax.cuh"
#include "mma_no_gather.cuh"
#include "mma_results.cuh"
#include "results.cuh"
#include "mma_runs.cuh"
#include "mma_no_sets.cuh"
#include "mma_attend.cuh"

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
