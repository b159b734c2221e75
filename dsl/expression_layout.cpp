#include "dsl/expression_layout.h"

#include "dsl/operators.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::dsl {
namespace {

struct Link {
  Operator op;
  const Expr* operand;
};

bool has_parentheses(const Expr& e) { return !(e.outer == e.range); }

/// `a - b + c` as the text has it: operands from left to right, each behind the first with its operator.
std::vector<Link> links(const Expr& e) {
  std::vector<Link> chain;
  if (e.kind == ExprKind::compare) {
    for (std::size_t i = 0; i < e.args.size(); ++i) {
      chain.push_back({i == 0 ? Operator::none : e.ops[i - 1], e.args[i].value.get()});
    }
    return chain;
  }
  const Expr* at = &e;
  for (; at->kind == ExprKind::binary && level_of(*at) == level_of(e) && (at == &e || !has_parentheses(*at));
       at = at->args[0].value.get()) {
    chain.push_back({at->op, at->args[1].value.get()});
  }
  chain.push_back({Operator::none, at});
  std::reverse(chain.begin(), chain.end());
  return chain;
}

bool is_simple(const Expr& e) {
  return e.kind == ExprKind::name || e.kind == ExprKind::integer || e.kind == ExprKind::real;
}

bool hugs(const Expr& e);

/// `k >= select(…)` stays on the line of its operator: the brackets break better.
bool is_tight(const Expr& e) {
  const bool joins = e.kind == ExprKind::compare || e.kind == ExprKind::binary;
  return joins && level_of(e) >= kChainLevel && e.op != Operator::unite && e.args.size() == 2 &&
         is_simple(*e.args[0].value) && hugs(*e.args[1].value);
}

bool hugs(const Expr& e) {
  return has_parentheses(e) || e.kind == ExprKind::call || e.kind == ExprKind::comprehension || is_tight(e);
}

}  // namespace

std::string comment_text(const Comment& comment) { return "#" + comment.text; }

Layout::Id ExpressionLayout::gap(std::uint32_t next, Layout::Id otherwise) {
  if (!comments_.before(next)) return otherwise;
  std::vector<Layout::Id> parts;
  while (comments_.before(next)) {
    const Comment& comment = comments_.take();
    const bool trails = parts.empty() && comments_.trails(comment);
    if (!trails) parts.push_back(layout_.new_line());
    parts.push_back(layout_.text((trails ? "  " : "") + comment_text(comment)));
  }
  parts.push_back(layout_.new_line());
  return layout_.concat(std::move(parts));
}

Layout::Id ExpressionLayout::expression(const Expr& e, int step) {
  return has_parentheses(e) ? parentheses(e) : bare(e, step);
}

Layout::Id ExpressionLayout::bare(const Expr& e, int step) {
  switch (e.kind) {
    case ExprKind::integer:
    case ExprKind::real:
      return layout_.text(e.spelling);
    case ExprKind::boolean:
      return layout_.text(e.boolean ? "true" : "false");
    case ExprKind::name:
      return layout_.text(e.word);
    case ExprKind::list:
      return list(e);
    case ExprKind::range: {
      const Layout::Id lo = expression(*e.args[0].value);
      const Layout::Id dots = layout_.concat({layout_.text(".."), gap(e.args[1].value->outer.begin, layout_.text(""))});
      return layout_.concat({lo, dots, expression(*e.args[1].value)});
    }
    case ExprKind::call:
      return call(e);
    case ExprKind::comprehension:
      return comprehension(e);
    case ExprKind::index:
      return index(e);
    case ExprKind::unary:
      return unary(e);
    case ExprKind::binary:
    case ExprKind::compare:
      return chain(e, step);
  }
  return layout_.text("");
}

Layout::Id ExpressionLayout::chain(const Expr& e, int step) {
  const bool tight = is_tight(e);
  std::vector<Layout::Id> rest;
  Layout::Id first = 0;
  for (const Link& link : links(e)) {
    if (link.op == Operator::none) {
      first = expression(*link.operand);
      continue;
    }
    rest.push_back(gap(link.operand->outer.begin, tight ? layout_.text(" ") : layout_.space()));
    rest.push_back(layout_.text(fmt::format("{} ", info(link.op).spelling)));
    rest.push_back(expression(*link.operand));
  }
  return layout_.group(layout_.concat({first, layout_.nest(tight ? 0 : step, layout_.concat(std::move(rest)))}));
}

