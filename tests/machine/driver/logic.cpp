/// Bits.

#include "tests/machine/driver/lanewise.h"

namespace weft::machine {
namespace {

Step of_three_words(const Reader& r) {
  const std::size_t n = r.is_predicate(0) ? 1 : 0;
  const Predicate nonzero = r.predicate(0, {}), further = r.predicate(n + 5, kNever);
  const Place to = r.result(n);
  const auto from = sources_of<3>(r, n + 1, false);
  const Word table = r.number(n + 4);
  const bool both = r.has("PAND");
  return [=](Warp& warp, Mask mask) {
    Lanes a, b, c;
    from[0].read(warp, a);
    from[1].read(warp, b);
    from[2].read(warp, c);
    for (std::size_t l = 0; l < kLanes; ++l) a[l] = looked_up(table, a[l], b[l], c[l]);
    const Mask some = mask_of([&](std::size_t l) { return a[l] != 0; }), p = further.read(warp);
    nonzero.write(warp, both ? some & p : some | p, mask);
    to.write(warp, a, mask);
  };
}

Step of_three_predicates(const Reader& r) {
  const Predicate first = r.predicate(0), second = r.predicate(1);
  const Predicate a = r.predicate(2), b = r.predicate(3), c = r.predicate(4);
  const Word table = r.number(5), other_table = r.number(6);
  return [=](Warp& warp, Mask mask) {
    const Mask x = a.read(warp), y = b.read(warp), z = c.read(warp);
    first.write(warp, looked_up(table, x, y, z), mask);
    second.write(warp, looked_up(other_table, x, y, z), mask);
  };
}

/// Of two words as one of 64 bits; the lower or, with HI, the upper one comes out.
Step shift(const Reader& r) {
  const bool left = r.has("L"), wraps = r.has("W"), high = r.has("HI"), is_signed = r.has_any({"S32", "S64"});
  const Word bits = r.has_any({"U64", "S64"}) ? 64 : 32;
  return words<3>(r, [=](bool, Word low, Word count, Word above) {
    const Wide value = Wide{above} << 32 | low;
    const Word n = wraps ? count & (bits - 1) : std::min(count, bits);
    const Wide shifted = left        ? n > 63 ? 0 : value << n
                         : is_signed ? static_cast<Wide>(static_cast<std::int64_t>(value) >> std::min(n, 63U))
                         : n > 63    ? 0
                                     : value >> n;
    return static_cast<Word>(high ? shifted >> 32 : shifted);
  });
}

/// Four bytes of eight, each by four bits that name it, the upper one for its sign alone.
Step permute(const Reader& r) {
  if (r.opcode() != r.name()) r.unknown();
  return words<3>(r, [](bool, Word a, Word names, Word b) {
    const Wide bytes = Wide{b} << 32 | a;
    Word out = 0;
    for (unsigned n = 0; n < 4; ++n) {
      const Word name = names >> 4 * n & 15;
      const Word byte = static_cast<Word>(bytes >> 8 * (name & 7)) & 255;
      out |= ((name & 8) == 0 ? byte : (byte & 128) != 0 ? 255 : 0) << 8 * n;
    }
    return out;
  });
}

Step count_ones(const Reader& r) {
  return words<1>(r, [](bool, Word x) { return static_cast<Word>(std::popcount(x)); });
}
/// SH: how far it is from the top.
Step find_leading_one(const Reader& r) {
  if (!r.has("U32")) r.unknown();
  const bool from_top = r.has("SH");
  return words<1>(r, [=](bool, Word x) {
    const auto zeros = static_cast<Word>(std::countl_zero(x));
    return x == 0 ? ~Word{0} : from_top ? zeros : 31 - zeros;
  });
}
Step reverse(const Reader& r) {
  return words<1>(r, [](bool, Word x) { return reversed(x); });
}

}  // namespace

Word looked_up(Word table, Word a, Word b, Word c) {
  Word out = 0;
  for (unsigned n = 0; n < 8; ++n) {
    if ((table >> n & 1) != 0) out |= ((n & 4) != 0 ? a : ~a) & ((n & 2) != 0 ? b : ~b) & ((n & 1) != 0 ? c : ~c);
  }
  return out;
}

Word reversed(Word x) {
  Word out = 0;
  for (unsigned n = 0; n < 32; ++n) out |= (x >> n & 1) << (31 - n);
  return out;
}

Rows logic_rows() {
  return {{"LOP3", of_three_words}, {"PLOP3", of_three_predicates}, {"SHF", shift},   {"PRMT", permute},
          {"POPC", count_ones},     {"FLO", find_leading_one},      {"BREV", reverse}};
}

}  // namespace weft::machine
