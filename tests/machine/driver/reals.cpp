/// Arithmetic of f32. Results below the normal numbers are kept, but where the hardware drops them: MUFU.

#include "tests/machine/driver/lanewise.h"

#include <cfenv>
#include <cmath>

namespace weft::machine {
namespace {

constexpr float kLeastNormal = 0x1p-126F;

/// SAT keeps the result between 0 and 1, and makes 0 of what is no number.
template <std::size_t N, typename F>
Step arithmetic(const Reader& r, F f) {
  if (!r.has("SAT")) return rounded(r, reals<N>(r, [=](bool, auto... x) { return f(x...); }));
  return rounded(r, reals<N>(r, [=](bool, auto... x) { return std::fmin(std::fmax(f(x...), 0.0F), 1.0F); }));
}

Step multiply_add(const Reader& r) {
  return arithmetic<3>(r, [](float a, float b, float c) { return std::fma(a, b, c); });
}
Step multiply(const Reader& r) {
  return arithmetic<2>(r, [](float a, float b) { return a * b; });
}
Step add(const Reader& r) {
  if (r.result(0).sets_flags) r.unknown();
  return arithmetic<2>(r, [](float a, float b) { return a + b; });
}
Step least_or_most(const Reader& r) {
  return reals<2>(r, [](bool least, float a, float b) { return least ? std::fmin(a, b) : std::fmax(a, b); });
}
Step least_or_most_of_three(const Reader& r) {
  return reals<3>(r, [](bool least, float a, float b, float c) {
    return least ? std::fmin(std::fmin(a, b), c) : std::fmax(std::fmax(a, b), c);
  });
}
Step select(const Reader& r) {
  return reals<2>(r, [](bool first, float a, float b) { return first ? a : b; });
}

double reciprocal(double x) { return 1 / x; }
double reciprocal_root(double x) { return 1 / std::sqrt(x); }
double sine(double x) { return std::sin(2 * M_PI * x); }
double cosine(double x) { return std::cos(2 * M_PI * x); }

Step special(const Reader& r) {
  static constexpr std::pair<std::string_view, double (*)(double)> kFunctions[] = {
      {"EX2", std::exp2}, {"LG2", std::log2}, {"RCP", reciprocal}, {"RSQ", reciprocal_root},
      {"SIN", sine},      {"COS", cosine},    {"SQRT", std::sqrt}, {"TANH", std::tanh}};
  for (const auto& [name, function] : kFunctions) {
    if (!r.has(name)) continue;
    const auto normal = [](float x) { return std::fabs(x) < kLeastNormal ? std::copysign(0.0F, x) : x; };
    const bool takes_small = name == "EX2";
    return reals<1>(r, [=, f = function](bool, float x) {
      return normal(static_cast<float>(f(static_cast<double>(takes_small ? x : normal(x)))));
    });
  }
  r.unknown();
}

/// Prepares an argument of MUFU: for sine and cosine, which count turns, from radians.
Step reduce_range(const Reader& r) {
  constexpr double kTurns = 1 / (2 * M_PI);
  const double factor = r.has("SINCOS") ? kTurns : 1;
  return reals<1>(r, [=](bool, float x) { return static_cast<float>(factor * static_cast<double>(x)); });
}

/// Whether a quotient needs the long way: exponents near the ends, or far from one another.
Step check_division(const Reader& r) {
  const Predicate to = r.predicate(0);
  const auto from = sources_of<2>(r, 1, true);
  return [=](Warp& warp, Mask mask) {
    Lanes a, b;
    from[0].read(warp, a);
    from[1].read(warp, b);
    const auto is_hard = [&](std::size_t l) {
      const int x = static_cast<int>(a[l] >> 23 & 255), y = static_cast<int>(b[l] >> 23 & 255);
      return x <= 23 || x >= 254 || y <= 1 || y >= 252 || std::abs(x - y) > 120;
    };
    to.write(warp, mask_of(is_hard), mask);
  };
}

/// Predicate or, as FSET, a number: all bits or, with BF, 1.0.
Step compare(const Reader& r) {
  const bool number = r.name() == "FSET";
  const std::size_t first = number ? 1 : 2;
  const auto from = sources_of<2>(r, first, true);
  const auto comparison = Comparison::read(r);
  return compared(r, number, r.predicate(first + 2, {}), [=](const Warp& warp) {
    Lanes a, b;
    from[0].read(warp, a);
    from[1].read(warp, b);
    return mask_of([&](std::size_t l) { return comparison(std::bit_cast<float>(a[l]), std::bit_cast<float>(b[l])); });
  });
}

/// a or b, as the third compares with zero.
Step choose_by_sign(const Reader& r) {
  const auto comparison = Comparison::read(r);
  return step_of<3>(r.result(0), sources_of<3>(r, 1, true), {},
                    [=](bool, Word a, Word b, Word c) { return comparison(std::bit_cast<float>(c), 0.0F) ? a : b; });
}

}  // namespace

int rounding_of(const Reader& r) {
  return r.has("RM") ? FE_DOWNWARD : r.has("RP") ? FE_UPWARD : r.has("RZ") ? FE_TOWARDZERO : FE_TONEAREST;
}

Step rounded(const Reader& r, Step step) {
  const int mode = rounding_of(r);
  if (mode == FE_TONEAREST) return step;
  return [mode, step = std::move(step)](Warp& warp, Mask mask) {
    std::fesetround(mode);
    step(warp, mask);
    std::fesetround(FE_TONEAREST);
  };
}

Step compared(const Reader& r, bool number, Predicate further, std::function<Mask(const Warp&)> outcome) {
  const auto junction = Junction::read(r);
  if (number) {
    const Place to = r.result(0);
    const Word yes = r.has("BF") ? std::bit_cast<Word>(1.0F) : ~Word{0};
    return [=](Warp& warp, Mask mask) {
      const Mask t = junction(outcome(warp), further.read(warp));
      Lanes out;
      for (std::size_t l = 0; l < kLanes; ++l) out[l] = holds(t, static_cast<int>(l)) ? yes : 0;
      if (to.sets_flags) {
        warp.zero = (warp.zero & ~mask) | (~t & mask);
        warp.sign = (warp.sign & ~mask) | (t & mask);
      }
      to.write(warp, out, mask);
    };
  }
  const Predicate first = r.predicate(0), second = r.predicate(1);
  return [=](Warp& warp, Mask mask) {
    const Mask t = outcome(warp), p = further.read(warp);
    first.write(warp, junction(t, p), mask);
    second.write(warp, junction(~t, p), mask);
  };
}

Rows real_rows() {
  return {
      {"FFMA", multiply_add}, {"FFMA32I", multiply_add}, {"FMUL", multiply},       {"FMUL32I", multiply},
      {"FADD", add},          {"FADD32I", add},          {"FMNMX", least_or_most}, {"FMNMX3", least_or_most_of_three},
      {"FSEL", select},       {"MUFU", special},         {"RRO", reduce_range},    {"FCHK", check_division},
      {"FSETP", compare},     {"FSET", compare},         {"FCMP", choose_by_sign}};
}

}  // namespace weft::machine
