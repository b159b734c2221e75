/// Arithmetic of f64. A number stands in two registers, the upper half in the second.

#include "tests/machine/driver/lanewise.h"

#include <cmath>

namespace weft::machine {
namespace {

template <std::size_t N>
std::array<Source, N> doubles_of(const Reader& r, std::size_t first) {
  std::array<Source, N> out;
  for (std::size_t i = 0; i < N; ++i) out[i] = r.wide_real(first + i);
  return out;
}

/// result = f(x), where x(i) is an operand.
template <std::size_t N, typename F>
Step doubles(const Reader& r, F f) {
  const Place to = r.result(0);
  const auto from = doubles_of<N>(r, 1);
  return rounded(r, [=](Warp& warp, Mask mask) {
    std::array<WideLanes, N> x;
    for (std::size_t i = 0; i < N; ++i) from[i].read(warp, x[i]);
    WideLanes out;
    for (std::size_t l = 0; l < kLanes; ++l)
      out[l] = std::bit_cast<Wide>(f([&](std::size_t i) { return std::bit_cast<double>(x[i][l]); }));
    to.write(warp, out, mask);
  });
}

Step multiply_add(const Reader& r) {
  return doubles<3>(r, [](auto x) { return std::fma(x(0), x(1), x(2)); });
}
Step multiply(const Reader& r) {
  return doubles<2>(r, [](auto x) { return x(0) * x(1); });
}
Step add(const Reader& r) {
  return doubles<2>(r, [](auto x) { return x(0) + x(1); });
}

Step compare(const Reader& r) {
  const auto from = doubles_of<2>(r, 2);
  const auto comparison = Comparison::read(r);
  return compared(r, false, r.predicate(4, {}), [=](const Warp& warp) {
    WideLanes a, b;
    from[0].read(warp, a);
    from[1].read(warp, b);
    return mask_of([&](std::size_t l) { return comparison(std::bit_cast<double>(a[l]), std::bit_cast<double>(b[l])); });
  });
}

}  // namespace

Rows double_rows() { return {{"DFMA", multiply_add}, {"DMUL", multiply}, {"DADD", add}, {"DSETP", compare}}; }

}  // namespace weft::machine
