/// Tensor cores, and the loads made for them.

#include "tests/machine/driver/halves.h"
#include "tests/machine/driver/lanewise.h"
#include "tests/machine/driver/launch.h"

#include <cstring>

namespace weft::machine {
namespace {

/// Rows of the result, columns of it, and how many halves a register holds.
constexpr std::size_t kRows = 16, kColumns = 8;
constexpr int kQuad = 4;

const Lanes& register_of(const Warp& warp, const Source& first, std::size_t further) {
  return warp.registers[first.number == kZero ? at(kZero) : at(first.number) + further];
}

/// Lane l has row l / 4 of A and column l / 4 of B, of which columns and rows 2 (l % 4) and the next.
template <std::size_t kDepth>
void multiply_add(Warp& warp, const Place& to, const std::array<Source, 3>& from, float (*convert)(Word)) {
  float a[kRows][kDepth], b[kDepth][kColumns];
  for (int l = 0; l < kLanes; ++l) {
    const std::size_t group = at(l / kQuad), pair = at(2 * (l % kQuad));
    for (std::size_t half = 0; half < 2; ++half) {
      const auto value = [&](const Source& of, std::size_t r) {
        return convert(register_of(warp, of, r)[at(l)] >> 16 * half & 0xffff);
      };
      for (std::size_t r = 0; r < kDepth / 4; ++r) a[group + r % 2 * 8][pair + half + r / 2 * 8] = value(from[0], r);
      for (std::size_t r = 0; r < kDepth / 8; ++r) b[pair + half + r * 8][group] = value(from[1], r);
    }
  }
  std::array<Lanes, 4> out;
  for (int l = 0; l < kLanes; ++l) {
    for (std::size_t r = 0; r < out.size(); ++r) {
      const std::size_t row = at(l / kQuad) + r / 2 * 8, column = at(2 * (l % kQuad)) + r % 2;
      auto sum = static_cast<double>(std::bit_cast<float>(register_of(warp, from[2], r)[at(l)]));
      for (std::size_t k = 0; k < kDepth; ++k)
        sum += static_cast<double>(a[row][k]) * static_cast<double>(b[k][column]);
      out[r][at(l)] = std::bit_cast<Word>(static_cast<float>(sum));
    }
  }
  for (std::size_t r = 0; r < out.size(); ++r) warp.write(to.number + static_cast<int>(r), out[r], kAllLanes);
}

Step matrix_multiply_add(const Reader& r) {
  const bool deep = r.has("16816");
  if ((!deep && !r.has("1688")) || !r.has("F32")) r.unknown();
  const Place to = r.result(0);
  const auto from = sources_of<3>(r, 1, false);
  const auto convert = r.has("BF16") ? from_bfloat : from_half;
  const int place = r.place();
  return [=](Warp& warp, Mask mask) {
    expect_whole_warp(warp, mask, "HMMA", place);
    deep ? multiply_add<16>(warp, to, from, convert) : multiply_add<8>(warp, to, from, convert);
  };
}

/// Of each matrix 8 x 8 the lanes give the addresses of its rows: the first eight of the first one, and so on.
Step load_matrices(const Reader& r) {
  constexpr int kRowBytes = 16;
  const Place to = r.result(0);
  const Address from = r.address(1);
  const bool transposed = r.has("MT88");
  const int count = r.has("4") ? 4 : r.has("2") ? 2 : 1, place = r.place();
  return [=](Warp& warp, Mask mask) {
    expect_whole_warp(warp, mask, "LDSM", place);
    std::array<Lanes, 4> out;
    for (int matrix = 0; matrix < count; ++matrix) {
      std::uint16_t rows[8][8];
      for (int row = 0; row < 8; ++row) {
        const Wide address = from.shared(warp, 8 * matrix + row);
        if (address % kRowBytes != 0)
          fault("LDSM at {:#x}: a row at {:#x}, which is no multiple of 16", place, address);
        std::memcpy(rows[row], warp.block->shared.load(warp.number, address, kRowBytes, place), kRowBytes);
      }
      for (int l = 0; l < kLanes; ++l) {
        const int group = l / kQuad, pair = 2 * (l % kQuad);
        const Word low = transposed ? rows[pair][group] : rows[group][pair];
        const Word high = transposed ? rows[pair + 1][group] : rows[group][pair + 1];
        out[at(matrix)][at(l)] = low | high << 16;
      }
    }
    for (int matrix = 0; matrix < count; ++matrix) warp.write(to.number + matrix, out[at(matrix)], kAllLanes);
  };
}

}  // namespace

Rows matrix_rows() { return {{"HMMA", matrix_multiply_add}, {"LDSM", load_matrices}}; }

}  // namespace weft::machine
