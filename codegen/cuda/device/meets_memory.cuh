#pragma once

#include "codegen/cuda/device/numbers.cuh"

/// What rows and keys of a partial block say to the term at hand: see meets.cuh.
struct __align__(16) Meets {
  int lo[kRows], hi[kRows];  // the keys that a row keeps
  int key[kKeys];            // a key that the term hits, or -1
  unsigned runs[kConditions > 0 ? kRows : 4], fails[kConditions > 0 ? kKeys : 4];
  int least[kByValues ? kRows : 4], most[kByValues ? kRows : 4], value[kByValues ? kKeys : 4];
};
