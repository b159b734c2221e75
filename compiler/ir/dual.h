#pragma once

#include <cmath>

/// Numbers that know how fast they change along one direction: values of the interpreter's gradients. Their operators
/// and functions are those that the values in compiler/base/ops.def are written with.
namespace weft::ir {

struct Dual {
  double value = 0, slope = 0;
  Dual(double number) : value(number) {}
  Dual(double number, double slope_of_it) : value(number), slope(slope_of_it) {}
};

/// `slope` passed on through something that itself has the slope `factor` there. What does not change passes nothing
/// on, also where the factor is infinite: sqrt(0) of a constant.
inline double passed_on(double slope, double factor) { return slope == 0 ? 0 : slope * factor; }

inline Dual operator-(const Dual& a) { return {-a.value, -a.slope}; }
inline Dual operator+(const Dual& a, const Dual& b) { return {a.value + b.value, a.slope + b.slope}; }
inline Dual operator-(const Dual& a, const Dual& b) { return {a.value - b.value, a.slope - b.slope}; }
inline Dual operator*(const Dual& a, const Dual& b) {
  return {a.value * b.value, passed_on(a.slope, b.value) + passed_on(b.slope, a.value)};
}

/// By infinity the quotient is 0 and stays there, however fast the divisor grows: exp of a large number.
inline Dual operator/(const Dual& a, const Dual& b) {
  if (std::isinf(b.value)) return {a.value / b.value, 0};
  return {a.value / b.value, passed_on(a.slope, 1 / b.value) - passed_on(b.slope, a.value / b.value / b.value)};
}

inline Dual floor(const Dual& a) { return std::floor(a.value); }
/// Of equal values the first; a NaN is passed over, as by the functions of doubles.
inline Dual fmin(const Dual& a, const Dual& b) { return std::fmin(a.value, b.value) == a.value ? a : b; }
inline Dual fmax(const Dual& a, const Dual& b) { return std::fmax(a.value, b.value) == a.value ? a : b; }
/// The slope is 0 at 0.
inline Dual fabs(const Dual& a) {
  return {std::fabs(a.value), a.value < 0 ? -a.slope : passed_on(a.slope, a.value == 0 ? 0 : 1)};
}
inline Dual exp(const Dual& a) { return {std::exp(a.value), passed_on(a.slope, std::exp(a.value))}; }
inline Dual log(const Dual& a) { return {std::log(a.value), passed_on(a.slope, 1 / a.value)}; }
inline Dual sqrt(const Dual& a) { return {std::sqrt(a.value), passed_on(a.slope, 0.5 / std::sqrt(a.value))}; }
inline Dual tanh(const Dual& a) {
  const double wide = std::cosh(a.value);
  return {std::tanh(a.value), passed_on(a.slope, 1 / wide / wide)};
}

}  // namespace weft::ir
