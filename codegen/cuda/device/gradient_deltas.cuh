#pragma once

#include "codegen/cuda/device/pair_gradients.cuh"
#include "codegen/cuda/device/settle.cuh"

// What a row of a softmax says of all its pairs, where O is the sum of several softmaxes, or branches are detached:
// rowsum(P dP), and rowsum(P). Behind the class's lanes, which say how many rows a thread has.

struct SettledDeltas {
  float e[kRowsEach], l[kRowsEach];
  int rounds;
};
struct Deltas {
  using Settled = SettledDeltas;
  float e[kRowsEach], l[kRowsEach];
  int softmax;
};

__device__ __forceinline__ Deltas no_deltas(int softmax) {
  Deltas out = {};
  out.softmax = softmax;
  return out;
}

__device__ __forceinline__ void settle(Shared&, Deltas& st, SettledDeltas& to, bool begun, bool last) {
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
    st.e[r] = settle_sum(to.e[r], st.e[r], 1, begun, last);
    st.l[r] = settle_sum(to.l[r], st.l[r], 1, begun, last);
  }
}

/// The whole row's: delta is rowsum(P dP) / rowsum(P) - dLSE, of which weft_terms left what is known already. To memory, for
/// the pass of dK and dV, and to the tile's own terms.
__device__ __forceinline__ void take_delta(const weft_args& a, Shared& s, const Tile& t, int softmax, int row, float e,
                                           float l) {
  if (!is_computed(t, row)) return;
  float2* const at = terms_at(a, softmax, t.b, t.h, row_in_memory(s, t, row));
  float2 terms = load_written<float2>(at);
  // fault(delta_of_all_branches) leaves this out
  if (l > 0) terms.y += e / l;
  store_global(at, terms);
  put(s.terms[row], make_float2(terms.x, terms.y * scale_of_gradients(a, t.b, t.h)));
}
