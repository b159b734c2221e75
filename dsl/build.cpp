#include "dsl/build.h"

#include "dsl/diagnostics.h"
#include "dsl/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

namespace weft::dsl {
namespace {

SourceRange join(SourceRange a, SourceRange b) { return {std::min(a.begin, b.begin), std::max(a.end, b.end)}; }

/// `digits` times `unit`, or nothing when it does not fit.
std::optional<std::int64_t> integer_value(std::string_view digits, std::int64_t unit) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || __builtin_mul_overflow(value, unit, &value)) return std::nullopt;
  return value;
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// `16_384` and `8K` as this language has them; empty for what is no number at all.
std::string plain_number(std::string_view spelling) {
  std::string out;
  for (const char c : spelling.substr(0, 40)) {
    if (c != '_') out += c == 'K' ? 'k' : c == 'M' ? 'm' : c;
  }
  const bool unit = !out.empty() && (out.back() == 'k' || out.back() == 'm');
  return all_digits(unit ? std::string_view(out).substr(0, out.size() - 1) : out) && out != spelling ? out : "";
}

void add_args(Expr& node, const std::vector<Node>& children) {
  for (const Node& child : children) node.args.push_back({.name = {}, .name_range = {}, .value = child});
}

}  // namespace

SourceRange Builder::range(const char* begin, const char* end) const {
  return {static_cast<std::uint32_t>(begin - text_.data()), static_cast<std::uint32_t>(end - text_.data())};
}

Node Builder::make(ExprKind kind, SourceRange place) const {
  auto node = std::make_shared<Expr>();
  node->kind = kind;
  node->range = node->outer = place;
  return node;
}

Node Builder::finish(Node node) {
  for (const Arg& arg : node->args) node->depth = std::max(node->depth, arg.value->depth + 1);
  if (node->depth <= kDeepestExpression) return node;
  report_too_long(node->range);
  return make(ExprKind::integer, node->outer);
}

void Builder::report_too_long(SourceRange place) {
  const bool told = !problems_.empty() && problems_.back().code == text_of(Code::expression_too_long) &&
                    problems_.back().range.begin >= place.begin && problems_.back().range.end <= place.end;
  if (told) return;
  report(finding(Code::expression_too_long, place,
                 fmt::format("the expression has more than {} operators inside each other", kDeepestExpression - 1)));
}

Node Builder::number(SourceRange place) {
  const std::string_view spelling = text_.substr(place.begin, place.end - place.begin);
  const char last = spelling.back();
  const std::int64_t unit = last == 'k' ? 1024 : last == 'm' ? 1024 * 1024 : 1;
  const std::string_view digits = unit == 1 ? spelling : spelling.substr(0, spelling.size() - 1);
  Node node = make(ExprKind::integer, place);
  node->spelling = std::string(spelling);
  if (all_digits(digits)) {
    if (const auto value = integer_value(digits, unit)) {
      node->integer = *value;
    } else {
      Diagnostic d =
          finding(Code::big_number, place, fmt::format("'{}' does not fit into 64 bits", spelling.substr(0, 40)),
                  "the largest integer is 9223372036854775807");
      mend_seed(d, place);
      report(std::move(d));
    }
    return node;
  }
  node->kind = ExprKind::real;
  const auto [end, error] = std::from_chars(spelling.data(), spelling.data() + spelling.size(), node->real);
  if (end != spelling.data() + spelling.size()) {
    Diagnostic d = finding(Code::bad_number, place, fmt::format("'{}' is not a number", spelling.substr(0, 40)),
                           "numbers look like 8192, 8k, 1m, 0.1, 1e-3");
    if (const std::string plain = plain_number(spelling); !plain.empty()) {
      d.fix = Fix{place, plain, fmt::format("write '{}'", plain)};
    }
    report(std::move(d));
  } else if (error != std::errc()) {
    report(finding(Code::big_number, place, fmt::format("'{}' is beyond the range of reals", spelling.substr(0, 40))));
  }
  return node;
}

