#include "dsl/printer.h"

#include "compiler/base/text_writer.h"
#include "dsl/operators.h"
#include "dsl/parse.h"
#include "dsl/words.h"

#include <fmt/format.h>

#include <string_view>

namespace weft::dsl {
namespace {

class Printer {
 public:
  explicit Printer(Places places) : places_(places) {}

  std::string run(const File& file) && {
    for (const ConstDef& constant : file.constants) {
      writer_.line("constant {}{} {}", constant.name, at(constant.range), text(constant.value));
    }
    for (const PatternDef& pattern : file.patterns) print(pattern);
    for (const Comment& comment : file.comments) {
      if (places_ == Places::shown) writer_.line("comment{} {}", at(comment.range), comment.text);
    }
    return std::move(writer_).take();
  }

 private:
  std::string at(SourceRange range) const {
    return places_ == Places::shown ? fmt::format(" @{}..{}", range.begin, range.end) : "";
  }

  void print(const PatternDef& pattern) {
    writer_.line("pattern {}{}", pattern.name, at(pattern.range));
    writer_.indent();
    for (const Param& param : pattern.params) {
      writer_.line("param {}{} {}{}", param.name, at(param.range), to_string(param.type),
                   param.fallback ? fmt::format(" {}", text(param.fallback)) : "");
    }
    for (const Statement& statement : pattern.statements) print(statement);
    writer_.dedent();
  }

  void print(const Statement& s) {
    std::string line = fmt::format("{}{}", spelling(s.kind), at(s.range));
    if (!s.word.empty()) line += fmt::format(" {}", s.word);
    if (s.detached) line += " detached";
    if (!s.type.empty()) line += fmt::format(" {}", s.type);
    if (s.value) line += fmt::format(" {}", text(s.value));
    if (s.second) line += fmt::format(" {}", text(s.second));
    for (const ExprPtr& extent : s.extents) line += fmt::format(" {}", text(extent));
    for (const Axis& axis : s.axes) {
      line += axis.extent ? fmt::format(" [{}]", text(axis.extent)) : fmt::format(" [{}{}]", axis.word, at(axis.range));
    }
    for (const ScheduleEntry& entry : s.schedule) {
      line += fmt::format(" {}{}:{}", entry.key, at(entry.key_range), text(entry.value));
    }
    writer_.line("{}", line);
  }

  std::string text(const ExprPtr& e) {
    std::string out;
    add(out, *e);
    return out;
  }

  void add(std::string& out, const Expr& e) {
    out += '(';
    add_head(out, e);
    out += at(e.range);
    for (const Arg& arg : e.args) {
      out += ' ';
      if (!arg.name.empty()) out += fmt::format("{}{}:", arg.name, at(arg.name_range));
      add(out, *arg.value);
    }
    out += ')';
  }

  static void add_head(std::string& out, const Expr& e) {
    switch (e.kind) {
      case ExprKind::integer:
        out += fmt::format("{}", e.integer);
        break;
      case ExprKind::real:
        out += fmt::format("real {}", e.real);
        break;
      case ExprKind::boolean:
        out += e.boolean ? "true" : "false";
        break;
      case ExprKind::name:
        out += e.word;
        break;
      case ExprKind::list:
        out += "list";
        break;
      case ExprKind::range:
        out += info(Operator::none).spelling;
        break;
      case ExprKind::call:
        out += "call " + e.word;
        break;
      case ExprKind::comprehension:
        out += fmt::format("{} {} in", e.word, e.variable);
        break;
      case ExprKind::index:
        out += "index";
        break;
      case ExprKind::unary:
        out += fmt::format("prefix {}", info(e.op).spelling);
        break;
      case ExprKind::binary:
        out += info(e.op).spelling;
        break;
      case ExprKind::compare:
        for (std::size_t i = 0; i < e.ops.size(); ++i)
          out += fmt::format("{}{}", i ? " " : "", info(e.ops[i]).spelling);
        break;
    }
  }

  Places places_;
  TextWriter writer_;
};

}  // namespace

const char* to_string(ParamType type) {
  switch (type) {
    case ParamType::integer:
      return "int";
    case ParamType::real:
      return "real";
    case ParamType::boolean:
      return "bool";
    case ParamType::integers:
      return "[int]";
    case ParamType::reals:
      return "[real]";
  }
  return "";
}

std::string print_tree(const File& file, Places places) { return Printer(places).run(file); }

std::string print(const File& file) { return print_tree(file, Places::shown); }

}  // namespace weft::dsl
