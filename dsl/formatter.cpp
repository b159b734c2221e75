#include "dsl/comments.h"
#include "dsl/expression_layout.h"
#include "dsl/layout.h"
#include "dsl/parse.h"
#include "dsl/printer.h"
#include "dsl/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace weft::dsl {
namespace {

constexpr int kIndent = 2;

/// Writes one definition after the other, each laid out for itself, and what the user may choose:
/// blank lines, and statements that share a line.
class Formatter {
 public:
  Formatter(const File& file, const Source& source)
      : file_(file), text_(source.text), comments_(file.comments, source.text) {}

  std::string run() && {
    auto constant = file_.constants.begin();
    auto pattern = file_.patterns.begin();
    while (constant != file_.constants.end() || pattern != file_.patterns.end()) {
      const bool constant_next = pattern == file_.patterns.end() ||
                                 (constant != file_.constants.end() && constant->range.begin < pattern->range.begin);
      if (constant_next) {
        put_item(constant->range, last_was_pattern_);
        put(*constant++);
      } else {
        put_item(pattern->range, !out_.empty());
        put(*pattern++);
      }
      last_was_pattern_ = !constant_next;
    }
    own_line_comments(static_cast<std::uint32_t>(text_.size()) + 1, 0, last_was_pattern_);
    return std::move(out_);
  }

 private:
  // ---- Lines -----------------------------------------------------------------------------------

  std::size_t column() const {
    const std::size_t line = out_.rfind('\n');
    return line == std::string::npos ? out_.size() : out_.size() - line - 1;
  }

  bool line_is_open() const { return !out_.empty() && out_.back() != '\n'; }

  void end_line() {
    if (line_is_open()) out_ += '\n';
  }

  /// At most one blank line, and none at the beginning of a file or body.
  void blank_line() {
    const bool nothing_yet = out_.empty() || out_.ends_with("\n\n") || out_.size() == body_began_;
    if (!nothing_yet) out_ += '\n';
  }

  std::size_t new_lines(std::uint32_t begin, std::uint32_t end) const {
    const auto first = text_.begin() + begin;
    return static_cast<std::size_t>(std::count(first, text_.begin() + std::max(begin, end), '\n'));
  }

  /// Comments before `place`: one behind what was written last, the others on lines of their own.
  void own_line_comments(std::uint32_t place, int indent, bool apart) {
    while (comments_.before(place)) {
      const Comment& comment = comments_.take();
      if (line_is_open() && comments_.trails(comment)) {
        out_ += "  " + comment_text(comment) + "\n";
      } else {
        end_line();
        if (apart || new_lines(last_, comment.range.begin) > 1) blank_line();
        apart = false;
        out_ += std::string(static_cast<std::size_t>(indent), ' ') + comment_text(comment) + "\n";
      }
      last_ = comment.range.end;
    }
  }

  /// Comments inside a statement that found no place of their own there.
  void left_over_comments(std::uint32_t end, int indent) {
    while (comments_.before(end)) {
      const Comment& comment = comments_.take();
      if (line_is_open()) {
        out_ += "  " + comment_text(comment) + "\n";
      } else {
        out_ += std::string(static_cast<std::size_t>(indent), ' ') + comment_text(comment) + "\n";
      }
    }
  }

  /// Brings the output to the line on which something at `range` begins.
  void put_item(SourceRange range, bool apart) {
    // Only what ends the line of the last item belongs to it; the rest belongs to the next.
    while (comments_.before(range.begin) && line_is_open() && comments_.trails(comments_.peek())) {
      own_line_comments(comments_.peek().range.begin + 1, 0, false);
    }
    end_line();
    const bool commented = comments_.before(range.begin);
    own_line_comments(range.begin, 0, apart);
    if ((apart && !commented) || new_lines(last_, range.begin) > 1) blank_line();
    last_ = range.end;
  }

  // ---- Definitions -----------------------------------------------------------------------------

  void put(const ConstDef& constant) {
    Layout layout;
    ExpressionLayout expressions(layout, comments_);
    const Layout::Id value = expressions.expression(*constant.value);
    const Layout::Id all =
        layout.concat({layout.text(fmt::format("const {} = ", constant.name)), value, layout.text(";")});
    out_ += layout.render(all, 0, 0);
    left_over_comments(constant.range.end, 0);
  }

