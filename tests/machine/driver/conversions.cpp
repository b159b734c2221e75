/// From one type to another.

#include "tests/machine/driver/halves.h"
#include "tests/machine/driver/lanewise.h"

#include <cfenv>
#include <cmath>
#include <limits>

namespace weft::machine {
namespace {

using Round = double (*)(double);

/// To an integer: the nearest one, ties to even, where no modifier says another.
Round round_of(const Reader& r) {
  const auto is = [&](Round f) { return f; };
  if (r.has("TRUNC")) return is(std::trunc);
  if (r.has("FLOOR")) return is(std::floor);
  if (r.has("CEIL")) return is(std::ceil);
  return is(std::nearbyint);
}

/// The modifiers of a conversion name the type it makes, then the one it takes.
struct Types {
  std::string_view to, from;
};
Types types_of(const Reader& r) {
  const std::string_view all = r.opcode();
  const auto first = all.find('.'), second = all.find('.', std::min(first, all.size() - 1) + 1);
  if (first == all.npos || second == all.npos) r.unknown();
  return {all.substr(first + 1, second - first - 1), all.substr(second + 1, all.find('.', second + 1) - second - 1)};
}

/// A half as f32: the operand's signs are those of a number.
Step half_to_real(const Reader& r, std::size_t n) {
  const Source from = r.word(n);
  Source bits = from.plain();
  if (bits.part == ~Word{0}) bits.part = 0xffff;
  return step_of<1>(r.result(0), {bits}, {}, [=](bool, Word x) {
    float value = from_half(x);
    if (from.absolute) value = std::fabs(value);
    return std::bit_cast<Word>(from.negated ? -value : value);
  });
}

using Doubles = std::array<double, kLanes>;

Doubles read_reals(const Warp& warp, const Source& from, bool wide) {
  Lanes words;
  WideLanes bits;
  wide ? from.read(warp, bits) : from.read(warp, words);
  Doubles out;
  for (std::size_t l = 0; l < kLanes; ++l)
    out[l] = wide ? std::bit_cast<double>(bits[l]) : static_cast<double>(std::bit_cast<float>(words[l]));
  return out;
}

Step real_to_real(const Reader& r) {
  const auto [to, from] = types_of(r);
  if (to == "F32" && from == "F16") return half_to_real(r, 1);
  if (to == "F16" && from == "F32") {
    return step_of<1>(r.result(0), {r.real(1)}, {}, [](bool, Word x) { return to_half(std::bit_cast<float>(x)); });
  }
  if (to == "F32" && from == "F32") {
    const bool rounds = r.has_any({"TRUNC", "FLOOR", "CEIL", "ROUND"});
    return reals<1>(r, [=, round = round_of(r)](bool, float x) {
      return rounds ? static_cast<float>(round(static_cast<double>(x))) : x;
    });
  }
  if (to == "F64" && from == "F32") {
    return [source = r.real(1), result = r.result(0)](Warp& warp, Mask mask) {
      WideLanes out;
      const Doubles x = read_reals(warp, source, false);
      for (std::size_t l = 0; l < kLanes; ++l) out[l] = std::bit_cast<Wide>(x[l]);
      result.write(warp, out, mask);
    };
  }
  if (to != "F32" || from != "F64") r.unknown();
  return rounded(r, [source = r.wide_real(1), result = r.result(0)](Warp& warp, Mask mask) {
    Lanes out;
    const Doubles x = read_reals(warp, source, true);
    for (std::size_t l = 0; l < kLanes; ++l) out[l] = std::bit_cast<Word>(static_cast<float>(x[l]));
    result.write(warp, out, mask);
  });
}

Step round_real(const Reader& r) {
  if (r.has_any({"F64", "F16"})) r.unknown();
  return reals<1>(r,
                  [round = round_of(r)](bool, float x) { return static_cast<float>(round(static_cast<double>(x))); });
}

/// The nearest number of the type, which a value beyond its ends is not. `nan`: what is none becomes.
template <typename T>
Wide clamped(double x, T nan) {
  if (std::isnan(x)) return static_cast<Wide>(nan);
  // The greatest number of a wide type is none of f64: what is not below the power of two above it is beyond the end.
  if (x >= std::ldexp(1.0, std::numeric_limits<T>::digits)) return static_cast<Wide>(std::numeric_limits<T>::max());
  if (x <= static_cast<double>(std::numeric_limits<T>::min())) return static_cast<Wide>(std::numeric_limits<T>::min());
  return static_cast<Wide>(static_cast<T>(x));
}

Step real_to_integer(const Reader& r) {
  if (r.has("F16")) r.unknown();
  const bool wide = r.has_any({"S64", "U64"}), is_unsigned = r.has_any({"U32", "U64"}), takes_wide = r.has("F64");
  const Source from = takes_wide ? r.wide_real(1) : r.real(1);
  const Place to = r.result(0);
  const Round round = round_of(r);
  return [=](Warp& warp, Mask mask) {
    const Doubles x = read_reals(warp, from, takes_wide);
    Lanes narrow;
    WideLanes out;
    for (std::size_t l = 0; l < kLanes; ++l) {
      const double value = round(x[l]);
      constexpr auto kNanOfWide = std::numeric_limits<std::int64_t>::min();
      out[l] = wide          ? is_unsigned ? clamped<Wide>(value, static_cast<Wide>(kNanOfWide))
                                           : clamped<std::int64_t>(value, kNanOfWide)
                        : is_unsigned ? clamped<Word>(value, 0)
                             : clamped<std::int32_t>(value, 0);
      narrow[l] = static_cast<Word>(out[l]);
    }
    if (wide) {
      to.write(warp, out, mask);
    } else {
      to.write(warp, narrow, mask);
    }
  };
}

/// The low bits of x as a signed or unsigned number.
std::int64_t extended(Word x, int bits, bool is_signed) {
  const int unused = 32 - bits;
  return is_signed ? static_cast<std::int32_t>(x << unused) >> unused : std::int64_t{x << unused >> unused};
}

int bits_of(std::string_view type) { return type.ends_with("8") ? 8 : type.ends_with("16") ? 16 : 32; }

Step integer_to_real(const Reader& r) {
  if (r.has("F16")) r.unknown();
  const bool wide = r.has_any({"S64", "U64"}), is_unsigned = r.has_any({"U32", "U64", "U8", "U16"});
  const int bits = r.has_any({"U8", "S8"}) ? 8 : r.has_any({"U16", "S16"}) ? 16 : 32;
  const Source from = r.word(1);
  const Place to = r.result(0);
  const bool makes_wide = r.has("F64");
  return rounded(r, [=](Warp& warp, Mask mask) {
    WideLanes x;
    if (wide) {
      from.read(warp, x);
    } else {
      Lanes words;
      const Source bare = from.plain();
      bare.read(warp, words);
      for (std::size_t l = 0; l < kLanes; ++l) {
        auto value = extended(words[l], bits, !is_unsigned);
        if (from.absolute) value = value < 0 ? -value : value;
        x[l] = static_cast<Wide>(from.negated ? -value : value);
      }
    }
    Lanes narrow;
    WideLanes out;
    for (std::size_t l = 0; l < kLanes; ++l) {
      const auto to_real = [&]<typename T>(T) {
        return wide && is_unsigned ? static_cast<T>(x[l]) : static_cast<T>(static_cast<std::int64_t>(x[l]));
      };
      out[l] = std::bit_cast<Wide>(to_real(double{}));
      narrow[l] = std::bit_cast<Word>(to_real(float{}));
    }
    makes_wide ? to.write(warp, out, mask) : to.write(warp, narrow, mask);
  });
}

Step integer_to_integer(const Reader& r) {
  if (r.has("SAT")) r.unknown();
  const Source from = r.word(1);
  const Place to = r.result(0);
  const auto type = types_of(r).from;
  const int bits = bits_of(type);
  const bool is_signed = type.starts_with('S');
  return [=](Warp& warp, Mask mask) {
    Lanes x;
    Source bare = from.plain();
    bare.part = ~Word{0};
    bare.read(warp, x);
    for (Word& value : x) {
      auto wide = extended(value >> from.shift, bits, is_signed);
      if (from.absolute) wide = wide < 0 ? -wide : wide;
      value = static_cast<Word>(from.negated ? -wide : wide);
    }
    if (to.sets_flags) {
      warp.zero = (warp.zero & ~mask) | (mask_of([&](std::size_t l) { return x[l] == 0; }) & mask);
      warp.sign = (warp.sign & ~mask) | (mask_of([&](std::size_t l) { return x[l] >> 31 != 0; }) & mask);
    }
    to.write(warp, x, mask);
  };
}

/// Two of f32 side by side, the first one above.
Step pack(const Reader& r) {
  const auto convert = r.has("BF16") ? to_bfloat : to_half;
  return step_of<2>(r.result(0), sources_of<2>(r, 1, true), {}, [=](bool, Word a, Word b) {
    return convert(std::bit_cast<float>(a)) << 16 | convert(std::bit_cast<float>(b));
  });
}

/// Only as compilers use it to convert: nothing plus a half.
Step add_halves(const Reader& r) {
  if (!r.has("F32")) r.unknown();
  if (r.text(1) == "-RZ") return half_to_real(r, 2);
  if (r.text(2).starts_with("-RZ")) return half_to_real(r, 1);
  r.unknown();
}

/// Only as compilers use it to load a constant: nothing times nothing plus two halves.
Step load_halves(const Reader& r) {
  if (r.count() != 5 || r.text(1) != "-RZ" || r.text(2) != "RZ") r.unknown();
  const auto half = [&](std::size_t n) { return to_half(std::bit_cast<float>(r.real(n).value)); };
  const Word value = half(3) << 16 | half(4);
  return step_of<1>(r.result(0), {Source{.from = Source::From::number, .value = value}}, {},
                    [](bool, Word x) { return x; });
}

}  // namespace

float from_half(Word bits) {
  const Word sign = (bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 1023;
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13 | (fraction != 0 ? 0x400000U : 0U));
  const float least = static_cast<float>(fraction) * 0x1p-24F;
  const Word normal = (exponent + 112) << 23 | fraction << 13;
  return std::bit_cast<float>(sign | (exponent == 0 ? std::bit_cast<Word>(least) : normal));
}

Word to_half(float value) {
  constexpr Word kNan = 0x7fff;
  return std::isnan(value) ? kNan : std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
}

Word to_bfloat(float value) {
  constexpr Word kNan = 0x7fff;
  const Word bits = std::bit_cast<Word>(value);
  return std::isnan(value) ? kNan : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

Rows conversion_rows() {
  return {{"F2F", real_to_real},    {"FRND", round_real},      {"F2I", real_to_integer},
          {"I2F", integer_to_real}, {"I2FP", integer_to_real}, {"I2I", integer_to_integer},
          {"F2FP", pack},           {"HADD2", add_halves},     {"HFMA2", load_halves}};
}

}  // namespace weft::machine
