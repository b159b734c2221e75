#pragma once

#include "codegen/cuda/device/sides.cuh"
#include "codegen/cuda/device/simt_memory.cuh"

// What the threads of a block share: the tile's rows, the keys at hand, and the state of the terms. The working memory
// of the kernel's class comes first.

constexpr int kWarps = kThreads / 32;
constexpr int kKeyList = kShape.listed_keys();

/// What the tile's rows say to one of the plan's conditions on pairs: see conditions.cuh.
constexpr int kMostRuns = 8;
struct __align__(16) Condition {
  i64 lo, hi;                         // of an interval: the least and the largest over the rows
  int kind, runs;                     // how many runs of rows agree; 0: more than follow
  int row[kMostRuns];                 // one of each
  int2 keys[kSpans ? kMostRuns : 1];  // of a bound: the first that each keeps, and what follows the last
};
enum ConditionKind {
  kOnRows = 1,
  kInterval = 2,
  kSomeMeet = 4,
  kSomeFail = 8,
  kSmall = 16,     // the keys of an interval fit an int
  kByUnits = 32,   // it says the same of all keys of a unit: see skips.cuh
  kBound = 64      // the keys that a run of rows keeps follow each other, in every run: see value_bounds.cuh
};

/// Facts of the tile, the same in every thread.
struct __align__(16) Tile {
  int b, h;
  int offset;              // position of row 0 …
  int first_query;         // … and of the sequence's first query, which it mostly is
  int count;               // rows …
  int from, to;            // … and those that the launch computes, `to` excluded
  int last;                // position of the last row
  int apart;               // positions from each row to the next; 0 where they differ, or rows are of several heads
  int key_begin, key_end;  // of the chunk of keys; all where they are not cut
  int first_row;           // of a packed tensor: where the sequence begins, by the rows of the tile
  u64 every, any;          // AND and OR of the rows' bits
};

/// How many of the last keys on the list are `step` apart and came from one zone, of which the next key is `next`.
struct Run {
  int keys, step, next;
};

constexpr bool kPassesOver = kUnits > 0;
constexpr int kUnknown = -(1 << 30);  // no block of keys has this number

/// How far the list of keys has come.
struct __align__(16) Walk {
  int4 zone;  // what is left of the zone at hand
  int next;   // zone
  int zones;
  Run run;
  int again;  // is the tile computed again? See mma_attend.cuh
  int known;  // kThreads blocks of keys from this one on have bits that say of which units some row may keep a key
};

struct __align__(16) Shared : WorkingMemory {
  Walk walk;
  Condition conditions[kConditions > 0 ? kConditions : 1];
  Tile tile;
  u64 bits[kRows];  // conditions on rows that each row meets
  int x[kRows];     // positions of the tile's rows; behind the last one, that again
  int key[kKeyList];
  float key_weight[kCounts ? kKeyList : 4];  // branches that keep it
  int page[kListsPages ? kKeyList : 4], in_page[kListsPages ? kKeyList : 4];  // where it lies
  const i64* pass;                        // tables of the softmax at hand
  int inputs[kInputs > 0 ? kInputs : 1];  // of this batch entry
  int counts[kWarps];
  float scale;                                   // of products, for exponents of 2
  int met_term;                                  // whose rows s.meets knows
  unsigned may[kPassesOver ? kWarps * kUnits : 1];  // a bit for each unit of the keys that are known: see skips.cuh
  unsigned char head[kSharesTiles ? kRows : 4];  // of each row, counted from the tile's
};
static_assert(sizeof(Shared) == kShape.shared_bytes() && sizeof(Shared) == kSharedFixed, "the launch knows it");

/// A stretch of keys in which the same terms matter, and how to walk it: from `begin` in steps of `step`, no hit lies
/// between.
struct __align__(16) Zone {
  int begin, end, step;
  int kind;
};
/// Full: every row keeps every key that a term hits. A bit more says that terms hit every key at the zone's steps, as far
/// as conditions do not pass over its block. The last one: no condition does, and each block of keys is kept by as many
/// branches as the one before. Of sets: conditions say the same of kKeys keys at a time to all rows, so that those between
/// which they hold are runs; where one term alone is asked, its number and one more follows.
enum ZoneKind { kEmpty, kPartial, kFull, kKinds = kPartial | kFull, kEvery = 4, kUnasked = 8, kOfSets = 16, kOfTerm = 32 };

/// What all rows of a tile may keep, and what each must. The numbers ascend.
struct __align__(16) KeySpan {
  int may_lo, must_lo, must_hi, may_hi;
};

/// What a term keeps for any and for every row of the tile, and its stream. Behind Shared, one per term.
struct __align__(16) Term {
  KeySpan keys;  // behind the last one where no row keeps any
  int whole, branch;
  int segment, rate, residue;
  int filters, filter_at;
  int conditions, condition_at;
  int open;  // of its conditions: see Open
};

/// May some row keep a key of [begin, end), as far as the span of a term tells?
template <typename T>
__device__ __forceinline__ bool reaches(const KeySpan& keys, T begin, T end) {
  return max((T)keys.may_lo, begin) < min((T)keys.may_hi, end);
}

/// What one row keeps by a term, congruences aside.
struct Reach {
  int lo, hi;      // keys
  unsigned fails;  // bit i: condition i on rows is not met
};

/// Behind Shared: the terms, and four words or zones a term of each of the others.
struct Lists {
  Term* term;
  int* sorted_cut;  // where spans of terms begin and end
  Zone* zone;       // zone i lies between sorted cuts i and i + 1
};
static_assert(sizeof(Term) + 4 * (sizeof(int) + sizeof(Zone)) == kTermBytes, "the launch knows this number");

__device__ __forceinline__ Term* terms_of(Shared& s) { return (Term*)(&s + 1); }

__device__ __forceinline__ Lists lists_of(const weft_args& a, Shared& s) {
  Lists lists;
  lists.term = terms_of(s);
  lists.sorted_cut = (int*)(lists.term + a.most_terms);
  lists.zone = (Zone*)(lists.sorted_cut + 4 * a.most_terms);
  return lists;
}

template <typename T>
__device__ __forceinline__ T get(const T& from) {
  return load_shared<T>(&from);
}

template <typename T>
__device__ __forceinline__ void put(T& to, T value) {
  store_shared<T>(&to, value);
}

__device__ __forceinline__ i64 word(const i64* at) { return load_global<i64>(at); }

/// The thread's number where a tile, or another of its heads, begins: beside conditions no register is left that could keep
/// what follows from it until then.
__device__ __forceinline__ unsigned thread_of_tile() { return kConditions > 0 ? thread_anew() : threadIdx.x; }

/// A copy in registers of what shared memory keeps of the tile; behind a barrier.
__device__ __forceinline__ Tile tile_of(const Shared& s) { return s.tile; }