Node Builder::name(const Name& name) {
  if (name.text == "true" || name.text == "false") {
    Node node = make(ExprKind::boolean, name.range);
    node->boolean = name.text == "true";
    return node;
  }
  if (name.text == "inf") {
    Node node = make(ExprKind::real, name.range);
    node->real = std::numeric_limits<double>::infinity();
    node->spelling = "inf";
    return node;
  }
  Node node = make(ExprKind::name, name.range);
  node->word = std::string(name.text);
  node->word_range = name.range;
  return node;
}

Node Builder::list(SourceRange place, std::vector<Node> items) {
  if (items.size() > kMostListItems) {
    report(finding(Code::list_too_long, place,
                   fmt::format("the list has {} items; at most {} are allowed", items.size(), kMostListItems)));
    items.resize(kMostListItems);
  }
  Node node = make(ExprKind::list, place);
  add_args(*node, items);
  return finish(std::move(node));
}

Node Builder::call(const Name& word, SourceRange place, std::vector<RawArg> args) {
  Node node = make(ExprKind::call, place);
  node->word = std::string(word.text);
  node->word_range = word.range;
  const bool quantifier = word.text == "any" || word.text == "all" || word.text == "sum";
  const Node body = args.size() == 1 ? args[0].body : nullptr;
  if (const Node in = body ? args[0].value : nullptr;
      in && quantifier && args[0].name.text.empty() && in->kind == ExprKind::compare && in->outer == in->range &&
      in->ops == std::vector{Operator::in} && in->args[0].value->kind == ExprKind::name) {
    node->kind = ExprKind::comprehension;
    node->variable = in->args[0].value->word;
    node->variable_range = in->args[0].value->range;
    node->args = {in->args[1], {.name = {}, .name_range = {}, .value = body}};
    return finish(std::move(node));
  }
  for (RawArg& arg : args) {
    if (arg.body) {
      report(finding(Code::misplaced_colon, arg.body->outer, "only 'any', 'all' and 'sum' have a ':' behind a value",
                     "written like any(r in rates: r > 1)"));
    }
    node->args.push_back({std::string(arg.name.text), arg.name.range, std::move(arg.value)});
  }
  if (node->args.size() > kMostListItems) {
    report(
        finding(Code::list_too_long, place, fmt::format("'{}' is given {} arguments", word.text, node->args.size())));
    node->args.resize(kMostListItems);
  }
  return finish(std::move(node));
}

Node Builder::index(Node base, std::vector<Node> indices, std::uint32_t end) {
  Node node = make(ExprKind::index, {base->outer.begin, end});
  indices.insert(indices.begin(), std::move(base));
  add_args(*node, indices);
  return finish(std::move(node));
}

Node Builder::parenthesized(Node inner, SourceRange place) {
  inner->outer = place;
  return inner;
}

Node Builder::combine(const OperatorInfo& op, Node left, Node right) {
  // A chain goes on only in the same parentheses: `(a < b) < c` compares a boolean.
  if (op.fixity == Fixity::chain && left->kind == ExprKind::compare && left->outer == left->range) {
    left->range.end = left->outer.end = right->outer.end;
    if (left->ops.size() == kDeepestExpression) report_too_long(left->range);
    if (left->ops.size() >= kDeepestExpression) return left;
    left->depth = std::max(left->depth, right->depth + 1);
    left->ops.push_back(op.op);
    left->args.push_back({.name = {}, .name_range = {}, .value = std::move(right)});
    return left->depth > kDeepestExpression ? finish(std::move(left)) : left;
  }
  const SourceRange place = join(left->outer, right->outer);
  const ExprKind kind = op.fixity == Fixity::chain   ? ExprKind::compare
                        : op.fixity == Fixity::range ? ExprKind::range
                                                     : ExprKind::binary;
  Node node = make(kind, place);
  if (kind == ExprKind::compare) node->ops = {op.op};
  if (kind == ExprKind::binary) node->op = op.op;
  add_args(*node, {std::move(left), std::move(right)});
  return finish(std::move(node));
}

Node Builder::expression(std::vector<Piece> pieces) {
  std::size_t at = 0;
  std::size_t prefix = 0;
  return climb(pieces, at, prefix, 1);
}

