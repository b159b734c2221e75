#pragma once

#include "compiler/walk/portable.h"
#include "compiler/walk/words.h"

/// How the keys of an entry's rows are cut into chunks: see compiler/ir/key_chunks.h. The same for the host, which
/// knows sizes before a launch, and for the GPU where they stand in its memory. `word(pointer)` reads, and
/// `word.floor_to(x, w)` is the last multiple of w up to x.
namespace weft::walk::chunks {

/// The rows of one batch entry.
struct Rows {
  std::int64_t first = 0;  ///< position of row 0
  std::int64_t n_q = 0, n_k = 0;
};

struct Chunks {
  std::int64_t count = 1;  ///< 1: keys are not cut
  std::int64_t first = 0;  ///< key that the first chunk begins with
  std::int64_t keys = 0;   ///< of a chunk
};

/// The most chunks that so many rows with so many keys have, by the words of the cuts.
template <typename Word>
constexpr std::int64_t most_of(const Word& word, const std::int64_t* cuts, std::int64_t n_q, std::int64_t keys) {
  const std::int64_t* cut = cuts + kCutsAt;
  for (std::int64_t left = word(cuts + kCutCount); left > 0; --left, cut += kCutWords) {
    if (n_q > word(cut + kCutRows)) continue;
    const std::int64_t count = keys / word(cut + kCutKeys), most = word(cut + kCutMost);
    return count < 1 ? 1 : count > most ? most : count;
  }
  return 1;
}

/// The value of a bound at position x, of those that are known without the caller's tensors.
template <typename Word>
constexpr std::int64_t value_at(const Word& word, const std::int64_t* bound, std::int64_t x, std::int64_t n_k) {
  const std::int64_t kind = word(bound + kBoundKind), of = word(bound + kBoundA), add = word(bound + kBoundAdd);
  if (kind == kBoundRow) return x + add;
  if (kind == kBoundPart) return word(bound + kBoundB) * n_k / of + add;
  return kind == kBoundSegment ? word.floor_to(x, of) + add : add;
}

/// The keys that some row may keep, in chunks of whole blocks.
template <typename Word>
constexpr Chunks of_rows(const Word& word, const std::int64_t* cuts, const Rows& rows) {
  const Chunks whole = {1, 0, rows.n_k};
  if (rows.n_q <= 0 || most_of(word, cuts, rows.n_q, rows.n_k) == 1) return whole;
  std::int64_t first = rows.n_k, end = 0;
  const std::int64_t* bound = cuts + kCutsAt + word(cuts + kCutCount) * kCutWords;
  for (std::int64_t ranges = word(cuts + kCutRanges); ranges > 0; --ranges) {
    std::int64_t lo = 0, hi = rows.n_k;
    const std::int64_t lower = word(bound), upper = word(bound + 1);
    bound += 2;
#ifdef __CUDACC__
#pragma unroll 1  // half of the kernel's size
#endif
    for (std::int64_t i = 0; i < lower + upper; ++i, bound += kBoundWords) {
      const std::int64_t at = value_at(word, bound, i < lower ? rows.first : rows.first + rows.n_q - 1, rows.n_k);
      if (i < lower && at > lo) lo = at;
      if (i >= lower && at < hi) hi = at;
    }
    if (lo >= hi) continue;
    if (lo < first) first = lo;
    if (hi > end) end = hi;
  }
  const std::int64_t count = first < end ? most_of(word, cuts, rows.n_q, end - first) : 1, step = word(cuts + kCutStep);
  if (count == 1) return whole;
  const std::int64_t keys = ((end - first + count - 1) / count + step - 1) / step * step;
  return {(end - first + keys - 1) / keys, first, keys};
}

}  // namespace weft::walk::chunks
