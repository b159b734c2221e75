#include "compiler/base/diagnostic.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace weft {
namespace {

bool starts_code_point(char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }

std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), starts_code_point));
}

/// Control bytes would let a hostile file steer the terminal.
std::string printable(std::string_view text) {
  std::string out;
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out += c == '\t' ? ' ' : (byte < 0x20 || byte == 0x7F) ? '?' : c;
  }
  return out;
}

constexpr std::size_t kLongestLine = 160;

struct Painter {
  bool color;
  std::string paint(std::string_view text, std::string_view code) const {
    return color ? fmt::format("\033[{}m{}\033[0m", code, text) : std::string(text);
  }
};

void add_excerpt(std::string& out, const Source& source, SourceRange range, std::string_view label, char mark,
                 std::size_t gutter, const Painter& painter, std::string_view code) {
  const LineColumn at = locate(source, range.begin);
  std::string_view full = line_text(source, at.line);
  const auto line_begin = static_cast<std::size_t>(full.data() - source.text.data());
  std::size_t from = range.begin - line_begin;
  std::size_t to = std::min<std::size_t>(range.end > line_begin ? range.end - line_begin : 0, full.size());
  from = std::min(from, full.size());
  to = std::max(to, from);
  // A window of a very long line, so that hostile input cannot flood the terminal.
  std::size_t cut = 0;
  if (full.size() > kLongestLine) {
    cut = from > kLongestLine / 2 ? from - kLongestLine / 2 : 0;
    while (cut < full.size() && !starts_code_point(full[cut])) ++cut;
    full = full.substr(cut, kLongestLine);
    from -= std::min(from, cut);
    to = std::min(to - std::min(to, cut), full.size());
  }
  const std::string text = printable(full);
  const std::size_t carets = std::max<std::size_t>(1, width(full.substr(from, to - from)));
  out += fmt::format("{} {}\n", painter.paint(fmt::format("{:>{}} |", at.line, gutter), "1;34"), text);
  out += fmt::format("{} {}{}{}{}\n", painter.paint(fmt::format("{:>{}} |", "", gutter), "1;34"),
                     std::string(width(full.substr(0, from)), ' '), painter.paint(std::string(carets, mark), code),
                     label.empty() ? "" : " ", painter.paint(label, code));
}

}  // namespace

LineColumn locate(const Source& source, std::uint32_t offset) {
  const std::string_view before =
      std::string_view(source.text).substr(0, std::min<std::size_t>(offset, source.text.size()));
  const auto line = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
  const std::size_t start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return {line + 1, width(before.substr(start)) + 1};
}

std::string_view line_text(const Source& source, std::size_t line) {
  std::string_view rest = source.text;
  for (; line > 1; --line) {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) return rest.substr(rest.size());
    rest.remove_prefix(end + 1);
  }
  rest = rest.substr(0, rest.find('\n'));
  if (!rest.empty() && rest.back() == '\r') rest.remove_suffix(1);
  return rest;
}

std::string render(const Diagnostic& d, const Source& source, bool color) {
  const Painter painter{color};
  const bool is_error = d.severity == Severity::error;
  const std::string_view tone = is_error ? "1;31" : "1;33";
  const LineColumn at = locate(source, d.range.begin);
  std::size_t last = at.line;
  for (const auto& place : d.places) last = std::max(last, locate(source, place.range.begin).line);
  const std::size_t gutter = std::to_string(last).size() + 1;
  const std::string bar = painter.paint(fmt::format("{:>{}} |", "", gutter), "1;34");

  std::string out = painter.paint(fmt::format("{}[{}]", is_error ? "error" : "warning", d.code), tone);
  out += painter.paint(": " + printable(d.message), "1") + "\n";
  out += fmt::format("{}{} {}:{}:{}\n", std::string(gutter, ' '), painter.paint("-->", "1;34"), source.name, at.line,
                     at.column);
  out += bar + "\n";
  add_excerpt(out, source, d.range, printable(d.label), '^', gutter, painter, tone);
  for (const auto& place : d.places) {
    add_excerpt(out, source, place.range, printable(place.label), '-', gutter, painter, "1;34");
  }
  for (const auto& note : d.notes) {
    out += fmt::format("{:>{}} {} {}\n", "", gutter, painter.paint("=", "1;34"), "note: " + printable(note));
  }
  if (d.fix) {
    out += painter.paint("help", "1;36") + ": " + printable(d.fix->message) + "\n";
    const LineColumn place = locate(source, d.fix->range.begin);
    const std::string_view line = line_text(source, place.line);
    const auto start = static_cast<std::size_t>(line.data() - source.text.data());
    const std::size_t end = std::min<std::size_t>(d.fix->range.end, start + line.size());
    if (line.size() <= kLongestLine && d.fix->range.begin >= start && end >= d.fix->range.begin) {
      out += bar + " " + printable(line.substr(0, d.fix->range.begin - start)) + printable(d.fix->replacement) +
             printable(line.substr(end - start)) + "\n";
    }
  }
  return out;
}

std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  if (word.size() > 64) return best;
  for (const auto& candidate : candidates) {
    std::vector<std::size_t> row(candidate.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    std::vector<std::size_t> before = row;  // the row above `row`
    for (std::size_t i = 1; i <= word.size(); ++i) {
      std::vector<std::size_t> next(row.size(), i);
      for (std::size_t j = 1; j <= candidate.size(); ++j) {
        const std::size_t change = row[j - 1] + (word[i - 1] == candidate[j - 1] ? 0 : 1);
        next[j] = std::min({change, row[j] + 1, next[j - 1] + 1});
        const bool swapped = i > 1 && j > 1 && word[i - 1] == candidate[j - 2] && word[i - 2] == candidate[j - 1];
        if (swapped) next[j] = std::min(next[j], before[j - 2] + 1);
      }
      before = std::exchange(row, std::move(next));
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

}  // namespace weft
