/// What only Maxwell and Pascal have, or have with another meaning: flags carry between instructions, products are of
/// 16 bits.

#include "tests/machine/driver/lanewise.h"

namespace weft::machine {
namespace {

void keep(Mask& flag, Mask values, Mask mask) { flag = (flag & ~mask) | (values & mask); }

/// A result in 64 bits, and the flags it sets.
struct Sum {
  WideLanes values;

  void write(Warp& warp, const Place& to, Mask mask, bool extends) const {
    Lanes low;
    for (std::size_t l = 0; l < kLanes; ++l) low[l] = static_cast<Word>(values[l]);
    if (to.sets_flags) {
      const Mask zero = mask_of([&](std::size_t l) { return low[l] == 0; });
      keep(warp.carry, mask_of([&](std::size_t l) { return values[l] >> 32 != 0; }), mask);
      keep(warp.second_carry, mask_of([&](std::size_t l) { return values[l] >> 32 > 1; }), mask);
      // Zero is what all words of a longer number say together.
      keep(warp.zero, extends ? zero & warp.zero : zero, mask);
      keep(warp.sign, mask_of([&](std::size_t l) { return low[l] >> 31 != 0; }), mask);
    }
    to.write(warp, low, mask);
  }
};

/// X adds the carry; without it, what is negated brings the one of its complement, and PO one more.
Step add(const Reader& r) {
  if (r.has("SAT")) r.unknown();
  const Place to = r.result(0);
  const bool extends = r.has("X"), right = r.has("RS"), left = r.has("LS"), plus_one = r.has("PO");
  const bool of_three = r.name() == "IADD3";
  std::array<Source, 3> from{};
  std::array<bool, 3> negated{};
  for (std::size_t i = 0; i + 1 < std::min<std::size_t>(r.count(), 4); ++i) {
    from[i] = r.word(i + 1);
    negated[i] = std::exchange(from[i].negated, false);
    // IADD3 has numbers of 20 bits, which nvdisasm prints without their sign.
    constexpr Word kSign = 1 << 19;
    if (of_three && r.text(i + 1).starts_with("0x") && (from[i].value & kSign) != 0) from[i].value |= ~(kSign - 1);
  }
  return [=](Warp& warp, Mask mask) {
    std::array<Lanes, 3> x;
    for (std::size_t i = 0; i < x.size(); ++i) from[i].read(warp, x[i]);
    Sum sum{};
    for (std::size_t l = 0; l < kLanes; ++l) {
      Wide ones = plus_one ? 1U : 0U;
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (negated[i]) x[i][l] = ~x[i][l];
        ones += negated[i] && !extends ? 1U : 0U;
      }
      if (extends) ones += (warp.carry >> l & 1) + (of_three ? warp.second_carry >> l & 1 : 0);
      Wide first = Wide{x[0][l]} + x[1][l];
      if (right || left) first = static_cast<Word>(right ? (first + ones) >> 16 : (first + ones) << 16);
      sum.values[l] = first + x[2][l] + (right || left ? Wide{0} : ones);
    }
    sum.write(warp, to, mask, extends);
  };
}

/// (a << n) + b; LEA.HI adds the upper word of 64 bits that are shifted.
Step shift_add(const Reader& r) {
  const bool extends = r.has("X"), high = r.has("HI");
  // Of generic addresses a predicate says in which window they lie: all are global here.
  const std::size_t n = r.is_predicate(0) ? 1 : 0;
  const Place to = r.result(n);
  Source a = r.word(n + 1), b = r.word(n + 2);
  const Source above = high ? r.word(n + 3) : Source();
  const std::size_t count = n + (high ? 4 : 3);
  const Word shift = count < r.count() ? r.number(count) : 0;
  const bool a_negated = std::exchange(a.negated, false), b_negated = std::exchange(b.negated, false);
  if (high && b_negated) r.unknown();
  return [=](Warp& warp, Mask mask) {
    Lanes x, y, z;
    a.read(warp, x);
    b.read(warp, y);
    above.read(warp, z);
    Sum sum{};
    for (std::size_t l = 0; l < kLanes; ++l) {
      const Wide ones = extends ? warp.carry >> l & 1 : Wide{a_negated && !high} + Wide{b_negated};
      const Wide value = Wide{z[l]} << 32 | x[l];
      Word term = x[l] << shift;
      if (high) term = static_cast<Word>((a_negated ? 0 - value : value) >> (32 - shift));
      if (a_negated && !high) term = ~term;
      sum.values[l] = Wide{term} + (b_negated ? ~y[l] : y[l]) + ones;
    }
    sum.write(warp, to, mask, false);
  };
}

Word low_half(Word x, bool is_signed) {
  return is_signed ? static_cast<Word>(static_cast<std::int16_t>(x)) : x & 0xffff;
}

/// 16 bits times 16 bits plus 32, with what multiplying longer numbers in steps needs.
Step multiply_add(const Reader& r) {
  if (r.has("X")) r.unknown();
  const Place to = r.result(0);
  const auto from = sources_of<3>(r, 1, false);
  std::array<Source, 2> wholes{from[0], from[1]};
  for (Source& whole : wholes) {
    whole.shift = 0;
    whole.part = ~Word{0};
  }
  // Both types stand there, or neither.
  const std::string_view types = r.opcode();
  const auto first = types.find("16"), second = types.find("16", std::min(first, types.size() - 1) + 1);
  if (first != types.npos && second == types.npos) r.unknown();
  const bool a_signed = first != types.npos && types[first - 1] == 'S';
  const bool b_signed = second != types.npos && types[second - 1] == 'S';
  const bool shifts = r.has("PSL"), adds_b = r.has("CBCC"), low = r.has("CLO"), high = r.has("CHI"),
             merges = r.has("MRG"), corrects = r.has("CSFU");
  return [=](Warp& warp, Mask mask) {
    Lanes x, y, z, all_of_a, all_of_b;
    from[0].read(warp, x);
    from[1].read(warp, y);
    from[2].read(warp, z);
    wholes[0].read(warp, all_of_a);
    wholes[1].read(warp, all_of_b);
    Sum sum{};
    for (std::size_t l = 0; l < kLanes; ++l) {
      Word product = low_half(x[l], a_signed) * low_half(y[l], b_signed), c = z[l];
      // Upper halves, whose products with the other's lower one are added as if they had no sign.
      const auto makes_negative = [](Word half, bool is_signed, Word other) {
        return is_signed && (half & 0x8000) != 0 && (other & 0xffff) != 0;
      };
      if (corrects)
        c -= (Word{makes_negative(x[l], a_signed, all_of_b[l])} + Word{makes_negative(y[l], b_signed, all_of_a[l])})
             << 16;
      if (shifts) product <<= 16;
      if (adds_b) c += all_of_b[l] << 16;
      if (low) c &= 0xffff;
      if (high) c >>= 16;
      sum.values[l] = Wide{product} + c;
      if (merges) sum.values[l] = (sum.values[l] & ~Wide{0xffffffff}) | (sum.values[l] & 0xffff) | (all_of_b[l] << 16);
    }
    sum.write(warp, to, mask, false);
  };
}

/// A predicate may take whether the result is something, or nothing.
template <std::size_t N, typename F>
Step logic(const Reader& r, F f) {
  const bool something = r.has("NZ"), tests = something || r.has("Z"), extends = r.has("X");
  const std::size_t n = tests ? 1 : 0;
  const Predicate test = tests ? r.predicate(0) : Predicate();
  const Place to = r.result(n);
  const auto from = sources_of<N>(r, n + 1, false);
  return [=](Warp& warp, Mask mask) {
    std::array<Lanes, N> x;
    for (std::size_t i = 0; i < N; ++i) from[i].read(warp, x[i]);
    const Lanes out = apply_lanes(
        x, [&](std::size_t, auto... v) { return f(v...); }, std::make_index_sequence<N>());
    Mask nonzero = mask_of([&](std::size_t l) { return out[l] != 0; });
    if (extends) nonzero |= ~warp.zero;
    test.write(warp, something ? nonzero : ~nonzero, mask);
    if (to.sets_flags) {
      keep(warp.zero, ~nonzero, mask);
      keep(warp.sign, mask_of([&](std::size_t l) { return out[l] >> 31 != 0; }), mask);
    }
    to.write(warp, out, mask);
  };
}

Step of_two_words(const Reader& r) {
  const int kind = r.has("AND") ? 0 : r.has("OR") ? 1 : r.has("XOR") ? 2 : r.has("PASS_B") ? 3 : 4;
  if (kind == 4) r.unknown();
  return logic<2>(r, [=](Word a, Word b) { return kind == 0 ? a & b : kind == 1 ? a | b : kind == 2 ? a ^ b : b; });
}

Step of_three_words(const Reader& r) {
  const Word table = r.number(r.has_any({"NZ", "Z"}) ? 5 : 4);
  return logic<3>(r, [=](Word a, Word b, Word c) { return looked_up(table, a, b, c); });
}

Step shift(const Reader& r) {
  if (r.has("X") || r.result(0).sets_flags) r.unknown();
  const bool left = r.name() == "SHL", is_unsigned = r.has("U32"), wraps = r.has("W");
  return words<2>(r, [=](bool, Word x, Word count) {
    const Word n = wraps ? count & 31 : std::min(count, 32U);
    if (!left && !is_unsigned) return static_cast<Word>(static_cast<std::int32_t>(x) >> std::min(n, 31U));
    return n > 31 ? 0 : left ? x << n : x >> n;
  });
}

/// Of 64 bits: to the left the upper word comes out, to the right the lower one.
Step shift_two(const Reader& r) {
  if (r.has("HI")) r.unknown();
  const bool left = r.has("L"), wraps = r.has("W"), is_signed = r.has("S64"), wide = is_signed || r.has("U64");
  return words<3>(r, [=](bool, Word low, Word count, Word above) {
    const Wide value = Wide{above} << 32 | low;
    const Word n = wraps ? count & (wide ? 63 : 31) : std::min(count, wide ? 63U : 32U);
    if (left) return static_cast<Word>(value << n >> 32);
    return static_cast<Word>(is_signed ? static_cast<Wide>(static_cast<std::int64_t>(value) >> n) : value >> n);
  });
}

/// A field's first bit and its width, in two bytes.
Step extract(const Reader& r) {
  const bool is_unsigned = r.has("U32"), reverses = r.has("BREV");
  return words<2>(r, [=](bool, Word x, Word field) -> Word {
    const Word first = std::min(field & 255, 32U), width = std::min(field >> 8 & 255, 32U);
    if (width == 0) return 0;
    Wide value = reverses ? reversed(x) : x;
    // A signed field goes on with the number's sign beyond its end.
    if (!is_unsigned) value = static_cast<Wide>(std::int64_t{static_cast<std::int32_t>(value)});
    const Word unused = 64 - width;
    const Wide up = value >> first << unused;
    return static_cast<Word>(is_unsigned ? up >> unused : static_cast<Wide>(static_cast<std::int64_t>(up) >> unused));
  });
}

Step insert(const Reader& r) {
  return words<3>(r, [](bool, Word x, Word field, Word into) {
    const Word first = std::min(field & 255, 32U), width = std::min(field >> 8 & 255, 32U);
    const Wide mask = ((Wide{1} << width) - 1) << first;
    return static_cast<Word>((into & ~mask) | (Wide{x} << first & mask));
  });
}

/// XHI and XLO: the upper and the lower words of 64 bits, in this order.
Step least_or_most(const Reader& r) {
  if (r.has("XMED")) r.unknown();
  const Place to = r.result(0);
  const auto from = sources_of<2>(r, 1, false);
  const Predicate chosen = r.predicate(3);
  const bool is_unsigned = r.has("U32"), high = r.has("XHI"), low = r.has("XLO");
  return [=](Warp& warp, Mask mask) {
    Lanes a, b;
    from[0].read(warp, a);
    from[1].read(warp, b);
    const Mask least = chosen.read(warp);
    const auto value = [&](Word w) { return is_unsigned ? std::int64_t{w} : static_cast<std::int32_t>(w); };
    const Mask equal = mask_of([&](std::size_t l) { return a[l] == b[l]; });
    const Mask less = mask_of([&](std::size_t l) { return value(a[l]) < value(b[l]); });
    // Equal upper words leave the choice to the lower ones.
    const Mask first_is_less = low ? (warp.zero & less) | (~warp.zero & warp.sign) : less;
    const Mask same = low ? warp.zero & equal : equal;
    const Mask first = (least & first_is_less) | (~least & ~first_is_less & ~same);
    for (std::size_t l = 0; l < kLanes; ++l) a[l] = holds(first, static_cast<int>(l)) ? a[l] : b[l];
    if (high || to.sets_flags) {
      keep(warp.zero, equal, mask);
      keep(warp.sign, less, mask);
    }
    to.write(warp, a, mask);
  };
}

/// X: the upper words of longer numbers; the flags say how the lower ones compare.
Step compare(const Reader& r) {
  const bool number = r.name() == "ISET", upper = r.has("X"), is_unsigned = r.has("U32");
  const std::size_t first = number ? 1 : 2;
  const auto from = sources_of<2>(r, first, false);
  const auto comparison = Comparison::read(r);
  return compared(r, number, r.predicate(first + 2, {}), [=](const Warp& warp) {
    Lanes a, b;
    from[0].read(warp, a);
    from[1].read(warp, b);
    return mask_of([&](std::size_t l) {
      const auto value = [&](Word w) { return is_unsigned ? std::int64_t{w} : static_cast<std::int32_t>(w); };
      if (!upper) return comparison(value(a[l]), value(b[l]));
      // What is left of a - b after the lower words have borrowed: none of it may be lost to say that both are equal.
      const bool zero = (warp.zero >> l & 1) != 0, borrows = (warp.carry >> l & 1) == 0;
      const auto rest = value(a[l]) - value(b[l]) - (borrows ? 1 : 0);
      return comparison(rest == 0 && !zero ? std::int64_t{1} : rest, std::int64_t{0});
    });
  });
}

/// a or b, as the third compares with zero.
Step choose_by_sign(const Reader& r) {
  const auto comparison = Comparison::read(r);
  const bool is_unsigned = r.has("U32");
  return words<3>(r, [=](bool, Word a, Word b, Word c) {
    return comparison(is_unsigned ? std::int64_t{c} : static_cast<std::int32_t>(c), std::int64_t{0}) ? a : b;
  });
}

/// Two predicates joined, and a third.
Step of_predicates(const Reader& r) {
  const bool number = r.name() == "PSET";
  const std::size_t first = number ? 1 : 2;
  const Predicate a = r.predicate(first), b = r.predicate(first + 1), c = r.predicate(first + 2);
  const auto inner = Junction::read(r), outer = Junction::read(r, 1);
  const Place to = number ? r.result(0) : Place();
  if (number) {
    const Word yes = r.has("BF") ? std::bit_cast<Word>(1.0F) : ~Word{0};
    return [=](Warp& warp, Mask mask) {
      const Mask t = outer(inner(a.read(warp), b.read(warp)), c.read(warp));
      Lanes out;
      for (std::size_t l = 0; l < kLanes; ++l) out[l] = holds(t, static_cast<int>(l)) ? yes : 0;
      if (to.sets_flags) keep(warp.zero, ~t, mask);
      to.write(warp, out, mask);
    };
  }
  const Predicate yes = r.predicate(0), no = r.predicate(1);
  return [=](Warp& warp, Mask mask) {
    const Mask t = inner(a.read(warp), b.read(warp)), p = c.read(warp);
    yes.write(warp, outer(t, p), mask);
    no.write(warp, outer(~t, p), mask);
  };
}

Step of_flags(const Reader& r) {
  const Predicate to = r.predicate(0), further = r.predicate(3);
  const bool sign = r.has("SFT"), zero = r.has_any({"EQ", "EQU"}), nonzero = r.has_any({"NE", "NEU"});
  if (!sign && !zero && !nonzero) r.unknown();
  const auto junction = Junction::read(r);
  return [=](Warp& warp, Mask mask) {
    to.write(warp, junction(sign ? warp.sign : zero ? warp.zero : ~warp.zero, further.read(warp)), mask);
  };
}

/// The least or, with MX, the most of two, and that with a third.
Step of_three(const Reader& r) {
  const bool most_first = r.has("MX"), least = r.has("MIN");
  if (least == r.has("MAX")) r.unknown();
  return words<3>(r, [=](bool, Word a, Word b, Word c) {
    const auto choose = [](bool most, Word x, Word y) {
      const bool is_less = static_cast<std::int32_t>(x) < static_cast<std::int32_t>(y);
      return is_less == most ? y : x;
    };
    return choose(!least, choose(most_first, a, b), c);
  });
}

}  // namespace

Rows narrow_rows() {
  return {{"IADD", add},
          {"IADD32I", add},
          {"IADD3", add},
          {"ISCADD", shift_add},
          {"ISCADD32I", shift_add},
          {"LEA", shift_add},
          {"XMAD", multiply_add},
          {"LOP", of_two_words},
          {"LOP32I", of_two_words},
          {"LOP3", of_three_words},
          {"SHL", shift},
          {"SHR", shift},
          {"SHF", shift_two},
          {"BFE", extract},
          {"BFI", insert},
          {"IMNMX", least_or_most},
          {"ISETP", compare},
          {"ISET", compare},
          {"ICMP", choose_by_sign},
          {"PSETP", of_predicates},
          {"PSET", of_predicates},
          {"CSETP", of_flags},
          {"VMNMX", of_three}};
}

}  // namespace weft::machine
