#pragma once

#include "codegen/cuda/device/mask.cuh"

/// What a pattern says of single pairs. Kernels with more to say than this bring a struct of their own, in which
///   score(a, t, s, q, k) is the score of a pair whose scaled product is `s`, and stands in the text as often as
///     kKeysAtOnce (with matrix instructions: tiles of them) and kRowsAtOnce say;
///   weights are dropped with a probability of kDropped / 2^32, and the others multiplied by kScaled.
struct PlainPairs {
  static constexpr bool kScored = false, kDrops = false;
  static constexpr int kKeysAtOnce = 1, kRowsAtOnce = 8;
};
