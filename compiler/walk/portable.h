#pragma once

#ifdef __CUDACC__
#define WEFT_WALK __device__ __forceinline__
#else
#include <cstdint>
#define WEFT_WALK inline
#endif

/// The walk that a plan prescribes, written once over the words of words.h: which rows a tile holds, which keys any and
/// every row of it keeps by each term, the zones between, and the keys that terms hit. Scalar code in the part of C++
/// that compilers for hosts and devices share. Where words, inputs and states stand is an environment's affair, the
/// argument `e` of everything here; each header says what it asks of one.
namespace weft::walk {

using i64 = std::int64_t;
using u64 = std::uint64_t;

/// No key and no row lies there.
inline constexpr i64 kFar = i64{1} << 60;

WEFT_WALK i64 least(i64 a, i64 b) { return a < b ? a : b; }
WEFT_WALK i64 most(i64 a, i64 b) { return a > b ? a : b; }

/// For w > 0.
WEFT_WALK i64 floor_div(i64 x, i64 w) {
  const i64 quotient = x / w;
  return quotient * w > x ? quotient - 1 : quotient;
}
WEFT_WALK i64 floor_mod(i64 x, i64 w) { return x - floor_div(x, w) * w; }

/// A congruence whose three words stand at c: of a segment, or without end where that is 0, a residue of a rate.
template <typename Env>
WEFT_WALK bool holds(const Env& e, const i64* c, i64 x) {
  const i64 segment = e.word(c), in_segment = segment > 0 ? floor_mod(x, segment) : x;
  return floor_mod(in_segment, e.word(c + 1)) == e.word(c + 2);
}

}  // namespace weft::walk
