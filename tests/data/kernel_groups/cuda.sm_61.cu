// Attention kernel made by Weft for sm_61: f16 storage, f32 arithmetic on plain lanes.
// Which rows a tile holds and which keys it visits stands in the tables of the argument block, so that no
// length, segment or rate is compiled in. Read it from the end: weft_kernel opens a tile, attend walks its keys,
// attend_block multiplies a block of them.

// ---- the plan's choices ----

constexpr int kRows = 128;           // queries of a tile: what one block of threads computes
constexpr int kKeys = 32;            // keys computed at a time
constexpr int kThreads = 128;        // of a block
constexpr int kBlocks = 2;           // that an SM must hold: registers may take what they leave
constexpr int kDim = 64;             // columns of Q and K
constexpr int kDimV = 64;            // columns of V and O
constexpr int kSummed = 64;          // columns of what a row sums up
constexpr int kColumnWarps = 1;      // warps that share rows, each with columns of its own
constexpr int kDepth = 8;            // columns of Q and K in a chunk
constexpr int kStaged = 16;          // rows of V in a chunk
constexpr int kGroupRows = 32;       // whose pairs with a block of keys may be decided at once
constexpr int kDigits = 0;           // of how many those are, in base 2
constexpr bool kSeveralSoftmaxes = true; // of a row, and O is a weighted sum of some
constexpr int kTries = 1;            // keys that a thread tries at once
constexpr int kAhead = 0;            // blocks of keys that are known ahead of the one at hand
constexpr int kInputs = 0;           // tensors beside Q, K and V
constexpr int kLengths = 0;          // those of them that are lengths, which bounds refer to, as bits
constexpr int kConditions = 0;       // on pairs, beyond bounds and congruences
constexpr int kUnits = 0;            // of those, if some may be passed over
constexpr int kSharedFixed = 34144;  // bytes of shared memory, and more for each key range of a head
constexpr bool kHasClasses = true;   // tiles of rows that meet the same conditions
constexpr bool kHasRowBits = true;   // congruences that rows must meet or miss
constexpr bool kHasStreams = true;   // keys in steps
constexpr bool kHasSegments = true;  // bounds where a segment begins or ends
constexpr bool kHasSlots = true;     // an LSE for each branch
constexpr bool kGradient = false, kKeepsMeets = false, kCounts = false, kCutsKeys = false, kDirect = false,
               kHasSink = false, kSomeEntries = false, kSharesTiles = false, kTransposed = false, kPaged = false,
               kListsPages = false, kHasSets = false, kSpans = false, kByValues = false, kHasRowConditions = false,
               kHasFilters = false, kHasForms = false, kHasParts = false;  // what this kernel does without

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
#include "results_in_memory.cuh"
#include "simt_attend.cuh"

// ---- the kernel: block i computes tile number tile_begin + i ----

extern "C" __global__ void __launch_bounds__(kThreads, kBlocks) weft_kernel(const weft_args a) {
  WEFT_SHARED_MEMORY(memory);
  Shared& shared = *(Shared*)memory;
  const i64* head;  // tables of the tile's head
  if (!open_tile(a, shared, head)) return;
  const Tile& tile = shared.tile;
  State state;

  // O is a weighted sum of several softmaxes. Of a chunk of keys it is one of them, and weft_merge goes on.
  Sum sum = {};
  const bool chunk = is_cut(a, tile.b);
  int p = 0, end = softmaxes(a);
  if (chunk) {
    p = (int)(blockIdx.x % (unsigned)end);
    end = p + 1;
  }
#pragma unroll 1
  for (; p < end; ++p) {
    const Views views = open_views(a, shared, tile);
    start_tile(a, shared, views, tile);
    const int zones = make_zones(a, shared, tile, a.tables + word(head + kPassesAt + p));
    clear(shared, state);
    attend(a, shared, state, views, tile, zones);
    const i64* pass;
    if (is_wanted_again(shared, state, pass)) {
      --p;
      continue;
    }
    close_sums(shared, state);
    pass = get(shared.pass);
    if (!chunk && word(pass + kWritesLse)) store_lse(a, shared, state, (int)word(pass + kLseSlot));
    if (!chunk && word(pass + kOut) && zones > 0) {
      normalize(shared, state, (float)__longlong_as_double(word(pass + kFactor)));
      add_to_sum(a, shared, sum, state);
    }
    __syncthreads();
  }
  if (!chunk) take_sum(a, shared, sum, state);
  store_rows(a, shared, state, chunk);
}
