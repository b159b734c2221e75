#pragma once

#include "dsl/ast.h"
#include "dsl/operators.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

/// What the grammar's actions call: nodes of the tree, and messages. Plain C++, so that the Spirit
/// file holds the grammar and nothing else.
namespace weft::dsl {

using Node = std::shared_ptr<Expr>;

struct Name {
  std::string_view text;
  SourceRange range;
};

/// One operand of an expression with the operators before it.
struct Piece {
  struct Prefix {
    Operator op;
    SourceRange range;
  };
  const OperatorInfo* infix = nullptr;  ///< null at the first piece
  std::vector<Prefix> prefixes;
  Node operand;
};

/// An argument as read: `name: value : body`, the body only in comprehensions.
struct RawArg {
  Name name;
  Node value;
  Node body;
};

/// `? second : third`, or `if second else third`, behind an expression.
struct RawChoice {
  bool condition_first = false;  ///< C's form: the expression before it is the condition
  Node second;
  Node third;
};

class Builder {
 public:
  explicit Builder(std::string_view text) : text_(text) {}

  SourceRange range(const char* begin, const char* end) const;

  // Expressions. Every builder returns a node, also where it reports an error.
  Node number(SourceRange place);
  Node name(const Name& name);
  Node list(SourceRange place, std::vector<Node> items);
  Node call(const Name& word, SourceRange place, std::vector<RawArg> args);
  Node index(Node base, std::vector<Node> indices, std::uint32_t end);
  Node parenthesized(Node inner, SourceRange place);
  /// Gives the flat sequence of operands its shape by the levels of operators.def.
  Node expression(std::vector<Piece> pieces);

  // Forms of other languages are understood, reported, and shown as this one has them.
  Node choice(Node first, const std::vector<RawChoice>& choices);
  void assigned(SourceRange name, SourceRange sign);

  void add_extent(Statement& statement, Node extent);  ///< of `grid`
  void add_axis(Statement& statement, Node extent);    ///< of `input`
  ParamType param_type(const Name& word, bool list);

  /// The grammar expected `what` at `where`.
  void expected(std::string_view what, const char* where);
  /// A statement or an item of the file that starts with no known word.
  void unknown_item(const char* where, const std::vector<std::string>& known, std::string_view what);
  /// A pattern's body begins with this `{`, …
  void opened(SourceRange brace) { opened_ = brace; }
  /// … and has no `}`: it runs into `where`.
  void unclosed(const char* where);

  /// Where to go on after an error inside a statement: behind its `;` or block, before a `}` that
  /// closes the pattern, before the next pattern or constant.
  const char* after_statement(const char* where);
  /// … inside a pattern's header: before its `{`, or where `after_statement` stops.
  const char* after_header(const char* where);
  /// … between patterns: before the next pattern or constant.
  const char* after_item(const char* where);

  bool full() const;
  void report(Diagnostic diagnostic);
  std::vector<Diagnostic> take_problems() && { return std::move(problems_); }

 private:
  Node make(ExprKind kind, SourceRange place) const;
  /// Sets the depth; an expression over the limit is reported once and cut, as nobody may walk it.
  Node finish(Node node);
  void report_too_long(SourceRange place);
  bool has_room(std::size_t items, SourceRange place);
  Node climb(std::vector<Piece>& pieces, std::size_t& at, std::size_t& prefix, int level);
  Node apply_prefixes(std::vector<Piece>& pieces, std::size_t& at, std::size_t& prefix);
  Node combine(const OperatorInfo& op, Node left, Node right);
  std::string found_at(std::size_t at) const;
  void mend_seed(Diagnostic& d, SourceRange number) const;
  bool unclosed_bracket(std::string_view what, std::size_t at);
  void mend_expected(Diagnostic& d, std::string_view what, std::size_t before, std::size_t at) const;
  const char* resume_at(const char* where);

  std::string_view text_;
  std::vector<Diagnostic> problems_;
  SourceRange opened_;
  const char* resumed_ = nullptr;  ///< a second error at the same place says nothing new
};

/// Fills `file` from the text of a scan; problems are the builder's.
void run_grammar(std::string_view text, Builder& builder, File& file);

}  // namespace weft::dsl
