#pragma once

#include "codegen/cuda/device/query_terms.cuh"

// How the rows of a tile, and of a block of keys, come to shared memory as they are stored.

/// How the columns of a row are dealt to lanes, 16 bytes to each.
template <int kOfRow>
struct Deal {
  static constexpr int kChunks = (kOfRow + 7) / 8;
  static constexpr int kLanes = lanes_of_row(kChunks);
  static constexpr int kAtOnce = kThreads / kLanes;               // rows
  static constexpr int kTimes = (kKeys + kAtOnce - 1) / kAtOnce;  // until a block of keys is dealt
  static constexpr int kApart = bytes_apart(kOfRow, kByGroups);   // bytes that a row takes in shared memory
  static constexpr int kSide = !kByGroups ? 1 : kAtOnce < 8 ? kAtOnce : 8;  // rows that neighbouring lanes copy to

  static __device__ __forceinline__ int chunk_of(unsigned thread) { return thread / kSide % kLanes; }
  static __device__ __forceinline__ int row_of(unsigned thread) {
    return thread / (kSide * kLanes) * kSide + thread % kSide;
  }

  /// Calls use(row, chunk, turn) for what is this thread's.
  template <typename Use>
  static __device__ __forceinline__ void each(const Use& use, unsigned thread = threadIdx.x) {
    const int chunk = chunk_of(thread), first = row_of(thread);
    if (kChunks != kLanes && chunk >= kChunks) return;
#pragma unroll
    for (int i = 0; i < kTimes; ++i) {
      const int row = first + i * kAtOnce;
      if (kKeys % kAtOnce == 0 || row < kKeys) use(row, chunk, i);
    }
  }
};

__device__ __forceinline__ Source source_of(const Source& from) {
  return {get(from.base), get(from.step), kPaged ? get(from.page) : 0, 0, kTransposed ? get(from.first) : 0};
}

/// The row that key y has.
__device__ __forceinline__ int row_of_source(const Source& source, int y) { return kTransposed ? y - source.first : y; }

/// The rows of a block of keys on their way to shared memory: without asynchronous copies they wait in registers.
template <int kOfRow>
struct Rows {
  uint4 chunks[kAsync ? 1 : Deal<kOfRow>::kTimes];
};

/// Where the row of place `at` of the list begins. `near`: rows lie less than 2 GB apart.
__device__ __forceinline__ const unsigned char* key_row(Shared& s, const Source& source, int at, bool near) {
  if (kPaged) return source.base + times(get(s.page[at]), source.page) + times(get(s.in_page[at]), source.step);
  const int row = row_of_source(source, get(s.key[at]));
  return source.base + (near ? (i64)((u64)(unsigned)row * (unsigned)source.step) : times(row, source.step));
}

/// One element at a time, for rows that start or step anywhere; row_at(i) is where that of the block's i-th key begins.
template <int kOfRow, typename RowAt>
__device__ __forceinline__ void copy_each(unsigned char* to, int count, const RowAt& row_at) {
#pragma unroll 1
  for (int i = threadIdx.x; i < kKeys * kOfRow; i += kThreads) {
    const int row = i / kOfRow, c = i % kOfRow;
    unsigned short x = 0;
    if (row < count) x = load_global<unsigned short>(row_at(row) + 2 * c);
    store_shared(to + place_of_byte<Deal<kOfRow>::kApart>(row, 2 * c), x);
  }
}

