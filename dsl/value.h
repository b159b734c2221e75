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
  /// The number that an integer or a real is; nothing of other values.
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
/// `min`, `max`, `abs`, `exp`, … of known arguments. `round` takes halves away from zero.
Folded fold_function(const std::string& name, const std::vector<Value>& args);

}  // namespace weft::dsl