Node Builder::climb(std::vector<Piece>& pieces, std::size_t& at, std::size_t& prefix, int level) {
  if (level == kPrefixLevel) return apply_prefixes(pieces, at, prefix);
  const auto& prefixes = pieces[at].prefixes;
  std::vector<Piece::Prefix> nots;
  while (level == kNotLevel && prefix < prefixes.size() && prefixes[prefix].op == Operator::logical_not) {
    nots.push_back(prefixes[prefix++]);
  }
  Node left = climb(pieces, at, prefix, level + 1);
  while (at + 1 < pieces.size() && pieces[at + 1].infix->level == level) {
    const OperatorInfo& op = *pieces[++at].infix;
    prefix = 0;
    Node right = climb(pieces, at, prefix, level + 1);
    if (op.fixity == Fixity::range && left->kind == ExprKind::range && left->outer == left->range) {
      report(finding(Code::bad_range, join(left->outer, right->outer), "a range has two ends: lo..hi"));
      continue;
    }
    left = combine(op, std::move(left), std::move(right));
  }
  for (; !nots.empty(); nots.pop_back()) {
    Node node = make(ExprKind::unary, join(nots.back().range, left->outer));
    node->op = Operator::logical_not;
    add_args(*node, {std::move(left)});
    left = finish(std::move(node));
  }
  return left;
}

Node Builder::apply_prefixes(std::vector<Piece>& pieces, std::size_t& at, std::size_t& prefix) {
  Piece& piece = pieces[at];
  Node operand = std::move(piece.operand);
  for (std::size_t i = piece.prefixes.size(); i > prefix; --i) {
    const Piece::Prefix& sign = piece.prefixes[i - 1];
    const SourceRange place = join(sign.range, operand->outer);
    if (sign.op == Operator::logical_not) {
      const auto words = text_.substr(place.begin, place.end - place.begin);
      Diagnostic d = finding(Code::misplaced_not, sign.range, "'not' binds looser than the operator before it",
                             "needs parentheses here");
      if (words.size() <= 80) d.fix = Fix{place, fmt::format("({})", words), "put it in parentheses"};
      report(std::move(d));
    }
    Node node = make(ExprKind::unary, place);
    node->op = sign.op;
    add_args(*node, {std::move(operand)});
    operand = finish(std::move(node));
  }
  prefix = piece.prefixes.size();
  return operand;
}

void Builder::add_extent(Statement& statement, Node extent) {
  if (has_room(statement.extents.size(), extent->outer)) statement.extents.push_back(std::move(extent));
}

/// One more than may be is kept, so that the excess is reported once.
bool Builder::has_room(std::size_t items, SourceRange place) {
  if (items == kMostListItems) {
    report(finding(Code::list_too_long, place, fmt::format("at most {} axes are allowed", kMostListItems)));
  }
  return items <= kMostListItems;
}

void Builder::add_axis(Statement& statement, Node extent) {
  if (!has_room(statement.axes.size(), extent->outer)) return;
  Axis axis;
  axis.range = extent->outer;
  if (extent->kind == ExprKind::name && is_one_of(WordKind::axis, extent->word)) {
    axis.word = extent->word;
  } else {
    axis.extent = std::move(extent);
  }
  statement.axes.push_back(std::move(axis));
}

ParamType Builder::param_type(const Name& word, bool list) {
  if (word.text == "int") return list ? ParamType::integers : ParamType::integer;
  if (word.text == "real") return list ? ParamType::reals : ParamType::real;
  if (word.text == "bool" && !list) return ParamType::boolean;
  Diagnostic d = finding(Code::unknown_type, word.range, fmt::format("'{}' is not a type of parameters", word.text));
  d.notes.push_back("the types are int, real, bool, [int] and [real]");
  if (const std::string near = nearest_word(word.text, words_of(WordKind::param_type)); !near.empty() && !list) {
    d.fix = Fix{word.range, near, fmt::format("did you mean '{}'?", near)};
  }
  if (const std::string_view known = word_elsewhere(word.text, WordKind::param_type); !known.empty()) {
    d.fix = Fix{word.range, std::string(known), fmt::format("write '{}'", known)};
  }
  report(std::move(d));
  return ParamType::integer;
}

}  // namespace weft::dsl
