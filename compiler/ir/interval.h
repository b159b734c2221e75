#pragma once

#include "compiler/ir/expr.h"

#include <array>
#include <cstdint>
#include <functional>

/// Interval arithmetic over expressions: what a value may be when only ranges of its variables are known.
namespace weft::ir {

/// Ends are included. Values that leave ±kFarAway stand at that end, so an interval that reaches it may hold anything.
struct Interval {
  std::int64_t lo = 0, hi = 0;
  bool operator==(const Interval&) const = default;
};

inline constexpr std::int64_t kFarAway = std::int64_t{1} << 60;
inline constexpr Interval kAnything{-kFarAway, kFarAway};

/// Is every value of the interval known to lie within ±2^60, so that no arithmetic that made it has wrapped?
bool is_known(const Interval& i);

enum class Truth { no, maybe, yes };

/// What is known of the variables and, by number, of the elements of integer inputs; without `element`, nothing.
struct Ranges {
  std::array<Interval, 8> variable = {};
  std::function<Interval(int input)> element = {};
  Interval& of(Variable v) { return variable[static_cast<std::size_t>(v)]; }
  const Interval& of(Variable v) const { return variable[static_cast<std::size_t>(v)]; }
};

/// Where the values of an integer expression lie. Never too narrow; exact for sums in which each variable stands once.
Interval interval_of(const Expr& e, const Ranges& ranges);

/// What is known of a boolean expression. Parts that compare reals or ask lists may be either.
Truth truth_of(const Expr& e, const Ranges& ranges);

}  // namespace weft::ir
