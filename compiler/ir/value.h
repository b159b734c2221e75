#pragma once

#include "compiler/ir/pattern.h"
#include "dsl/ast.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

/// What an expression of a text is worth, as far as it is known. `check` knows the text alone: parameters, variables
/// and the items that a comprehension runs over are holes, and so is what is made of them. `lower` knows all of these
/// and meets no hole.
namespace weft::ir {

enum class Kind {
  unknown,  ///< an error was reported; nothing more is said about it
  set,
  integer,
  real,
  boolean,
  list,
  range,
  input,  ///< a tensor, not yet indexed
};

inline bool is_number(Kind kind) { return kind == Kind::integer || kind == Kind::real; }

struct Value {
  Kind kind = Kind::unknown;
  Kind item = Kind::unknown;                                  ///< of a list; unknown when it is empty
  ExprPtr expr = nullptr;                                     ///< of a number or a boolean; null: a hole
  std::optional<std::size_t> length = {};                     ///< of a list
  std::shared_ptr<const std::vector<Value>> items = nullptr;  ///< of a list; both ends of a range; null: a hole
  SetPtr set = nullptr;                                       ///< null: a hole
  const dsl::Statement* input = nullptr;                      ///< null: `pooled`, which stands where inputs do
};

/// Is anything of it not known?
bool is_hole(const Value& value);

/// Numbers and booleans.
Value value_of(ExprPtr e);
Value list_of(Kind item, std::vector<Value> items);
/// 0 or false.
ExprPtr zero_of(Kind kind, SourceRange range = {});

/// What the value is where it is known.
std::optional<std::int64_t> integer_of(const Value& value);
std::optional<double> number_of(const Value& value);
bool is_known(const Value& value, bool boolean);

/// An integer where a real is wanted becomes one; a list, by its items.
Value to_real(Value value);

/// `an integer`, `a list of reals`, …
std::string describe(const Value& value);
std::string_view plural(Kind kind);

}  // namespace weft::ir