/// Begins to copy as many rows as a block has keys, number `key` and each `step` behind the one before: one address, and
/// a constant between. Where they are not `kWhole`, there are `count`, and zeros behind them.
template <bool kWhole, int kOfRow>
__device__ __forceinline__ void start_run(Rows<kOfRow>& rows, const Source& source, unsigned char* to, int key,
                                          int step, int count, unsigned thread) {
  using By = Deal<kOfRow>;
  const unsigned chunk = By::chunk_of(thread), first = By::row_of(thread);
  // fault(first_row_of_the_next) value: right + (u64)(unsigned)step * (unsigned)source.step
  const unsigned char* at = source.base + (u64)((unsigned)key + first * step) * (unsigned)source.step;
  // fault(chunk_of_other_columns_in_steps) instead: at += (chunk ^ 1) * 16;
  at += chunk * 16;
  // fault(rows_too_near) value: (u64)By::kAtOnce * (unsigned)source.step
  const u64 apart = (u64)(unsigned)(By::kAtOnce * step) * (unsigned)source.step;
  By::each([&](int row, int its_chunk, int turn) {
    unsigned char* const place = to + place_of<By::kApart>(row, its_chunk);
    if constexpr (kAsync && kWhole) {
      copy_async(place, at);
    } else if constexpr (kAsync) {
      copy_padded(place, row < count ? at : source.base, row < count ? 16 : 0);
    } else {
      rows.chunks[turn] = kWhole || row < count ? load_global<uint4>(at) : make_uint4(0, 0, 0, 0);
    }
    at += apart;
  }, thread);
}

/// Begins to copy the rows of `count` keys from place `from` of the list on, and where they are not `kWhole`, zeros for those
/// behind the last. Places are read ahead: ptxas puts three empty loads between one and a copy.
template <bool kWhole, int kOfRow>
__device__ __forceinline__ void start_listed(Shared& s, Rows<kOfRow>& rows, const Source& source, unsigned char* to, int from,
                                             int count) {
  using By = Deal<kOfRow>;
  constexpr int kAhead = kGradient ? 1 : kDim > 64 ? 2 : 4;
  constexpr bool kAll = kWhole && kKeys % By::kAtOnce == 0;
  const unsigned char* ahead[kAhead];
  By::each([&](int row, int chunk, int turn) {
#pragma unroll
    for (int j = 0; turn % kAhead == 0 && j < kAhead; ++j) {
      const int its_row = row + j * By::kAtOnce;
      const bool is_there = kAll ? turn + j < By::kTimes : its_row < count;
      // fault(chunk_of_other_columns) value: right + (chunk % 2 == 0 ? 16 : -16)
      ahead[j] = key_row(s, source, from + (is_there ? its_row : 0), true) + chunk * 16;
    }
    const unsigned char* const at = ahead[turn % kAhead];
    unsigned char* const place = to + place_of<By::kApart>(row, chunk);
    const bool inside = kWhole || row < count;
    if constexpr (kAsync && kWhole) {
      copy_async(place, at);
    } else if constexpr (kAsync) {
      // fault(rows_behind_the_last_not_zero) instead: copy_padded(place, at, 16);
      copy_padded(place, at, inside ? 16 : 0);
    } else {
      rows.chunks[turn] = inside ? load_global<uint4>(at) : make_uint4(0, 0, 0, 0);
    }
  }, kGradient ? threadIdx.x : thread_anew());
}

/// The same of keys that are `step` apart, if it is not 0.
template <int kOfRow>
__device__ __forceinline__ void start_rows(Shared& s, Rows<kOfRow>& rows, const Source& from_source, unsigned char* to,
                                           int from, int count, int step) {
  const Source source = source_of(from_source);
  if (!get(from_source.aligned))
    return copy_each<kOfRow>(to, count, [&](int i) { return key_row(s, source, from + i, false); });
  if (!kPaged && step > 0 && count == kKeys)
    return start_run<true>(rows, source, to, row_of_source(source, get(s.key[from])), step, count, thread_anew());
  // Where dK and dV are summed up no register is left for a second code.
  if (kAsync && !kGradient && count == kKeys) return start_listed<true>(s, rows, source, to, from, count);
  start_listed<false>(s, rows, source, to, from, count);
}

