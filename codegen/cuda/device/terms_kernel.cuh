#pragma once

#include "codegen/cuda/device/query_terms.cuh"

// The first step of gradients: a warp takes a query. Tiles are rows here. Of one softmax delta is rowsum(dO * O) - dLSE;
// where a row has several, O is not one's own, and the pass of dQ finds each delta from the pairs.

extern "C" __global__ void __launch_bounds__(kThreads) weft_terms(const weft_args a) {
  const int number = (int)a.tile_begin + (int)blockIdx.x * kWarps + (int)threadIdx.x / 32, lane = threadIdx.x % 32;
  if (number >= a.tile_end) return;
  const int rows = (int)a.tiles_per_head, head_number = number / rows;
  const int row = (int)a.tile_first + number - head_number * rows;
  const int b = head_number / (int)a.heads, h = head_number - b * (int)a.heads;
  if (row >= queries_of(a, b)) return;
  const int row_of_tensor = first_query_of(a, b) + row;
  const auto row_of_view = [&](const weft_view& view) {
    return (const unsigned char*)view.data +
           (times(b, view.stride_b) + times(h, view.stride_h) + times(row_of_tensor, view.stride_n)) * kBytes<kStored>;
  };
  const unsigned char* const d_o = row_of_view(a.d_o);
  float sum = 0, most = 0;
  if (!kFindsDeltas || kScalesGradients) {
    constexpr bool kSums = !kFindsDeltas && !kDirect;
    const unsigned char* const o = kSums ? row_of_view(a.o) : nullptr;
#pragma unroll 1
    for (int c = lane; c < kDimV; c += 32) {
      const float x = load1<kStored>(d_o + c * kBytes<kStored>);
      if (kSums) sum = __fmaf_rn(load1<kStored>(o + c * kBytes<kStored>), x, sum);
      if (kScalesGradients && fabsf(x) < infinity()) most = fmaxf(most, fabsf(x));
    }
    sum = sum_of<32>(sum);
    most = over_lanes<32>(most, [](float x, float y) { return fmaxf(x, y); });
  }
  if (lane != 0) return;
  if (kScalesGradients && most > 0)
    raise_atomically(a.d_o_bounds + (b * (int)a.kv_heads + kv_head_of(a, h)), __float_as_uint(most));
  if (kDirect) return;
  const i64* const of_head = a.tables + word(a.tables + word(a.tables + 1 + a.phase) + 2 + h) + kPassesAt;
  const int count = softmaxes(a);
#pragma unroll 1
  for (int n = 0; n < count; ++n) {
    const i64* const pass = a.tables + word(of_head + n);
    const int slot = (int)word(pass + kLseSlot);
    const float factor = kSeveralSoftmaxes ? (float)__longlong_as_double(word(pass + kFactor)) : 1;
    const float lse = load_global<float>(lse_of_head(a, b, h, slot) + row_of_tensor);
    const bool keeps = lse > -infinity() || lse != lse;  // else every weight is 0
    // fault(lse_in_base_e) value: lse
    const float measure = keeps ? lse * 1.44269504088896341f - log2_approx(factor) : infinity();
    // fault(delta_left_out) value: 0.0f
    const float delta = keeps ? sum - d_lse_of(a, slot, b, h, row_of_tensor) / factor : 0;
    // fault(d_lse_left_out) instead: store_global(terms_at(a, n, b, h, row), make_float2(measure, keeps ? sum : 0));
    store_global(terms_at(a, n, b, h, row), make_float2(measure, delta));
  }
}
