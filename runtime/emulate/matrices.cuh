// The twin of codegen/cuda/device/mma_ptx.cuh, behind prelude.cuh. Lanes of a warp show each other what they bring, as
// the hardware does, so that a wrong row or a wrong lane is as wrong here.

namespace weft_emulated {

WEFT_BARE const unsigned* exchange(const unsigned* mine, unsigned words, int line) {
  return reinterpret_cast<const unsigned*>(self()->hooks->exchange(self(), mine, words * 4, line));
}
inline constexpr unsigned kMailWords = kMailBytes / 4;

WEFT_PURE float wide(unsigned two, unsigned which, bool bfloats) {
  const auto bits = static_cast<unsigned short>(which == 0 ? two : two >> 16);
  return bfloats ? from_bfloat(bits) : from_half(bits);
}

/// Row g of A stands in lanes 4 g to 4 g + 3, two elements a word, and column g of B likewise.
WEFT_BARE void multiply(float* c, const unsigned* a, unsigned b0, unsigned b1, bool bfloats, int line) {
  const unsigned mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
  const unsigned* const all = exchange(mine, 6, line);
  const unsigned group = thread() % 32 / 4, pair = thread() % 4;
  float rows[2][16], columns[2][16];
  for (unsigned k = 0; k < 16; ++k) {
    const unsigned lane = k % 8 / 2, half = k / 8;
    for (unsigned i = 0; i < 2; ++i) {
      rows[i][k] = wide(all[(4 * group + lane) * kMailWords + 2 * half + i], k % 2, bfloats);
      columns[i][k] = wide(all[(4 * (2 * pair + i) + lane) * kMailWords + 4 + half], k % 2, bfloats);
    }
  }
  for (unsigned i = 0; i < 4; ++i) {
    for (unsigned k = 0; k < 16; ++k) c[i] = __builtin_fmaf(rows[i / 2][k], columns[i % 2][k], c[i]);
  }
#ifdef WEFT_COUNT
  add_flops(2 * 4 * 16);
#endif
}

/// Lane l holds row l % 8 of matrix l / 8.
WEFT_BARE void load_rows(unsigned* to, const void* row, bool transposed, int line) {
  unsigned mine[4];
  self()->hooks->load(self(), Space::shared, row, mine, sizeof(mine), {__builtin_return_address(0), line});
  const unsigned* const all = exchange(mine, 4, line);
  const unsigned group = thread() % 32 / 4, pair = thread() % 4;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned* const matrix = all + 8 * i * kMailWords;
    if (!transposed) {
      to[i] = matrix[group * kMailWords + pair];
      continue;
    }
    const unsigned shift = group % 2 * 16;
    const unsigned* const word = matrix + 2 * pair * kMailWords + group / 2;
    to[i] = (word[0] >> shift & 0xFFFFU) | (word[kMailWords] >> shift & 0xFFFFU) << 16;
  }
}

WEFT_BARE void copy(void* to, const void* from, int bytes, int size, int line) {
  self()->hooks->copy(self(), to, from, static_cast<unsigned>(bytes), static_cast<unsigned>(size),
                      {__builtin_return_address(0), line});
}
WEFT_BARE void finish_copies() { self()->hooks->wait(self()); }

}  // namespace weft_emulated

WEFT_ALWAYS void load_matrices(unsigned (&to)[4], const void* row, WEFT_LINE) {
  weft_emulated::load_rows(to, row, false, line);
}
WEFT_ALWAYS void load_transposed(unsigned (&to)[4], const void* row, WEFT_LINE) {
  weft_emulated::load_rows(to, row, true, line);
}
template <bool kFenced>
WEFT_ALWAYS void multiply_halves(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, int on, WEFT_LINE) {
  if (!kFenced || on != 0) weft_emulated::multiply(c, a, b0, b1, false, line);
}
template <bool kFenced>
WEFT_ALWAYS void multiply_bfloats(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, int on, WEFT_LINE) {
  if (!kFenced || on != 0) weft_emulated::multiply(c, a, b0, b1, true, line);
}
WEFT_PURE unsigned pack_halves(float low, float high) {
  return to_half(low) | static_cast<unsigned>(to_half(high)) << 16;
}
WEFT_PURE unsigned pack_bfloats(float low, float high) {
  return to_bfloat(low) | static_cast<unsigned>(to_bfloat(high)) << 16;
}
WEFT_ALWAYS void copy_padded(void* to, const void* from, int bytes, WEFT_LINE) {
  weft_emulated::copy(to, from, bytes, 16, line);
}
WEFT_ALWAYS void copy_async(void* to, const void* from, WEFT_LINE) { weft_emulated::copy(to, from, 16, 16, line); }
WEFT_ALWAYS void copy_pair(void* to, const void* from, WEFT_LINE) { weft_emulated::copy(to, from, 8, 8, line); }
WEFT_ALWAYS void wait_for_copies() { weft_emulated::finish_copies(); }
WEFT_ALWAYS void show_groups() {}

// The twin of codegen/cuda/device/mma_group_ptx.cuh, out of instructions of one warp: what they find in shared memory they
// find when they are asked for it.

struct Matrix {
  const unsigned char* first;
  int along, across;
};
WEFT_ALWAYS Matrix matrix_at(const void* first, int along, int across) {
  return {static_cast<const unsigned char*>(first), along, across};
}
WEFT_ALWAYS Matrix behind(Matrix matrix, int bytes) { return {matrix.first + bytes, matrix.along, matrix.across}; }
WEFT_ALWAYS void open_group() {}
WEFT_ALWAYS void close_group() {}
template <int kStillOpen>
WEFT_ALWAYS void wait_for_groups() {}
template <int kTiles>
WEFT_ALWAYS void hold(float (&)[kTiles][4]) {}

template <bool kBfloats, bool kAdds, bool kTransposed, int kTiles>
WEFT_ALWAYS void multiply_group(float (*c)[4], const unsigned (&a)[4], Matrix b, WEFT_LINE) {
  const int lane = static_cast<int>(weft_emulated::thread() % 32);
  const unsigned char* const row = b.first + lane / 8 % 2 * b.along + lane / 16 * b.across + lane % 8 * 16;
  for (int n = 0; n < kTiles; n += 2) {
    unsigned columns[4];
    weft_emulated::load_rows(columns, row + n * b.across, kTransposed, line);
    for (int i = 0; i < 2; ++i) {
      for (int e = 0; e < 4 && !kAdds; ++e) c[n + i][e] = 0;
      weft_emulated::multiply(c[n + i], a, columns[2 * i], columns[2 * i + 1], kBfloats, line);
    }
  }
}
template <bool kBfloats, bool kAdds, bool kTransposed, int kTiles>
WEFT_ALWAYS void multiply_group(float (*c)[4], Matrix a, Matrix b, WEFT_LINE) {
  const int lane = static_cast<int>(weft_emulated::thread() % 32), warp = static_cast<int>(weft_emulated::thread() / 32 % 4);
  unsigned rows[4];
  weft_emulated::load_rows(
      rows, a.first + (2 * warp + lane / 8 % 2) * a.across + lane / 16 * a.along + lane % 8 * 16, false, line);
  multiply_group<kBfloats, kAdds, kTransposed, kTiles>(c, rows, b, line);
}
