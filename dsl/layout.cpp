#include "dsl/layout.h"

#include <algorithm>
#include <utility>

namespace weft::dsl {

Layout::Id Layout::add(Node node) {
  for (const Id part : node.parts) node.breaks |= nodes_[part].breaks;
  nodes_.push_back(std::move(node));
  return static_cast<Id>(nodes_.size() - 1);
}

Layout::Id Layout::text(std::string text) { return add({.kind = Kind::text, .text = std::move(text)}); }
Layout::Id Layout::space() { return add({.kind = Kind::space, .text = " "}); }
Layout::Id Layout::softbreak() { return add({.kind = Kind::softbreak}); }
Layout::Id Layout::new_line() { return add({.kind = Kind::new_line, .breaks = true}); }
Layout::Id Layout::concat(std::vector<Id> parts) { return add({.kind = Kind::concat, .parts = std::move(parts)}); }
Layout::Id Layout::group(Id content) { return add({.kind = Kind::group, .parts = {content}}); }
Layout::Id Layout::packed(Id content) { return add({.kind = Kind::packed, .parts = {content}}); }
Layout::Id Layout::nest(int by, Id content) { return add({.kind = Kind::nest, .parts = {content}, .by = by}); }

/// Does `todo`, flat, and what follows it up to the next possible new line, fit into `room`?
bool Layout::fits(std::vector<Todo> todo, const std::vector<Todo>& rest, int room) const {
  std::size_t next = rest.size();
  while (room >= 0) {
    if (todo.empty()) {
      if (next == 0) return true;
      todo.push_back(rest[--next]);
    }
    const Todo item = todo.back();
    todo.pop_back();
    const Node& node = nodes_[item.id];
    const bool may_break = node.kind == Kind::space || node.kind == Kind::softbreak || node.kind == Kind::new_line;
    if (may_break && (!item.flat || node.kind == Kind::new_line)) return true;
    room -= static_cast<int>(std::min<std::size_t>(node.text.size(), 1U << 20));
    for (auto part = node.parts.rbegin(); part != node.parts.rend(); ++part) {
      todo.push_back({*part, item.indent, item.flat || (node.kind == Kind::group && !node.breaks)});
    }
  }
  return false;
}

std::string Layout::render(Id root, int indent, int column) const {
  std::string out;
  std::vector<Todo> todo{{root, indent, false}};
  while (!todo.empty()) {
    const Todo item = todo.back();
    todo.pop_back();
    const Node& node = nodes_[item.id];
    const bool may_break = node.kind == Kind::space || node.kind == Kind::softbreak || node.kind == Kind::new_line;
    if (may_break && !item.flat) {
      out += '\n';
      out.append(static_cast<std::size_t>(item.indent), ' ');
      column = item.indent;
      continue;
    }
    out += node.text;
    column += static_cast<int>(node.text.size());
    bool flat = item.flat;
    const bool is_group = node.kind == Kind::group || node.kind == Kind::packed;
    if (is_group && !flat && !node.breaks) {
      flat = fits({{node.parts.front(), item.indent, true}}, todo, kLineWidth - column);
    }
    for (auto part = node.parts.rbegin(); part != node.parts.rend(); ++part) {
      todo.push_back({*part, item.indent + node.by, flat});
    }
  }
  return out;
}

}  // namespace weft::dsl
