#pragma once

#include "codegen/cuda/device/numbers.cuh"

/// What rows and keys of a partial block say to the term at hand: see meets.cuh.
struct __align__(16) Meets {
  int lo[kRows], hi[kRows];  // the keys that a row keeps
  int key[kKeys];            // a key that the term hits, or -1
  unsigned runs[kConditions > 0 ? kRows : 4], fails[kConditions > 0 ? kKeys : 4];
  int least[kByValues ? kRows : 4], most[kByValues ? kRows : 4], value[kByValues ? kKeys : 4];
};

/// What a row says to a term's conditions: does it meet those on rows, a bit for its run of each condition by runs, and
/// the values of keys that it keeps.
struct SaidByRow {
  bool meets;
  unsigned runs;
  int least, most;
};

/// What they say of a key: which runs fail there, in the same bits, and its value.
struct SaidOfKey {
  unsigned fails;
  int value;
};

/// Of a term's conditions: some are asked of every pair; that on values is negated.
enum Open { kAsksPairs = 1, kValueNegated = 2 };
