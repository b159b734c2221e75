#include "codegen/cpu/kernel.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::codegen::cpu {
namespace {

const Value kZero = Part::i64(0);
const std::string kHalves8 = "<8 x i16>", kHalves32 = "<32 x i16>";

/// Rows of a block that products cannot read in place, one after the other: body(row, key).
void each_row(Part& f, const char* rows, int step,
              const std::function<void(const Value& from, const Value& key)>& body) {
  f.for_each(kZero, Part::argument("i64", "count"), step,
             [&](const Value& key) { body(f.at(Part::argument("ptr", rows), "ptr", key), key); });
}

Value address(Part& f, const Value& row, const Value& column) {
  return f.at(row, "i8", f.mul(column, Part::i64(f.kernel.element)));
}

/// Padded with zeros to whole eights, and widened to f32.
void widen(Part& f, const char* rows, std::int64_t to, int width, int padded) {
  each_row(f, rows, 1, [&](const Value& from_at, const Value& key) {
    const Value from = f.load("ptr", from_at, 8);
    const Value row = f.at(f.in_scratch(to), "float", f.mul(key, Part::i64(padded)));
    f.each_eight(width, [&](const Value& c, int eight) {
      f.store(f.load8(address(f, from, c), eight), f.at(row, "float", c), 4);
    });
  });
}

/// K rows of pairs, padded with zeros.
void pad_keys(Part& f) {
  const Kernel& k = f.kernel;
  each_row(f, "keys", 1, [&](const Value& from_at, const Value& key) {
    const Value from = f.load("ptr", from_at, 8);
    const Value row = f.at(f.in_scratch(k.key_wide), "i32", f.mul(key, Part::i64(k.d_words)));
    f.each_eight(k.d, [&](const Value& c, int eight) {
      f.store(f.load8_halves(address(f, from, c), eight), f.at(row, "i16", c), 4);
    });
  });
}

/// Two rows of halves column by column: half of the result's pairs, from lane `first` of the rows on.
Value interleave(Part& f, const Value& even, const Value& odd, int lanes, int first) {
  std::string order;
  for (int i = 0; i < lanes; ++i) {
    order += fmt::format("{}i32 {}", i == 0 ? "" : ", ", first + i / 2 + (i % 2) * lanes);
  }
  return f.emit(even.type, fmt::format("shufflevector {0} {1}, {0} {2}, <{3} x i32> <{4}>", even.type, even.name,
                                       odd.name, lanes, order));
}

/// V rows of two keys at a time, column by column.
void pair_values(Part& f) {
  const Kernel& k = f.kernel;
  constexpr int kWide = 32;
  const int wide = k.d_v / kWide * kWide;
  each_row(f, "values", 2, [&](const Value& from_at, const Value& key) {
    const Value even = f.load("ptr", from_at, 8), odd = f.load("ptr", f.at(from_at, "ptr", Part::i64(1)), 8);
    const Value pair = f.op("lshr", key, Part::i64(1));
    const Value row = f.at(f.in_scratch(k.value_wide), "i32", f.mul(pair, Part::i64(k.v_pad)));
    const auto put = [&](const Value& c, const Value& a, const Value& b, int lanes) {
      for (int half = 0; half < 2; ++half) {
        const Value at = f.at(row, "i32", f.add(c, Part::i64(half * lanes / 2)));
        f.store(interleave(f, a, b, lanes, half * lanes / 2), at, 4);
      }
    };
    if (wide > 0) {
      f.for_each(kZero, Part::i64(wide), kWide, [&](const Value& c) {
        put(c, f.load(kHalves32, address(f, even, c), 2), f.load(kHalves32, address(f, odd, c), 2), kWide);
      });
    }
    for (int c = wide; c < k.d_v; c += 8) {
      const Value at = Part::i64(c);
      const int count = std::min(8, k.d_v - c);
      put(at, f.load8_halves(address(f, even, at), count), f.load8_halves(address(f, odd, at), count), 8);
    }
  });
}

}  // namespace

std::string emit_copies(const Kernel& k) {
  if (!k.takes_copies()) return "";
  Part f(k, "copy_rows", "void", "ptr %keys, ptr %values, i64 %count");
  f.describe("rows of K and V of a block side by side, widened where they are not f32");
  if (!k.keys_in_place) k.pair == 2 ? pad_keys(f) : widen(f, "keys", k.key_wide, k.d, k.d_pad);
  if (!k.values_in_place) k.pair == 2 ? pair_values(f) : widen(f, "values", k.value_wide, k.d_v, k.v_pad);
  f.ret();
  return "; Rows of K and V that products cannot read in place, once a block\n" + f.finish();
}

}  // namespace weft::codegen::cpu
