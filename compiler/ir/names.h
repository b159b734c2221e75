#pragma once

#include "compiler/ir/value.h"
#include "dsl/words.h"

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weft::ir {

/// One bit a row of the table of variables.
using Variables = std::uint32_t;
Variables bit_of(std::string_view variable);
/// Those that have a value at a place.
Variables variables_at(dsl::Place place);

/// The text uses an input inside `blocks` of so many tokens; 0 where no block is around it yet.
struct BlockUse {
  int input = -1;
  std::int64_t block = 0;
  auto operator<=>(const BlockUse&) const = default;
};
using BlockUses = std::set<BlockUse>;

/// What an expression does besides having a value; a `let` carries it to where its name is used.
struct Effects {
  Variables variables = 0;    ///< that it reads
  bool mixed = false;         ///< an integer meets a real
  bool inputs = false;        ///< it reads one
  bool rounds = false;        ///< it makes an integer of a real that a kernel computes
  bool needs_blocks = false;  ///< it has a meaning inside `blocks` only
  BlockUses uses = {};        ///< of inputs with `blocks` axes in its text, also where simplifying took them away

  void merge(const Effects& other);
};

enum class SymbolKind { constant, param, input, let };

struct Symbol {
  SymbolKind kind = SymbolKind::constant;
  SourceRange place;  ///< of the name where it is defined
  Value value = {};
  Effects effects = {};
  bool defined = true;  ///< false before a `let` or `const` whose name is known already
  bool used = false;
};

/// Names of one pattern, or of the file.
class Names {
 public:
  explicit Names(Names* outer = nullptr) : outer_(outer) {}

  /// Null if the name is not known, here or outside.
  Symbol* find(const std::string& name);
  /// Null, too, where it is known outside only.
  Symbol* find_here(const std::string& name);
  Symbol& define(const std::string& name, Symbol symbol);

  /// For "did you mean"; not all of a very large file's.
  std::vector<std::string> list() const;
  const std::unordered_map<std::string, Symbol>& here() const { return symbols_; }

 private:
  Names* outer_;
  std::unordered_map<std::string, Symbol> symbols_;
};

}  // namespace weft::ir
