// The grammar. The only file with Boost.Spirit in it; what it does with what it read is in build.cpp.

#include "dsl/build.h"
#include "dsl/words.h"

#include <boost/fusion/include/at_c.hpp>
#include <boost/spirit/home/x3.hpp>

#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace boost::spirit::x3 {
/// A parser with an action is called what the parser is called; else messages hold mangled names.
template <typename Subject, typename Action>
struct get_info<action<Subject, Action>> {
  using result_type = std::string;
  std::string operator()(const action<Subject, Action>& parser) const { return what(parser.subject); }
};
}  // namespace boost::spirit::x3

namespace weft::dsl {
namespace {

namespace x3 = boost::spirit::x3;
using Iterator = const char*;
using Matched = boost::iterator_range<Iterator>;
using Items = std::vector<Node>;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// What actions reach through the context.
struct builder_tag {};
struct file_tag {};

template <typename Context>
Builder& builder(const Context& context) {
  return x3::get<builder_tag>(context).get();
}
template <typename Context>
SourceRange matched(const Context& context) {
  const auto& text = x3::_attr(context);
  return builder(context).range(text.begin(), text.end());
}

/// Ends the parse when no further error would be reported.
struct Enough : std::exception {};

/// Rules whose identity derives from this continue behind an error in them.
template <const char* (Builder::*resume)(const char*)>
struct Recovering {
  template <typename Exception, typename Context>
  x3::error_handler_result on_error(Iterator& first, const Iterator&, const Exception& error, const Context& context) {
    Builder& b = builder(context);
    b.expected(error.which(), error.where());
    if (b.full()) throw Enough();
    first = (b.*resume)(error.where());
    return x3::error_handler_result::accept;
  }
};

/// Matches what begins no statement (or item), says so, and skips it.
struct Unknown : x3::parser<Unknown> {
  using attribute_type = x3::unused_type;
  static constexpr bool has_attribute = false;

  constexpr explicit Unknown(bool in_pattern) : in_pattern_(in_pattern) {}

  template <typename Context, typename Rule, typename Attribute>
  bool parse(Iterator& first, const Iterator& last, const Context& context, Rule&, Attribute&) const {
    x3::skip_over(first, last, context);
    if (first == last || (in_pattern_ && (*first == '}' || begins_item(first, last)))) return false;
    Builder& b = builder(context);
    if (in_pattern_) {
      b.unknown_item(first, statement_names(), "a statement");
      first = b.after_statement(first);
    } else {
      b.unknown_item(first, words_of(WordKind::item), "a pattern or a constant");
      first = b.after_item(first);
    }
    if (b.full()) throw Enough();
    return true;
  }