Layout::Id ExpressionLayout::unary(const Expr& e) {
  const Expr& operand = *e.args[0].value;
  const std::string sign = e.op == Operator::logical_not ? "not " : std::string(info(e.op).spelling);
  const Layout::Id between = gap(operand.outer.begin, layout_.text(""));
  return layout_.concat({layout_.text(sign), between, expression(operand)});
}

Layout::Id ExpressionLayout::parentheses(const Expr& e) {
  return bracketed("(", {{e.range.begin, [&] { return bare(e, 0); }}}, ")", e.outer.end, Packing::one_a_line);
}

std::vector<ExpressionLayout::Item> ExpressionLayout::items(const Expr& e, std::size_t from) {
  const int step = e.args.size() - from == 1 ? 0 : 2;
  std::vector<Item> list;
  for (std::size_t i = from; i < e.args.size(); ++i) {
    const Arg& arg = e.args[i];
    if (arg.name.empty()) {
      list.push_back({arg.value->outer.begin, [this, &arg, step] { return expression(*arg.value, step); }});
      continue;
    }
    list.push_back({arg.name_range.begin, [this, &arg] {
                      const Layout::Id name = layout_.text(arg.name + ":");
                      const Layout::Id between = gap(arg.value->outer.begin, layout_.text(" "));
                      return layout_.concat({name, between, expression(*arg.value)});
                    }});
  }
  return list;
}

Layout::Id ExpressionLayout::call(const Expr& e) {
  return bracketed(e.word + "(", items(e, 0), ")", e.range.end, Packing::one_a_line);
}

Layout::Id ExpressionLayout::list(const Expr& e) {
  return bracketed("[", items(e, 0), "]", e.range.end, Packing::dense);
}

Layout::Id ExpressionLayout::index(const Expr& e) {
  const Layout::Id base = expression(*e.args[0].value);
  return layout_.concat({base, bracketed("[", items(e, 1), "]", e.range.end, Packing::one_a_line)});
}

Layout::Id ExpressionLayout::comprehension(const Expr& e) {
  const Expr& list = *e.args[0].value;
  const Expr& body = *e.args[1].value;
  const auto make = [&] {
    const Layout::Id variable = layout_.text(e.variable + " in ");
    const Layout::Id items = layout_.concat({gap(list.outer.begin, layout_.text("")), expression(list)});
    const Layout::Id between = gap(body.outer.begin, layout_.space());
    const Layout::Id inner = layout_.nest(2, layout_.concat({between, expression(body)}));
    return layout_.group(layout_.concat({variable, items, layout_.text(":"), inner}));
  };
  return bracketed(e.word + "(", {{e.variable_range.begin, make}}, ")", e.range.end, Packing::one_a_line);
}

Layout::Id ExpressionLayout::sequence(const std::vector<Item>& items, Packing packing) {
  std::vector<Layout::Id> parts;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i == 0) {
      parts.push_back(items[i].make());
      continue;
    }
    const Layout::Id between = gap(items[i].begin, layout_.space());
    const Layout::Id both = layout_.concat({between, items[i].make()});
    parts.push_back(layout_.text(","));
    parts.push_back(packing == Packing::dense ? layout_.packed(both) : both);
  }
  return layout_.concat(std::move(parts));
}

Layout::Id ExpressionLayout::bracketed(const std::string& open, const std::vector<Item>& items,
                                       const std::string& close, std::uint32_t end, Packing packing) {
  if (items.empty() && !comments_.before(end)) return layout_.text(open + close);
  const Layout::Id first = items.empty() ? layout_.text("") : gap(items.front().begin, layout_.softbreak());
  const Layout::Id inside = layout_.nest(2, layout_.concat({first, sequence(items, packing)}));
  const Layout::Id last = gap(end, layout_.softbreak());
  return layout_.group(layout_.concat({layout_.text(open), inside, last, layout_.text(close)}));
}

}  // namespace weft::dsl
