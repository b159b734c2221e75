#pragma once

#include "compiler/base/diagnostic.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

/// The syntax tree of a .weft file: what the user wrote, with the place of every word. Sets and
/// arithmetic share one expression type; elaboration tells them apart (`let` may name either).
namespace weft::dsl {

struct Expr;
using ExprPtr = std::shared_ptr<const Expr>;

enum class ExprKind {
  integer,        ///< `integer`; `spelling` keeps `8k`
  real,           ///< `real`
  boolean,        ///< `boolean`
  name,           ///< `word`
  list,           ///< `[a, b]`: args
  range,          ///< `lo..hi`: args[0], args[1]; hi excluded
  call,           ///< `word(args)`, argument names allowed; also `any all sum` without a comprehension
  comprehension,  ///< `any(r in list: body)`: word = any|all|sum, variable, args[0] = list, args[1] = body
  index,          ///< `args[0][args[1], …]`
  unary,          ///< op args[0]
  binary,         ///< args[0] op args[1]
  compare,        ///< chain: args[0] ops[0] args[1] ops[1] args[2] …
};

enum class Operator {
  none,
  negate,
  complement,
  logical_not,  // - ! not
  add,
  subtract,
  multiply,
  divide,
  modulo,  // + - * / %   (- is difference on sets)
  intersect,
  unite,  // & |
  logical_and,
  logical_or,  // and or
  less,
  less_equal,
  greater,
  greater_equal,
  equal,
  not_equal,  // < <= > >= == !=
  in,         // x in list
};

struct Arg {
  std::string name;  ///< empty when positional
  SourceRange name_range;
  ExprPtr value;
};

/// The longest path in an expression tree, so that everybody may walk trees by recursion.
inline constexpr int kDeepestExpression = 1024;

/// Also of a range, where it is written out as a list.
inline constexpr std::size_t kMostListItems = 1024;

struct Expr {
  ExprKind kind = ExprKind::integer;
  SourceRange range;  ///< without parentheses around it
  SourceRange outer;  ///< with them; equal to `range` when there are none
  int depth = 1;      ///< of the tree below and including this node; at most kDeepestExpression
  std::int64_t integer = 0;
  double real = 0;
  bool boolean = false;
  std::string word;      ///< name, called word, comprehension word
  std::string spelling;  ///< number as written
  SourceRange word_range;
  std::string variable;  ///< of a comprehension
  SourceRange variable_range;
  Operator op = Operator::none;
  std::vector<Operator> ops;  ///< of a compare chain
  std::vector<Arg> args;
};

enum class StatementKind {
  heads,
  dim,
  dtype,
  tokens,
  grid,
  input,
  let,
  branch,
  branches,
  keep,
  combine,
  scale,
  score,
  sink_logit,
  weights,
  dropout,
  ring,
  schedule,
  use,
};

/// Axis of an input: one of the words, or an integer expression.
struct Axis {
  std::string word;  ///< batch heads queries keys tokens blocks; empty for an expression
  ExprPtr extent;
  SourceRange range;
};

struct ScheduleEntry {
  std::string key;
  SourceRange key_range;
  ExprPtr value;
};

/// One statement. Which members are set depends on the kind; the comments say.
struct Statement {
  StatementKind kind = StatementKind::keep;
  SourceRange range;       ///< from the first word through `;`
  SourceRange word_range;  ///< the statement's word
  std::string word;  ///< input, let, use: the name; dtype; input: see `type`; ring: layout ("" when left out); combine:
                     ///< mode; weights: softmax, sigmoid; tokens: "any", "multiple_of" or ""
  SourceRange name_range;  ///< of `word` where it is the user's
  ExprPtr value;   ///< heads, dim, tokens, let, branch (set), branches (the call), keep, scale, score, sink_logit,
                   ///< weights (null when left out), dropout, ring (null for `any`), use (a call)
  ExprPtr second;  ///< heads … kv; dim … value; branch … on heads RANGE
  bool detached = false;                ///< combine joint detached
  SourceRange detached_range;           ///< of the word `detached`
  std::string type;                     ///< input element type
  SourceRange type_range;               ///< of `type`
  std::vector<Axis> axes;               ///< input
  std::vector<ExprPtr> extents;         ///< grid
  std::vector<ScheduleEntry> schedule;  ///< schedule
};

enum class ParamType { integer, real, boolean, integers, reals };

struct Param {
  std::string name;
  SourceRange name_range;
  SourceRange range;  ///< from the name through the type or the default
  ParamType type = ParamType::integer;
  ExprPtr fallback;  ///< default value; null when the caller must give one
};

struct PatternDef {
  std::string name;
  SourceRange name_range;
  SourceRange range;
  SourceRange body;  ///< from `{` through `}`
  std::vector<Param> params;
  std::vector<Statement> statements;
};

struct ConstDef {
  std::string name;
  SourceRange name_range;
  SourceRange range;
  ExprPtr value;
};

/// Comments sit at places, not in nodes, so that the tree stays free of them; the formatter puts
/// them back by position.
struct Comment {
  SourceRange range;  ///< from `#` to the end of the line
  std::string text;   ///< without `#` and trailing blanks
};

struct File {
  std::string text;  ///< that it was read from
  std::vector<ConstDef> constants;
  std::vector<PatternDef> patterns;
  std::vector<Comment> comments;
  const PatternDef* find(const std::string& name) const {
    for (const auto& pattern : patterns) {
      if (pattern.name == name) return &pattern;
    }
    return nullptr;
  }
};

}  // namespace weft::dsl
