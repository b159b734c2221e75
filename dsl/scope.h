#pragma once

#include "dsl/ast.h"
#include "dsl/value.h"
#include "dsl/words.h"

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace weft::dsl {

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

/// One bit a row of the table of variables.
using Variables = std::uint32_t;
Variables bit_of(std::string_view variable);
/// Those that have a value at a place.
Variables variables_at(Place place);

/// What is known of an expression.
struct Typed {
  Kind kind = Kind::unknown;
  Kind item = Kind::unknown;               ///< of a list; unknown when it is empty
  std::optional<Value> value = {};         ///< when it follows from the text alone
  std::optional<std::size_t> length = {};  ///< of a list
  const Statement* input = nullptr;        ///< of an input
};

/// What an expression does besides having a value; a `let` carries it to where its name is used.
struct Effects {
  Variables variables = 0;    ///< that it reads
  bool mixed = false;         ///< an integer meets a real
  bool inputs = false;        ///< it reads one
  bool rounds = false;        ///< it makes an integer of a real that a kernel computes
  bool needs_blocks = false;  ///< it has a meaning inside `blocks` only
};

enum class SymbolKind { constant, param, input, let };

struct Symbol {
  SymbolKind kind = SymbolKind::constant;
  SourceRange place;  ///< of the name where it is defined
  Typed typed = {};
  Effects effects = {};
  bool defined = true;  ///< false before a `let` or `const` whose name is known already
  bool used = false;
};

/// Names of one pattern, or of the file.
class Scope {
 public:
  explicit Scope(Scope* outer = nullptr) : outer_(outer) {}

  /// Null if the name is not known, here or outside.
  Symbol* find(const std::string& name);
  /// Null, too, where only the outer scope knows the name.
  Symbol* find_here(const std::string& name);
  Symbol& define(const std::string& name, Symbol symbol);

  /// For "did you mean"; not all of a very large file's.
  std::vector<std::string> names() const;
  const std::unordered_map<std::string, Symbol>& here() const { return symbols_; }

 private:
  Scope* outer_;
  std::unordered_map<std::string, Symbol> symbols_;
};

}  // namespace weft::dsl
