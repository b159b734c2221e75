#pragma once

#include "codegen/cuda/device/skips.cuh"

// Of conditions that lists of chosen keys say: where the next of their blocks is, however far.

/// Of a condition that a list says: the first unit from this one on that it may hold of. By number, as may_meet().
__device__ __forceinline__ int next_unit(const weft_args& a, const Tile& t, int condition, int row, int unit);

/// The first unit from the zone's begin on that lists do not rule out: they are looked up once, where every block of keys in
/// between would be asked.
__device__ __forceinline__ int next_unit_of(const weft_args& a, Shared& s, const Zone& zone) {
  const Tile t = tile_of(s);
  const int terms = (int)word(get(s.pass) + kTerms);
  int first = kLargest;
#pragma unroll 1
  for (int i = 0; i < terms; ++i) {
    const Term& term = terms_of(s)[i];
    if (!reaches(get(term.keys), zone.begin, zone.end)) continue;
    int of_term = unit_of_key(max(zone.begin, get(term.keys.may_lo)));
#pragma unroll 1
    for (int j = 0; j < get(term.conditions); ++j) {
      const Use use = use_of(a, term, j);
      const Condition& c = s.conditions[use.condition];
      const int runs = get(c.runs);
      if (use.negated || runs == 0) continue;
      int of_rows = kLargest;
#pragma unroll 1
      for (int r = 0; r < runs; ++r) {
        // fault(lists_of_the_first_run_followed_for_all) also: if (r > 0) break;
        of_rows = min(of_rows, next_unit(a, t, use.condition, get(c.row[r]), of_term));
      }
      of_term = max(of_term, of_rows);
    }
    // fault(lists_of_the_last_term_followed) value: of_term
    first = min(first, of_term);
  }
  return first;
}
