#pragma once

#include "tests/machine/driver/reader.h"

#include <algorithm>
#include <bit>

/// Instructions that do to each lane what they do to every other: `words` and `reals` say what.
namespace weft::machine {

inline std::size_t at(int lane) { return static_cast<std::size_t>(lane); }

/// A predicate of each lane as a mask.
template <typename Holds>
Mask mask_of(Holds holds) {
  Mask out = 0;
  for (std::size_t l = 0; l < kLanes; ++l) out |= Word{holds(l)} << l;
  return out;
}

template <typename F, std::size_t... I>
Lanes apply_lanes(const std::array<Lanes, sizeof...(I)>& x, F f, std::index_sequence<I...>) {
  Lanes out;
  for (std::size_t l = 0; l < kLanes; ++l) out[l] = f(l, x[I][l]...);
  return out;
}

template <std::size_t N, typename F>
Step step_of(Place to, std::array<Source, N> from, Predicate chosen, F f) {
  return [=](Warp& warp, Mask mask) {
    std::array<Lanes, N> x;
    for (std::size_t i = 0; i < N; ++i) from[i].read(warp, x[i]);
    const Mask p = chosen.read(warp);
    const auto of_lane = [&](std::size_t l, auto... values) { return f(holds(p, static_cast<int>(l)), values...); };
    to.write(warp, apply_lanes(x, of_lane, std::make_index_sequence<N>()), mask);
  };
}

template <std::size_t N>
std::array<Source, N> sources_of(const Reader& r, std::size_t first, bool real) {
  std::array<Source, N> out;
  for (std::size_t i = 0; i < N; ++i) out[i] = real ? r.real(first + i) : r.word(first + i);
  return out;
}

/// result = f(p, a, b, …), where p is the predicate behind the operands, if one is there.
template <std::size_t N, typename F>
Step words(const Reader& r, F f) {
  return step_of<N>(r.result(0), sources_of<N>(r, 1, false), r.predicate(N + 1, {}), f);
}

/// The same of f32.
template <std::size_t N, typename F>
Step reals(const Reader& r, F f) {
  const auto of_words = [f](bool p, auto... x) { return std::bit_cast<Word>(f(p, std::bit_cast<float>(x)...)); };
  return step_of<N>(r.result(0), sources_of<N>(r, 1, true), r.predicate(N + 1, {}), of_words);
}

/// Which outcomes of a comparison make it true: a bit each for less, equal, greater, and not comparable.
class Comparison {
 public:
  static Comparison read(const Reader& r);

  template <typename T>
  bool operator()(T a, T b) const {
    return (accepted_ >> (a < b ? 0 : a == b ? 1 : a > b ? 2 : 3) & 1) != 0;
  }
  /// Of wide numbers, by their upper words, when the lower ones have been compared.
  template <typename T>
  bool with_lower(T a, T b, bool lower) const {
    return a == b ? lower : (*this)(a, b);
  }

 private:
  unsigned accepted_ = 0;
};

/// How a comparison's outcome is joined with a further predicate. `nth`: of several such modifiers.
class Junction {
 public:
  static Junction read(const Reader& r, int nth = 0);
  Mask operator()(Mask a, Mask b) const { return kind_ == 0 ? a & b : kind_ == 1 ? a | b : a ^ b; }

 private:
  int kind_ = 0;
};

/// What a comparison does with its outcome: two predicates or, where `number` says so, a register.
Step compared(const Reader& r, bool number, Predicate further, std::function<Mask(const Warp&)> outcome);

/// Any function of three bits, by its table.
Word looked_up(Word table, Word a, Word b, Word c);
/// From the other end.
Word reversed(Word x);

/// As <cfenv> names it.
int rounding_of(const Reader& r);
/// The step under the rounding that the instruction's modifiers ask for.
Step rounded(const Reader& r, Step step);

/// The rows of each file, which meaning_of joins to one table.
using Rows = std::vector<Row>;
Rows real_rows();
Rows double_rows();
Rows conversion_rows();
Rows integer_rows();
Rows logic_rows();
Rows move_rows();
Rows warp_rows();
Rows matrix_rows();
Rows access_rows();
Rows narrow_rows();  ///< of Maxwell and Pascal alone: these go before the others

}  // namespace weft::machine
