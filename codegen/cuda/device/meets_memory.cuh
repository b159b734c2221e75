#pragma once

#include "codegen/cuda/device/numbers.cuh"

constexpr int kKeyWarps = (kKeys + 31) / 32;  // that say what keys do

constexpr int kGroups = kRows / kGroupRows;   // of rows

/// What rows and keys of a partial block say to the term at hand: see meets.cuh.
struct __align__(16) Meets {
  // Of a group of rows: the last `lo`, the first `hi`, the first `lo` and the last `hi` of the keys that they keep; of the
  // values likewise; and the runs in which they lie.
  int4 group_keys[kGroups], group_values[kByValues ? kGroups : 1];
  unsigned group_runs[kConditions > 0 && kGroups > 4 ? kGroups : 4];
  // Of a warp's keys: the least (kNoKey where the term misses one), the largest, the least that it hits, the runs that fail
  // for some; those that fail for all that it hits, their least and their largest value; last, a bit for each hit.
  int4 of_keys[kKeyWarps], of_values[kConditions > 0 ? kKeyWarps : 1];
  int lo[kRows], hi[kRows];  // the keys that a row keeps
  int key[kKeys];            // a key that the term hits, or kNoKey
  unsigned runs[kConditions > 0 ? kRows : 4], fails[kConditions > 0 ? kKeys : 4];
  int least[kByValues ? kRows : 4], most[kByValues ? kRows : 4], value[kByValues ? kKeys : 4];
};

/// What a row says to a term's conditions: a bit for its run of each condition by runs, and the values of keys that it
/// keeps.
struct SaidByRow {
  unsigned runs;
  int least, most;
};

/// What they say of a key: which runs fail there, in the same bits, and its value.
struct SaidOfKey {
  unsigned fails;
  int value;
};

/// Of a term's conditions: some are asked of every pair; that on values is negated; all say the same of a unit of keys, of
/// which they are asked as a whole; all say the same to every row of the tile.
enum Open { kAsksPairs = 1, kValueNegated = 2, kGoesByUnits = 4, kRowsAgree = 8 };

/// What the rows of a tile say to a term's conditions together.
struct Met {
  bool none;  // no row meets one of them
  bool all;   // every row meets them all, or leaves them to the filter of keys
  int open;   // see Open
  int lag;    // the condition whose lag keys can be walked by, because all rows agree on it; -1 without one
};
