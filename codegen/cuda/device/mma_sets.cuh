#pragma once

#include "codegen/cuda/device/mma_runs.cuh"

// Runs of sets: units of keys of which conditions say the same to all rows of the tile, so that bounds alone are left to
// decide what each row keeps of one.

/// Of a zone of sets the first one, behind pass_over(): as far as one word of bits tells.
__device__ __forceinline__ int end_of_set(Shared& s, const Zone& zone, int known) {
  const int unit = unit_of_key(zone.begin) - known * kUnits;
  const unsigned left = ~(get(s.may[unit / 32]) >> unit % 32);
  // fault(sets_of_one_unit_more) value: right + 1
  const int units = min(left != 0 ? __ffs((int)left) - 1 : 32, 32 - unit % 32);
  return min(zone.end, zone.begin - in_unit(zone.begin) + units * kUnit);
}

/// The first set of a zone, in its place. False where there is none left, which the list of zones then says, too.
__device__ __forceinline__ bool open_set(const weft_args& a, Shared& s, const Lists& lists, int number, Zone& zone, int& known) {
  // fault(sets_known_of_other_terms) leaves this out
  if (number != get(s.walk.next)) known = kUnknown;
  pass_over(a, s, zone, known);
  if (zone.begin < zone.end) {
    zone.end = end_of_set(s, zone, known);
    return true;
  }
  __syncthreads();  // all have read it
  if (threadIdx.x == 0) put(lists.zone[number].begin, zone.end);
  __syncthreads();
  return false;
}

/// The set of one unit that zones of the same term share, as a run; the number of the last of them, or -1.
__device__ __forceinline__ int join_sets(const weft_args& a, Shared& s, const Lists& lists, int number, int zones, Zone& run) {
  int last = number;
  if (number + 1 < zones && run.kind >= kOfTerm && run.end % kKeys != 0) {
    const Zone next = get(lists.zone[number + 1]);
    // fault(sets_of_other_terms_joined) value: next.begin == run.end
    const bool joins = next.begin == run.end && next.kind / kOfTerm == run.kind / kOfTerm;
    if (joins) run.end = min(next.end, (run.end / kKeys + 1) * kKeys), last = number + 1;
  }
  __syncthreads();
  return __syncthreads_and(meet_run(a, s, run.begin, run.end, 1, true)) ? last : -1;
}