  void put(const PatternDef& pattern) {
    out_ += header(pattern);
    const bool empty = pattern.statements.empty() && !comments_.before(pattern.range.end);
    if (empty) {
      out_ += " { }";
    } else if (!put_on_one_line(pattern)) {
      put_body(pattern);
    }
    last_ = pattern.range.end;
  }

  std::string header(const PatternDef& pattern) {
    Layout layout;
    ExpressionLayout expressions(layout, comments_);
    const std::string name = fmt::format("pattern {}", pattern.name);
    if (pattern.params.empty()) return name;
    std::vector<ExpressionLayout::Item> params;
    for (const Param& param : pattern.params) {
      params.push_back({param.range.begin, [&layout, &expressions, &param] {
                          const std::string typed = fmt::format("{}: {}", param.name, to_string(param.type));
                          if (!param.fallback) return layout.text(typed);
                          const Layout::Id begin = layout.text(typed + " = ");
                          return layout.concat({begin, expressions.expression(*param.fallback)});
                        }});
    }
    return layout.render(
        expressions.bracketed(name + "(", params, ")", pattern.body.begin, ExpressionLayout::Packing::one_a_line), 0,
        0);
  }

  /// `pattern p { keep causal; }`, if the user wrote it so and it fits.
  bool put_on_one_line(const PatternDef& pattern) {
    if (comments_.before(pattern.range.end) || new_lines(pattern.body.begin, pattern.body.end) > 0) return false;
    std::string line = " {";
    for (const Statement& s : pattern.statements) line += " " + statement(s);
    line += " }";
    const bool fits = line.find('\n') == std::string::npos && column() + line.size() <= kLineWidth;
    if (fits) out_ += line;
    return fits;
  }

  void put_body(const PatternDef& pattern) {
    out_ += " {";
    last_ = pattern.body.begin + 1;
    left_over_comments(pattern.body.begin, kIndent);
    trailing_comment(pattern.range.end);
    end_line();
    body_began_ = out_.size();
    for (const Statement& s : pattern.statements) put(s);
    trailing_comment(pattern.range.end);
    end_line();
    own_line_comments(pattern.range.end, kIndent, false);
    end_line();
    out_ += "}";
  }

  void trailing_comment(std::uint32_t end) {
    if (!comments_.before(end) || !line_is_open() || !comments_.trails(comments_.peek())) return;
    if (new_lines(last_, comments_.peek().range.begin) > 0) return;
    own_line_comments(comments_.peek().range.begin + 1, kIndent, false);
  }

  void put(const Statement& s) {
    trailing_comment(s.range.begin);
    const bool joined = line_is_open() && !comments_.before(s.range.begin) && new_lines(last_, s.range.begin) == 0;
    if (!joined) {
      end_line();
      own_line_comments(s.range.begin, kIndent, false);
      if (new_lines(last_, s.range.begin) > 1) blank_line();
    }
    const std::string text = statement(s);
    const bool one_line = text.find('\n') == std::string::npos;
    if (joined && one_line && last_was_one_line_ && column() + 1 + text.size() <= kLineWidth) {
      out_ += " " + text;
    } else {
      end_line();
      out_ += std::string(kIndent, ' ') + text;
    }
    last_was_one_line_ = one_line;
    last_ = s.range.end;
    left_over_comments(s.range.end, kIndent);
  }

  // ---- Statements ------------------------------------------------------------------------------

