#pragma once

#include "include/weft/weft.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace weft::test {

/// Keys of sequences in pages, which lie in reverse: what no token fills is NaN, and rows of the table behind a
/// sequence's pages point nowhere.
struct Pages {
  std::int64_t size;                 ///< tokens of a page
  std::int64_t most = 0, count = 0;  ///< pages of a sequence, of all
  std::vector<std::int64_t> lengths;
  std::vector<std::int32_t> table;  ///< [sequences, most]

  Pages(std::vector<std::int64_t> of_sequences, std::int64_t size_of_page)
      : size(size_of_page), lengths(std::move(of_sequences)) {
    for (const auto n : lengths) most = std::max(most, pages_of(n)), count += pages_of(n);
    table.assign(lengths.size() * static_cast<std::size_t>(most), 1 << 30);
    std::int64_t next = count;
    for (std::size_t b = 0; b < lengths.size(); ++b) {
      for (std::int64_t i = 0; i < pages_of(lengths[b]); ++i) *entry(b, i) = static_cast<std::int32_t>(--next);
    }
  }

  /// Rows of so many elements, of which those of sequence b begin with number first[b].
  template <typename T>
  std::vector<T> fill(const T* rows, std::int64_t row, const std::vector<std::int64_t>& first) {
    std::vector<T> out(static_cast<std::size_t>(count * size * row));
    std::memset(out.data(), 0xff, out.size() * sizeof(T));  // a NaN of every type
    for (std::size_t b = 0; b < lengths.size(); ++b) {
      for (std::int64_t n = 0; n < lengths[b]; ++n)
        std::copy_n(rows + (first[b] + n) * row, row, out.data() + (*entry(b, n / size) * size + n % size) * row);
    }
    return out;
  }

  /// What fill() made, in the place of a view of rows.
  TensorView view(const void* filled, const TensorView& rows) const {
    return dense_view(filled, rows.dtype, {count, size, rows.extent[2], rows.extent[3]});
  }
  TensorView pages() const { return dense_view(table.data(), DType::i32, {std::ssize(lengths), most}); }

 private:
  std::int64_t pages_of(std::int64_t tokens) const { return (tokens + size - 1) / size; }
  std::int32_t* entry(std::size_t sequence, std::int64_t page) {
    return &table[sequence * static_cast<std::size_t>(most) + static_cast<std::size_t>(page)];
  }
};

}  // namespace weft::test
