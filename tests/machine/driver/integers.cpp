/// Arithmetic of integers, as from Volta on: carries are predicates.

#include "tests/machine/driver/lanewise.h"

namespace weft::machine {
namespace {

/// A term of a sum. With a carry coming in, the one that negating would add is that carry.
Wide term(Word value, bool negated, bool carries) { return negated ? Wide{~value} + (carries ? 0 : 1) : value; }

struct Negatable {
  Source source;
  bool negated;
  explicit Negatable(Source of) : source(of), negated(of.negated) { source.negated = false; }
  Negatable() : negated(false) {}
};

/// The predicates before the terms take carries, those behind them bring some.
Step add(const Reader& r) {
  const bool carries = r.has("X");
  const Place to = r.result(0);
  std::size_t n = 1;
  std::vector<Predicate> out, in;
  while (r.is_predicate(n)) out.push_back(r.predicate(n++));
  std::vector<Negatable> terms;
  while (n < r.count() && !r.is_predicate(n)) terms.emplace_back(r.word(n++));
  while (carries && n < r.count()) in.push_back(r.predicate(n++));
  if (terms.size() > 3) r.unknown();
  return [=](Warp& warp, Mask mask) {
    WideLanes sum{};
    Lanes x;
    for (const Negatable& t : terms) {
      t.source.read(warp, x);
      for (std::size_t l = 0; l < kLanes; ++l) sum[l] += term(x[l], t.negated, carries);
    }
    for (const Predicate& p : in) {
      const Mask carry = p.read(warp);
      for (std::size_t l = 0; l < kLanes; ++l) sum[l] += carry >> l & 1;
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i].write(warp, mask_of([&](std::size_t l) { return sum[l] >> 32 > i; }), mask);
    }
    for (std::size_t l = 0; l < kLanes; ++l) x[l] = static_cast<Word>(sum[l]);
    to.write(warp, x, mask);
  };
}

Step multiply_add(const Reader& r) {
  const bool wide = r.has("WIDE"), high = r.has("HI"), is_unsigned = r.has("U32"), carries = r.has("X");
  const Place to = r.result(0);
  std::size_t n = 1;
  const Predicate carry_out = r.predicate(n, {});
  if (r.is_predicate(n)) ++n;
  const Source a = r.word(n), b = r.word(n + 1), c = r.word(n + 2);
  const Predicate carry_in = carries ? r.predicate(n + 3, kNever) : kNever;
  if (!wide && !high) {
    return [=](Warp& warp, Mask mask) {
      Lanes x, y, z;
      a.read(warp, x);
      b.read(warp, y);
      c.read(warp, z);
      const Mask carry = carry_in.read(warp);
      Mask overflows = 0;
      for (std::size_t l = 0; l < kLanes; ++l) {
        const Wide sum = Wide{x[l] * y[l]} + z[l] + (carry >> l & 1);
        overflows |= Word{sum >> 32 != 0} << l;
        x[l] = static_cast<Word>(sum);
      }
      carry_out.write(warp, overflows, mask);
      to.write(warp, x, mask);
    };
  }
  return [=](Warp& warp, Mask mask) {
    Lanes x, y;
    WideLanes z;
    a.read(warp, x);
    b.read(warp, y);
    c.read(warp, z);
    const Mask carry = carry_in.read(warp);
    Mask overflows = 0;
    for (std::size_t l = 0; l < kLanes; ++l) {
      const auto with_sign = [](Word w) { return std::int64_t{static_cast<std::int32_t>(w)}; };
      const Wide product = is_unsigned ? Wide{x[l]} * y[l] : static_cast<Wide>(with_sign(x[l]) * with_sign(y[l]));
      const auto sum = static_cast<unsigned __int128>(product) + z[l] + (carry >> l & 1);
      overflows |= Word{sum >> 64 != 0} << l;
      z[l] = static_cast<Wide>(sum);
      x[l] = static_cast<Word>(z[l] >> 32);
    }
    carry_out.write(warp, overflows, mask);
    if (high) {
      to.write(warp, x, mask);
    } else {
      to.write(warp, z, mask);
    }
  };
}

/// (a << n) + b, or the upper word of a shifted wider number; SX32: which extends the sign.
Step shift_add(const Reader& r) {
  const bool carries = r.has("X"), high = r.has("HI"), extends = r.has("SX32");
  const Place to = r.result(0);
  std::size_t n = 1;
  const Predicate carry_out = r.predicate(n, {});
  if (r.is_predicate(n)) ++n;
  const Negatable a(r.word(n)), b(r.word(n + 1));
  n += 2;
  const bool has_above = high && !extends;
  const Source above = has_above ? r.word(n++) : Source();
  const Word shift = n < r.count() && !r.is_predicate(n) ? r.number(n++) : 0;
  const Predicate carry_in = carries ? r.predicate(n, kNever) : kNever;
  return [=](Warp& warp, Mask mask) {
    Lanes x, y, z;
    a.source.read(warp, x);
    b.source.read(warp, y);
    above.read(warp, z);
    const Mask carry = carry_in.read(warp);
    Mask overflows = 0;
    for (std::size_t l = 0; l < kLanes; ++l) {
      Wide value = extends ? static_cast<Wide>(std::int64_t{static_cast<std::int32_t>(x[l])}) : Wide{z[l]} << 32 | x[l];
      value = (a.negated ? 0 - value : value) << shift;
      const Wide sum =
          (high ? value >> 32 : Wide{static_cast<Word>(value)}) + term(y[l], b.negated, carries) + (carry >> l & 1);
      overflows |= Word{sum >> 32 != 0} << l;
      x[l] = static_cast<Word>(sum);
    }
    carry_out.write(warp, overflows, mask);
    to.write(warp, x, mask);
  };
}

/// EX: the upper words of wider numbers, after the lower ones have been compared, of which nothing is said where they
/// always hold.
Step compare(const Reader& r) {
  const auto from = sources_of<2>(r, 2, false);
  const auto comparison = Comparison::read(r);
  const bool is_unsigned = r.has("U32"), upper = r.has("EX");
  const Predicate lower = upper ? r.predicate(5, {}) : Predicate();
  if (r.has_any({"S64", "U64", "64"})) {
    const bool wide_signed = r.has("S64");
    return compared(r, false, r.predicate(4, {}), [=](const Warp& warp) {
      WideLanes a, b;
      from[0].read(warp, a);
      from[1].read(warp, b);
      return mask_of([&](std::size_t l) {
        return wide_signed ? comparison(static_cast<std::int64_t>(a[l]), static_cast<std::int64_t>(b[l]))
                           : comparison(a[l], b[l]);
      });
    });
  }
  return compared(r, false, r.predicate(4, {}), [=](const Warp& warp) {
    Lanes a, b;
    from[0].read(warp, a);
    from[1].read(warp, b);
    const Mask below = lower.read(warp);
    return mask_of([&](std::size_t l) {
      const auto value = [&](Word w) { return is_unsigned ? std::int64_t{w} : static_cast<std::int32_t>(w); };
      if (!upper) return comparison(value(a[l]), value(b[l]));
      return comparison.with_lower(value(a[l]), value(b[l]), (below >> l & 1) != 0);
    });
  });
}

/// Which of a and b is less, as 64-bit or 32-bit numbers.
template <typename F>
Step of_two(const Reader& r, F f) {
  if (!r.has_any({"S64", "U64", "64"})) return words<2>(r, [f](bool p, Word a, Word b) { return f(p, a, b); });
  std::size_t n = 0;
  while (r.is_predicate(n)) ++n;
  const Place to = r.result(n);
  const auto from = sources_of<2>(r, n + 1, false);
  const Predicate chosen = r.predicate(n + 3, {});
  return [=](Warp& warp, Mask mask) {
    WideLanes a, b;
    from[0].read(warp, a);
    from[1].read(warp, b);
    const Mask p = chosen.read(warp);
    for (std::size_t l = 0; l < kLanes; ++l) a[l] = f(holds(p, static_cast<int>(l)), a[l], b[l]);
    to.write(warp, a, mask);
  };
}

template <typename T>
bool is_less(T a, T b, bool is_unsigned) {
  return is_unsigned ? a < b : static_cast<std::make_signed_t<T>>(a) < static_cast<std::make_signed_t<T>>(b);
}

Step add_wide(const Reader& r) {
  if (!r.has_any({"S64", "U64", "64"})) return add(r);
  return of_two(r, [](bool, auto a, auto b) { return a + b; });
}
Step select(const Reader& r) {
  return of_two(r, [](bool first, auto a, auto b) { return first ? a : b; });
}
Step least_or_most(const Reader& r) {
  const bool is_unsigned = r.has_any({"U32", "U64"});
  return of_two(r, [=](bool least, auto a, auto b) { return is_less(a, b, is_unsigned) == least ? a : b; });
}
Step least_or_most_of_three(const Reader& r) {
  const bool is_unsigned = r.has("U32");
  return words<3>(r, [=](bool least, Word a, Word b, Word c) {
    const Word ab = is_less(a, b, is_unsigned) == least ? a : b;
    return is_less(ab, c, is_unsigned) == least ? ab : c;
  });
}
/// Of a sum and a third.
Step add_least_or_most(const Reader& r) {
  if (r.has("RELU")) r.unknown();
  const bool is_unsigned = r.has("U32");
  return words<3>(
      r, [=](bool least, Word a, Word b, Word c) { return is_less(a + b, c, is_unsigned) == least ? a + b : c; });
}
Step magnitude(const Reader& r) {
  return words<1>(r, [](bool, Word x) { return static_cast<std::int32_t>(x) < 0 ? 0 - x : x; });
}

}  // namespace

Rows integer_rows() {
  return {{"IADD3", add},
          {"VIADD", add},
          {"IADD", add_wide},
          {"IMAD", multiply_add},
          {"LEA", shift_add},
          {"ISETP", compare},
          {"SEL", select},
          {"IMNMX", least_or_most},
          {"VIMNMX", least_or_most},
          {"VIMNMX3", least_or_most_of_three},
          {"VIADDMNMX", add_least_or_most},
          {"IABS", magnitude}};
}

}  // namespace weft::machine