  std::string statement(const Statement& s) {
    Layout layout;
    ExpressionLayout expressions(layout, comments_);
    std::vector<Layout::Id> parts{layout.text(std::string(spelling(s.kind)))};
    const auto word = [&](std::string_view text) { parts.push_back(layout.text(fmt::format(" {}", text))); };
    const auto value = [&](const ExprPtr& e) {
      if (!e) return;
      parts.push_back(expressions.gap(e->outer.begin, layout.text(" ")));
      parts.push_back(expressions.expression(*e));
    };
    switch (s.kind) {
      case StatementKind::heads:
        value(s.value);
        if (s.second) word("kv");
        value(s.second);
        break;
      case StatementKind::dim:
        value(s.value);
        if (s.second) word("value");
        value(s.second);
        break;
      case StatementKind::tokens:
        if (!s.word.empty()) word(s.word);
        value(s.value);
        break;
      case StatementKind::grid:
        parts.push_back(layout.text(" "));
        parts.push_back(
            layout.nest(kIndent, expressions.sequence(extents(s, expressions), ExpressionLayout::Packing::dense)));
        break;
      case StatementKind::input:
        parts.push_back(expressions.bracketed(fmt::format(" {}: {}[", s.word, s.type), axes(s, layout, expressions),
                                              "]", s.axes.back().range.end, ExpressionLayout::Packing::dense));
        break;
      case StatementKind::let:
        word(s.word);
        word("=");
        value(s.value);
        break;
      case StatementKind::branch:
        value(s.value);
        if (s.second) word("on heads");
        value(s.second);
        break;
      case StatementKind::dtype:
      case StatementKind::combine:
        word(s.word);
        if (s.detached) word("detached");
        break;
      case StatementKind::weights:
        if (!s.value) {
          word(s.word);
          break;
        }
        parts.push_back(expressions.bracketed(
            fmt::format(" {}(", s.word), {{s.value->outer.begin, [&] { return expressions.expression(*s.value); }}},
            ")", s.range.end, ExpressionLayout::Packing::dense));
        break;
      case StatementKind::ring:
        if (!s.value) word("any");
        value(s.value);
        if (!s.word.empty()) word(s.word);
        break;
      case StatementKind::schedule:
        return schedule(s);
      case StatementKind::branches:
      case StatementKind::keep:
      case StatementKind::scale:
      case StatementKind::score:
      case StatementKind::sink_logit:
      case StatementKind::dropout:
      case StatementKind::use:
        value(s.value);
        break;
    }
    parts.push_back(layout.text(";"));
    return layout.render(layout.concat(std::move(parts)), kIndent, kIndent);
  }

  static std::vector<ExpressionLayout::Item> extents(const Statement& s, ExpressionLayout& expressions) {
    std::vector<ExpressionLayout::Item> items;
    for (const ExprPtr& extent : s.extents) {
      items.push_back({extent->outer.begin, [&expressions, &extent] { return expressions.expression(*extent); }});
    }
    return items;
  }

  static std::vector<ExpressionLayout::Item> axes(const Statement& s, Layout& layout, ExpressionLayout& expressions) {
    std::vector<ExpressionLayout::Item> items;
    for (const Axis& axis : s.axes) {
      items.push_back({axis.range.begin, [&layout, &expressions, &axis] {
                         return axis.extent ? expressions.expression(*axis.extent) : layout.text(axis.word);
                       }});
    }
    return items;
  }

  std::string schedule(const Statement& s) {
    Layout layout;
    ExpressionLayout expressions(layout, comments_);
    if (s.schedule.empty() && !comments_.before(s.range.end)) return "schedule { }";
    const bool spread = new_lines(s.range.begin, s.range.end) > 0;
    std::vector<Layout::Id> parts;
    for (const ScheduleEntry& entry : s.schedule) {
      parts.push_back(expressions.gap(entry.key_range.begin, spread ? layout.new_line() : layout.space()));
      parts.push_back(layout.text(entry.key + ": "));
      parts.push_back(expressions.expression(*entry.value));
      parts.push_back(layout.text(";"));
    }
    const Layout::Id inside = layout.nest(kIndent, layout.concat(std::move(parts)));
    const Layout::Id last = expressions.gap(s.range.end, spread ? layout.new_line() : layout.space());
    const Layout::Id all = layout.concat({layout.text("schedule {"), inside, last, layout.text("}")});
    return layout.render(layout.group(all), kIndent, kIndent);
  }

  const File& file_;
  const std::string& text_;
  Comments comments_;
  std::string out_;
  std::uint32_t last_ = 0;      ///< where, in the source, what was written last ends
  std::size_t body_began_ = 0;  ///< in the output
  bool last_was_one_line_ = true;
  bool last_was_pattern_ = false;
};

}  // namespace

std::string format(const File& file, const Source& source) {
  std::string text = Formatter(file, source).run();
  if (!text.empty() && text.back() != '\n') text += '\n';
  return text;
}

}  // namespace weft::dsl
