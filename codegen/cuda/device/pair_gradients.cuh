#pragma once

#include "codegen/cuda/device/pairs.cuh"
#include "codegen/cuda/device/query_terms.cuh"

// Gradients of single pairs, the same for every class: from Q K^T and dO V^T to P and dS.

constexpr float kToBaseTwo = 1.44269504088896341f;

struct PairGradient {
  float weight;   // P, as it multiplies V
  float d_score;  // dS, of the scaled product
  float plain;    // P without dropout …
  float share;    // … and times dP: of what delta is made
  float d_own;    // dS of the score itself, which the pattern makes of the product
};

/// P of a score in base 2; `measure`: the LSE that it is measured from.
__device__ __forceinline__ float weight_of_score(float score, float to_base_two, float log_weight, float measure) {
  // fault(multiplicity_left_out) also: if (log_weight > 0) log_weight = 0;
  return exp2_approx(__fmaf_rn(score, to_base_two, log_weight - measure));
}

/// `product` = q . k, `d_weight` = dO . v; `log_weight`: of the number of branches that keep the pair, minus infinity where
/// none does; `scaled`: what dropout makes of the weight; dS is so many `units` times as large, and delta in `terms`, too.
template <typename Pairs>
__device__ __forceinline__ PairGradient gradient_of_pair(const weft_args& a, const Tile& t, float product,
                                                         float d_weight, float log_weight, float2 terms, float scaled,
                                                         float units, int q, int k) {
  float score = product, to_base_two = (float)a.scale * kToBaseTwo, slope = 1;
  if constexpr (Pairs::kScored) {
    to_base_two = kToBaseTwo;
    slope = Pairs::slope(a, t, product * (float)a.scale, q, k);
    score = Pairs::score(a, t, product * (float)a.scale, q, k);
  }
  const bool kept = log_weight > -infinity();
  const float counted = kDirect ? kDirect * exp2_approx(log_weight) : 0;
  const float p = kDirect ? score * counted : weight_of_score(score, to_base_two, log_weight, terms.x);
  const float share = p * (scaled * d_weight);
  float d = kDirect ? counted * scaled * units * d_weight : p * __fmaf_rn(scaled * units, d_weight, -terms.y);
  const float d_own = kept ? d : 0;
  // A slope of 0 passes nothing on, not even an infinity.
  if (Pairs::kScored) d = d == 0 || slope == 0 ? 0 : d * slope;
  const float d_score = kept ? d : 0;
  return {kept ? p * scaled : 0, d_score, kept ? p : 0, kept ? share : 0, d_own};
}