/// Behind this and a barrier they are there.
template <int kOfRow>
__device__ __forceinline__ void finish_rows(const Rows<kOfRow>& rows, const Source& source, unsigned char* to) {
  if constexpr (kAsync) {
    // fault(copies_not_waited_for) leaves this out
    wait_for_copies();
  } else if (get(source.aligned)) {
    Deal<kOfRow>::each([&](int row, int chunk, int turn) {
      store_shared(to + place_of<Deal<kOfRow>::kApart>(row, chunk), rows.chunks[turn]);
    });
  }
  show_groups();
}

/// Before results stand where rows of a tile that had no key may still arrive; behind this and a barrier none do.
__device__ __forceinline__ void end_copies() {
  if constexpr (kAsync) wait_for_copies();
}

/// Zeros behind the last column of every row, up to a whole fragment.
template <int kOfRow>
__device__ __forceinline__ void clear_padding(unsigned char* rows, int count) {
  constexpr int kPadding = (kOfRow + 15) / 16 * 16 - kOfRow;
  if constexpr (kPadding > 0) {
#pragma unroll 1
    for (int i = threadIdx.x; i < count * kPadding; i += kThreads) {
      const int column = kOfRow + i % kPadding;
      store_shared<unsigned short>(rows + place_of_byte<Deal<kOfRow>::kApart>(i / kPadding, 2 * column), 0);
    }
  }
}

__device__ __forceinline__ uint4 flipped(uint4 x, unsigned bits) {
  return make_uint4(x.x ^ bits, x.y ^ bits, x.z ^ bits, x.w ^ bits);
}

/// Begins to copy the tile's rows of a tensor: behind wait_for_copies() and a barrier they are there. row_at(r) is where
/// row r of the tile begins, `flip` changes signs where it says so.
template <int kOfRow, typename RowAt>
__device__ __forceinline__ void start_rows_of_tile(const Tile& t, unsigned char* to, bool aligned, unsigned flip,
                                                   const RowAt& row_at) {
  using By = Deal<kOfRow>;
  if (aligned) {
    const unsigned thread = thread_of_tile();
    const int chunk = By::chunk_of(thread);
    const bool is_there = By::kChunks == By::kLanes || chunk < By::kChunks;
    // fault(rows_behind_the_last_read) value: t.apart != 0
    const bool even = t.apart != 0 && t.from == 0 && t.to == kRows;  // others stand for rows that are not there
    const auto copy = [&](int row, const unsigned char* at) {
      unsigned char* const place = to + place_of<By::kApart>(row, chunk);
      if constexpr (kAsync) {
        copy_async(place, at);
      } else {
        store_shared(place, flipped(load_global<uint4>(at), flip));
      }
    };
    const auto place = [&](int row) { return row_at(row) + chunk * 16; };
    const int first = By::row_of(thread);
    // Of tiles of 16 rows that have none nobody asks, which decoding gains by.
    const bool whole = kGradient || kByGroups || t.count > kRows / 2;
    const int end = whole ? kRows : (t.count + 15) / 16 * 16;
    if (even && is_there) {
      each_even_place<By::kAtOnce, 4>(first, kRows, place, copy);
    } else {
#pragma unroll 4
      for (int row = first; is_there && row < end; row += By::kAtOnce) copy(row, place(row));
    }
    if (kAsync && flip != 0) {
      wait_for_copies();
#pragma unroll 1
      for (int row = first; is_there && row < kRows; row += By::kAtOnce) {
        unsigned char* const at = to + place_of<By::kApart>(row, chunk);
        store_shared(at, flipped(load_shared<uint4>(at), flip));
      }
    }
  } else {
#pragma unroll 1
    for (int i = threadIdx.x; i < kRows * kOfRow; i += kThreads) {
      const int row = i / kOfRow, c = i % kOfRow;
      const unsigned x = load_global<unsigned short>(row_at(row) + 2 * c);
      store_shared(to + place_of_byte<By::kApart>(row, 2 * c), (unsigned short)(x ^ flip));
    }
  }
  clear_padding<kOfRow>(to, kRows);
}
