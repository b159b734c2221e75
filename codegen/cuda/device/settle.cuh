#pragma once

#include "codegen/cuda/device/pairs.cuh"

// Sums over many keys, so that their rounding does not grow with a row. After so many keys a thread settles its sums:
// they join those of all keys before, in memory of its own, and what rounding would take from them stays behind and
// takes part in the next sum.

/// The bound of f32 is tighter.
constexpr int kKeysBetween = kStored == Element::f32 ? 1024 : 8192;
/// How often the list of keys comes round in that.
constexpr int kRounds = kKeysBetween > kKeyList ? kKeysBetween / kKeyList : 1;

/// One of the sums; returns what is left of it, or where it is the `last` time, the sum over all keys. `factor`:
/// settled sums are measured from another score now. NaN and infinity leave nothing.
__device__ __forceinline__ float settle_sum(float& settled, float sum, float factor, bool begun, bool last) {
  const float before = begun ? __fmul_rn(settled, factor) : 0, after = before + sum;
  settled = after;
  // fault(settled_sums_forgotten) leaves this out
  if (last) return after;
  return fabsf(after) < infinity() ? sum - (after - before) : 0;
}

/// The list has come round, or all keys are done. `rounds` of struct Settled says how often it has. It stands at the
/// end, and structs of sums begin at multiples of 16 bytes: ptxas gives four numbers that it stores at once four registers
/// in a row, and where products want another four, it moves the sums to and fro.
template <typename State, typename Settled>
__device__ __forceinline__ void end_round(Shared& s, State& st, Settled* settled, bool last, int passed = 1) {
  Settled& to = settled[kept(0)];  // at a place that it knows the compiler would hold all of it in registers
  const int rounds = to.rounds + (last ? 0 : passed);
  to.rounds = rounds;
  // fault(settles_every_round) instead: if (rounds < 1) return;
  if (rounds < kRounds || (rounds % kRounds != 0 && !last)) return;
  // fault(settled_sums_begin_anew) instead: settle(s, st, to, last, last);
  // fault(settles_every_round) instead: settle(s, st, to, last || rounds > 1, last);
  settle(s, st, to, last || rounds > kRounds, last);
}
