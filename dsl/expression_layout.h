#pragma once

#include "dsl/comments.h"
#include "dsl/layout.h"

#include <functional>
#include <string>
#include <vector>

namespace weft::dsl {

/// Expressions as layouts, with the comments inside them. Comments come out in order, so expressions
/// must be laid out in the order of the text.
class ExpressionLayout {
 public:
  ExpressionLayout(Layout& layout, Comments& comments) : layout_(layout), comments_(comments) {}

  /// `step`: how much further the lines of an operator chain are indented behind its first.
  Layout::Id expression(const Expr& e, int step = 2);

  /// `open item, item close` with one item a line where it does not fit, or as many as fit.
  enum class Packing { one_a_line, dense };
  struct Item {
    std::uint32_t begin;
    std::function<Layout::Id()> make;
  };
  Layout::Id bracketed(const std::string& open, const std::vector<Item>& items, const std::string& close,
                       std::uint32_t end, Packing packing);

  /// The same without brackets.
  Layout::Id sequence(const std::vector<Item>& items, Packing packing);

  /// What separates two parts: `otherwise`, or the comments that stand there.
  Layout::Id gap(std::uint32_t next, Layout::Id otherwise);

 private:
  Layout::Id bare(const Expr& e, int step);
  Layout::Id chain(const Expr& e, int step);
  Layout::Id call(const Expr& e);
  Layout::Id list(const Expr& e);
  Layout::Id index(const Expr& e);
  Layout::Id comprehension(const Expr& e);
  Layout::Id parentheses(const Expr& e);
  Layout::Id unary(const Expr& e);
  std::vector<Item> items(const Expr& e, std::size_t from);

  Layout& layout_;
  Comments& comments_;
};

std::string comment_text(const Comment& comment);

}  // namespace weft::dsl
