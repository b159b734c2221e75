#pragma once

#include "dsl/ast.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

/// Values that are known from the text alone, and arithmetic on them as the language defines it:
/// 64-bit integers whose overflow is an error, `/` that floors, `%` that is never negative.
namespace weft::dsl {

struct Value;
using Values = std::shared_ptr<const std::vector<Value>>;

struct Value {
  std::variant<std::int64_t, double, bool, Values> data;

  const std::int64_t* integer() const { return std::get_if<std::int64_t>(&data); }
  const bool* boolean() const { return std::get_if<bool>(&data); }
  const std::vector<Value>* items() const;
  /// Of an integer or a real.
  std::optional<double> number() const;
};

enum class Trouble { none, overflow, zero_division };

struct Folded {
  std::optional<Value> value = {};  ///< empty where operands do not fit the operator, or with a trouble
  Trouble trouble = Trouble::none;
};

/// `op` of one or two known operands.
Folded fold(Operator op, const Value& a);
Folded fold(Operator op, const Value& a, const Value& b);
/// `min`, `max`, `abs`, `exp`, … of known arguments.
Folded fold_function(const std::string& name, const std::vector<Value>& args);

/// Quotient and rest for a divisor other than 0 (and -1 with the smallest integer).
std::int64_t floor_quotient(std::int64_t a, std::int64_t b);
std::int64_t floor_rest(std::int64_t a, std::int64_t b);

}  // namespace weft::dsl