 private:
  static bool begins_item(Iterator first, Iterator last) {
    Iterator end = first;
    while (end != last && (is_letter(*end) || *end == '_')) ++end;
    return is_one_of(WordKind::item, std::string_view(first, static_cast<std::size_t>(end - first)));
  }
  static std::vector<std::string> statement_names() {
    std::vector<std::string> names;
    for (const StatementWord& row : statement_words()) names.emplace_back(row.name);
    return names;
  }
  bool in_pattern_;
};

// ---- Words and signs -------------------------------------------------------------------------

const auto word_end = !(x3::ascii::alnum | x3::char_('_'));

auto keyword(std::string_view spelling) { return x3::lexeme[x3::lit(std::string(spelling)) >> word_end]; }

/// Operators between operands: those made of signs, or those that are words.
struct InfixTable : x3::symbols<const OperatorInfo*> {
  explicit InfixTable(bool words) {
    for (const OperatorInfo& op : operators()) {
      const bool is_word = is_letter(op.spelling.front());
      if (op.fixity != Fixity::prefix && is_word == words) add(std::string(op.spelling), &op);
    }
  }
};
const InfixTable infix_signs(false);
const InfixTable infix_words(true);

const x3::rule<struct NameTag, Name> name = "a name";
const x3::rule<struct NumberTag, SourceRange> number = "a number";
const x3::rule<struct InfixTag, const OperatorInfo*> infix = "an operator";
const x3::rule<struct PrefixTag, Piece::Prefix> prefix = "an operator";
const x3::rule<struct SemicolonTag, SourceRange> semicolon = "';'";
const x3::rule<struct CloseSquareTag, SourceRange> close_square = "']'";
const x3::rule<struct CloseRoundTag, SourceRange> close_round = "')'";
const x3::rule<struct CloseCurlyTag, SourceRange> close_curly = "'}'";
const x3::rule<struct OpenCurlyTag, SourceRange> open_curly = "'{'";

const auto take_range = [](auto& context) { x3::_val(context) = matched(context); };
const auto take_name = [](auto& context) {
  const Matched text = x3::_attr(context);
  const std::string_view word(text.begin(), static_cast<std::size_t>(text.size()));
  x3::_val(context) = Name{word, matched(context)};
  x3::_pass(context) = !is_one_of(WordKind::operation, word) && !is_one_of(WordKind::item, word);
};
const auto take_prefix = [](auto& context) {
  const char sign = *x3::_attr(context).begin();
  const Operator op = sign == '-' ? Operator::negate : sign == '!' ? Operator::complement : Operator::logical_not;
  x3::_val(context) = Piece::Prefix{op, matched(context)};
};

const auto word_char = x3::ascii::alnum | x3::char_('_');
const auto name_def = x3::raw[x3::lexeme[(x3::ascii::alpha | x3::char_('_')) >> *word_char]][take_name];
// Takes letters along, so that `8kb` is one malformed number.
const auto number_def =
    x3::raw[x3::lexeme[+x3::ascii::digit >> -('.' >> +x3::ascii::digit) >>
                       -(x3::char_("eE") >> x3::char_("+-") >> +x3::ascii::digit) >> *word_char]][take_range];
const auto infix_def = infix_signs | x3::lexeme[infix_words >> word_end];
const auto prefix_def =
    x3::raw[x3::lexeme[x3::char_('-') | (x3::char_('!') >> !x3::lit('=')) | keyword("not")]][take_prefix];
const auto semicolon_def = x3::raw[x3::lit(';')][take_range];
const auto close_square_def = x3::raw[x3::lit(']')][take_range];
const auto close_round_def = x3::raw[x3::lit(')')][take_range];
const auto close_curly_def = x3::raw[x3::lit('}')][take_range];
const auto open_curly_def = x3::raw[x3::lit('{')][take_range];

BOOST_SPIRIT_DEFINE(name, number, infix, prefix, semicolon, close_square, close_round, close_curly, open_curly)

// ---- Expressions -------------------------------------------------------------------------------

/// A name, perhaps called; a list; something in parentheses: what is read before a node is made.
struct Bracketed {
  Name word;
  bool called = false;
  std::uint32_t begin = 0, end = 0;
  Items items;
  std::vector<RawArg> args;
};

/// An expression with what other languages write behind it: see Builder::choice.
struct Chosen {
  Node first;
  std::vector<RawChoice> choices;
};

const x3::rule<struct ExpressionTag, Node> expression = "an expression";
const x3::rule<struct ChosenTag, Chosen> chosen = "an expression";
const x3::rule<struct ChoiceTag, RawChoice> choice = "an expression";
const x3::rule<struct ElseTag> else_word = "'else'";
const x3::rule<struct AssignedTag, Name> assigned = "a name";
const x3::rule<struct OperandTag, Piece> operand = "an expression";
const x3::rule<struct PostfixTag, Node> postfix = "an expression";
const x3::rule<struct PrimaryTag, Node> primary = "an expression";
const x3::rule<struct ListTag, Bracketed> list = "a list";
const x3::rule<struct ParenthesesTag, Bracketed> parentheses = "an expression";
const x3::rule<struct CallTag, Bracketed> name_or_call = "a name";
const x3::rule<struct IndicesTag, Bracketed> indices = "indices";
const x3::rule<struct ArgumentTag, RawArg> argument = "an argument";
const x3::rule<struct PiecesTag, std::vector<Piece>> pieces = "an expression";

const auto put_item = [](auto& context) { x3::_val(context).items.push_back(std::move(x3::_attr(context))); };
const auto put_begin = [](auto& context) { x3::_val(context).begin = matched(context).begin; };
const auto put_end = [](auto& context) { x3::_val(context).end = x3::_attr(context).end; };
const auto put_word = [](auto& context) {
  x3::_val(context).word = x3::_attr(context);
  x3::_val(context).begin = x3::_attr(context).range.begin;
  x3::_val(context).end = x3::_attr(context).range.end;
};
const auto put_argument = [](auto& context) { x3::_val(context).args.push_back(std::move(x3::_attr(context))); };
const auto put_called = [](auto& context) { x3::_val(context).called = true; };

const auto argument_name = [](auto& context) { x3::_val(context).name = x3::_attr(context); };
const auto argument_value = [](auto& context) { x3::_val(context).value = std::move(x3::_attr(context)); };
const auto argument_body = [](auto& context) { x3::_val(context).body = std::move(x3::_attr(context)); };

const auto more_items = *(',' > expression[put_item]);
const auto list_def =
    (x3::raw[x3::lit('[')][put_begin] >> -(expression[put_item] >> more_items)) > close_square[put_end];
const auto indices_def = x3::lit('[') > expression[put_item] > more_items > close_square[put_end];
const auto parentheses_def = x3::raw[x3::lit('(')][put_begin] > expression[put_item] > close_round[put_end];
const auto take_assigned = [](auto& context) { x3::_val(context) = x3::_attr(context); };
const auto report_assigned = [](auto& context) {
  builder(context).assigned(x3::_val(context).range, matched(context));
};
const auto assigned_def = name[take_assigned] >> x3::raw[x3::lit('=') >> !x3::lit('=')][report_assigned];
const auto argument_def = -((name >> ':')[argument_name] | assigned[argument_name]) >> expression[argument_value] >>
                          -(':' > expression[argument_body]);
const auto arguments = argument[put_argument] >> *(',' > argument[put_argument]);
const auto name_or_call_def = name[put_word] >> -((x3::lit('(')[put_called] >> -arguments) > close_round[put_end]);

const auto make_number = [](auto& context) { x3::_val(context) = builder(context).number(x3::_attr(context)); };
const auto make_list = [](auto& context) {
  Bracketed& read = x3::_attr(context);
  x3::_val(context) = builder(context).list({read.begin, read.end}, std::move(read.items));
};
const auto make_parenthesized = [](auto& context) {
  Bracketed& read = x3::_attr(context);
  x3::_val(context) = builder(context).parenthesized(std::move(read.items.front()), {read.begin, read.end});
};
const auto make_named = [](auto& context) {
  Bracketed& read = x3::_attr(context);
  Builder& b = builder(context);
  x3::_val(context) = read.called ? b.call(read.word, {read.begin, read.end}, std::move(read.args)) : b.name(read.word);
};
const auto make_index = [](auto& context) {
  Bracketed& read = x3::_attr(context);
  x3::_val(context) = builder(context).index(std::move(x3::_val(context)), std::move(read.items), read.end);
};

const auto primary_def =
    number[make_number] | list[make_list] | parentheses[make_parenthesized] | name_or_call[make_named];
const auto postfix_def =
    primary[([](auto& context) { x3::_val(context) = std::move(x3::_attr(context)); })] >> *indices[make_index];

const auto put_prefix = [](auto& context) { x3::_val(context).prefixes.push_back(x3::_attr(context)); };
const auto put_operand = [](auto& context) { x3::_val(context).operand = std::move(x3::_attr(context)); };
const auto operand_def = postfix[put_operand] | (+prefix[put_prefix] > postfix[put_operand]);

const auto first_piece = [](auto& context) { x3::_val(context).push_back(std::move(x3::_attr(context))); };
const auto next_infix = [](auto& context) {
  x3::_val(context).emplace_back();
  x3::_val(context).back().infix = x3::_attr(context);
};
const auto next_piece = [](auto& context) {
  Piece& piece = x3::_attr(context);
  piece.infix = x3::_val(context).back().infix;
  x3::_val(context).back() = std::move(piece);
};
const auto pieces_def = operand[first_piece] >> *(infix[next_infix] > operand[next_piece]);
const auto c_choice = [](auto& context) { x3::_val(context).condition_first = true; };
const auto choice_second = [](auto& context) {
  x3::_val(context).second = builder(context).expression(std::move(x3::_attr(context)));
};
const auto choice_third = [](auto& context) {
  x3::_val(context).third = builder(context).expression(std::move(x3::_attr(context)));
};
const auto else_word_def = keyword("else");
// A list of choices, not a choice in a choice: the grammar recurses on brackets only.
const auto choice_def = (x3::lit('?')[c_choice] > pieces[choice_second] > ':' > pieces[choice_third]) |
                        (keyword("if") > pieces[choice_second] > else_word > pieces[choice_third]);
const auto chosen_first = [](auto& context) {
  x3::_val(context).first = builder(context).expression(std::move(x3::_attr(context)));
};
const auto chosen_more = [](auto& context) { x3::_val(context).choices.push_back(std::move(x3::_attr(context))); };
const auto chosen_def = pieces[chosen_first] >> *choice[chosen_more];
const auto make_expression = [](auto& context) {
  Chosen& read = x3::_attr(context);
  x3::_val(context) =
      read.choices.empty() ? std::move(read.first) : builder(context).choice(std::move(read.first), read.choices);
};
const auto expression_def = chosen[make_expression];

BOOST_SPIRIT_DEFINE(expression, operand, postfix, primary, list, parentheses, name_or_call, indices, argument, pieces,
                    chosen, choice, else_word, assigned)

// ---- Statements ----------------------------------------------------------------------------------

struct StatementTag : Recovering<&Builder::after_statement> {};
struct EntryTag : Recovering<&Builder::after_statement> {};
const x3::rule<StatementTag, Statement> statement = "a statement";
const x3::rule<EntryTag, ScheduleEntry> entry = "a schedule entry";
const x3::rule<struct HeadsWordTag> heads_word = "'heads'";

/// Stores the attribute in a member of the rule's value.
template <typename Owner, typename Member>
auto put(Member Owner::*member) {
  return [member](auto& context) { x3::_val(context).*member = std::move(x3::_attr(context)); };
}
const auto put_value = put(&Statement::value);
const auto put_second = put(&Statement::second);
const auto put_user_word = [](auto& context) {
  x3::_val(context).word = std::string(x3::_attr(context).text);
  x3::_val(context).name_range = x3::_attr(context).range;
};
const auto put_type = [](auto& context) {
  x3::_val(context).type = std::string(x3::_attr(context).text);
  x3::_val(context).type_range = x3::_attr(context).range;
};
const auto put_extent = [](auto& context) {
  builder(context).add_extent(x3::_val(context), std::move(x3::_attr(context)));
};
const auto put_axis = [](auto& context) {
  builder(context).add_axis(x3::_val(context), std::move(x3::_attr(context)));
};
const auto put_entry = [](auto& context) { x3::_val(context).schedule.push_back(std::move(x3::_attr(context))); };
const auto put_statement_end = [](auto& context) { x3::_val(context).range.end = x3::_attr(context).end; };
const auto put_detached = [](auto& context) {
  x3::_val(context).detached = true;
  x3::_val(context).detached_range = matched(context);
};
const auto put_multiple = [](auto& context) { x3::_val(context).word = "multiple_of"; };
/// `any` stands for a value; only as a whole, so that `any(…)` stays a call.
const auto put_tokens = [](auto& context) {
  Statement& made = x3::_val(context);
  made.value = x3::_attr(context);
  if (made.word.empty() && made.value->kind == ExprKind::name && made.value->word == "any") {
    made.value = nullptr;
    made.word = "any";
  }
};
const auto put_ranks = [](auto& context) {
  const Node& ranks = x3::_attr(context);
  if (ranks->kind != ExprKind::name || ranks->word != "any") x3::_val(context).value = ranks;
};

/// The word a statement begins with.
auto begin(StatementKind kind) {
  return x3::raw[keyword(spelling(kind))][([kind](auto& context) {
    Statement& made = x3::_val(context);
    made.kind = kind;
    made.word_range = made.range = matched(context);
  })];
}

const auto end = semicolon[put_statement_end];
const auto value = expression[put_value];

const auto heads = begin(StatementKind::heads) > value > -(keyword("kv") > expression[put_second]) > end;
const auto dim = begin(StatementKind::dim) > value > -(keyword("value") > expression[put_second]) > end;
const auto dtype = begin(StatementKind::dtype) > name[put_user_word] > end;
const auto tokens = begin(StatementKind::tokens) > -keyword("multiple_of")[put_multiple] > expression[put_tokens] > end;
const auto grid = begin(StatementKind::grid) > expression[put_extent] > *(',' > expression[put_extent]) > end;
const auto input = begin(StatementKind::input) > name[put_user_word] > ':' > name[put_type] > '[' >
                   expression[put_axis] > *(',' > expression[put_axis]) > close_square > end;
const auto let = begin(StatementKind::let) > name[put_user_word] > '=' > value > end;
const auto branch = begin(StatementKind::branch) > value > -(keyword("on") > heads_word > expression[put_second]) > end;
const auto combine =
    begin(StatementKind::combine) > name[put_user_word] > -x3::raw[keyword("detached")][put_detached] > end;
const auto weights = begin(StatementKind::weights) > name[put_user_word] >
                     -('(' > -expression[put_value] > close_round) > end;
const auto ring = begin(StatementKind::ring) > expression[put_ranks] > -name[put_user_word] > end;
const auto schedule =
    begin(StatementKind::schedule) > open_curly > *entry[put_entry] > close_curly[put_statement_end] > -end;
auto simple(StatementKind kind) { return begin(kind) > value > end; }

const auto put_key = [](auto& context) {
  x3::_val(context).key = std::string(x3::_attr(context).text);
  x3::_val(context).key_range = x3::_attr(context).range;
};
const auto entry_def = name[put_key] > ':' > expression[put(&ScheduleEntry::value)] > semicolon;

const auto heads_word_def = keyword("heads");
const auto statement_def = heads | dim | dtype | tokens | grid | input | let | branch |
                           simple(StatementKind::branches) | simple(StatementKind::keep) | combine |
                           simple(StatementKind::scale) | simple(StatementKind::score) |
                           simple(StatementKind::sink_logit) | weights | simple(StatementKind::dropout) | ring |
                           schedule | simple(StatementKind::use);

BOOST_SPIRIT_DEFINE(statement, entry, heads_word)

// ---- Files -----------------------------------------------------------------------------------------

struct HeaderTag : Recovering<&Builder::after_header> {};
struct ConstantTag : Recovering<&Builder::after_statement> {};
/// A header that went wrong may end where no body begins.
struct PatternTag : Recovering<&Builder::after_item> {};
/// A missing `}` is told at its `{`; the next pattern is read as if the brace were there.
struct BodyTag {
  template <typename Exception, typename Context>
  x3::error_handler_result on_error(Iterator& first, const Iterator&, const Exception& error, const Context& context) {
    Builder& b = builder(context);
    if (error.which() == "'}'") {
      b.unclosed(error.where());
    } else {
      b.expected(error.which(), error.where());
    }
    if (b.full()) throw Enough();
    first = b.after_item(error.where());
    return x3::error_handler_result::accept;
  }
};

struct Type {
  Name word;
  bool list = false;
  SourceRange range;
};
struct Body {
  SourceRange range;
  std::vector<Statement> statements;
};

const x3::rule<struct TypeTag, Type> type = "a type";
const x3::rule<struct ParamTag, Param> param = "a parameter";
const x3::rule<HeaderTag, PatternDef> header = "a pattern";
const x3::rule<BodyTag, Body> body = "'{'";
const x3::rule<PatternTag, PatternDef> pattern = "a pattern";
const x3::rule<ConstantTag, ConstDef> constant = "a constant";
const x3::rule<struct FileTag> file = "a file";

const auto type_word = [](auto& context) {
  x3::_val(context).word = x3::_attr(context);
  x3::_val(context).range = x3::_attr(context).range;
};
const auto type_list_begin = [](auto& context) {
  x3::_val(context).list = true;
  x3::_val(context).range = matched(context);
};
const auto type_list_word = [](auto& context) { x3::_val(context).word = x3::_attr(context); };
const auto type_list_end = [](auto& context) { x3::_val(context).range.end = x3::_attr(context).end; };
const auto type_def =
    name[type_word] | (x3::raw[x3::lit('[')][type_list_begin] > name[type_list_word] > close_square[type_list_end]);

const auto put_name = [](auto& context) {
  x3::_val(context).name = std::string(x3::_attr(context).text);
  x3::_val(context).name_range = x3::_val(context).range = x3::_attr(context).range;
};
const auto put_param_type = [](auto& context) {
  const Type& read = x3::_attr(context);
  x3::_val(context).type = builder(context).param_type(read.word, read.list);
  x3::_val(context).range.end = read.range.end;
};
const auto put_fallback = [](auto& context) {
  x3::_val(context).fallback = x3::_attr(context);
  x3::_val(context).range.end = x3::_attr(context)->outer.end;
};
const auto param_def = name[put_name] > ':' > type[put_param_type] > -('=' > expression[put_fallback]);

const auto item_begin = [](auto& context) { x3::_val(context).range = matched(context); };
const auto put_item_name = [](auto& context) {
  x3::_val(context).name = std::string(x3::_attr(context).text);
  x3::_val(context).name_range = x3::_attr(context).range;
};
const auto put_param = [](auto& context) { x3::_val(context).params.push_back(std::move(x3::_attr(context))); };
const auto header_def = x3::raw[keyword("pattern")][item_begin] > name[put_item_name] >
                        -('(' > -(param[put_param] >> *(',' > param[put_param])) > close_round);

const auto body_begin = [](auto& context) {
  x3::_val(context).range = x3::_attr(context);
  builder(context).opened(x3::_attr(context));
};
const auto body_end = [](auto& context) { x3::_val(context).range.end = x3::_attr(context).end; };
const auto put_statement = [](auto& context) { x3::_val(context).statements.push_back(std::move(x3::_attr(context))); };
const auto body_def = open_curly[body_begin] > *(statement[put_statement] | Unknown(true)) > close_curly[body_end];

const auto take_header = [](auto& context) { x3::_val(context) = std::move(x3::_attr(context)); };
const auto take_body = [](auto& context) {
  PatternDef& made = x3::_val(context);
  made.body = x3::_attr(context).range;
  made.range.end = made.body.end;
  made.statements = std::move(x3::_attr(context).statements);
};
const auto pattern_def = header[take_header] > body[take_body];

const auto put_constant_end = [](auto& context) { x3::_val(context).range.end = x3::_attr(context).end; };
const auto constant_def = x3::raw[keyword("const")][item_begin] > name[put_item_name] > '=' >
                          expression[put(&ConstDef::value)] > semicolon[put_constant_end];

const auto add_pattern = [](auto& context) {
  x3::get<file_tag>(context).get().patterns.push_back(std::move(x3::_attr(context)));
};
const auto add_constant = [](auto& context) {
  x3::get<file_tag>(context).get().constants.push_back(std::move(x3::_attr(context)));
};
const auto file_def = *(pattern[add_pattern] | constant[add_constant] | Unknown(false)) > x3::eoi;

BOOST_SPIRIT_DEFINE(type, param, header, body, pattern, constant, file)

}  // namespace

void run_grammar(std::string_view text, Builder& builder, File& file_made) {
  Iterator first = text.data();
  const Iterator last = first + text.size();
  try {
    x3::phrase_parse(first, last,
                     x3::with<builder_tag>(std::ref(builder))[x3::with<file_tag>(std::ref(file_made))[file]],
                     x3::ascii::space);
  } catch (const Enough&) {
    // What was found so far is reported.
  }
}

}  // namespace weft::dsl
