#include "dsl/parse.h"
#include "tests/support/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

/// Greedy shrinking of programs. Steps are edits of the text at places that the syntax tree knows; most are nonsense,
/// which then does not fail in the way asked for, and is dropped. The first one that still fails is taken.
namespace weft::test {
namespace {

struct Edit {
  SourceRange range;
  std::string text;
  std::string parameter = {};  ///< whose value goes, too
};

std::string applied(const std::string& text, const Edit& edit) {
  return text.substr(0, edit.range.begin) + edit.text + text.substr(edit.range.end);
}

class Edits {
 public:
  Edits(const std::string& text, const std::vector<std::string>& defines) : text_(text), defines_(defines) {}

  /// Larger cuts first.
  std::vector<Edit> of(const dsl::File& file, const std::string& main) {
    for (const auto& pattern : file.patterns) {
      if (pattern.name != main) cut(pattern.range);
    }
    for (const auto& constant : file.constants) named(constant.name, constant.range, constant.value);
    for (const auto& pattern : file.patterns) {
      for (const auto& statement : pattern.statements) {
        cut(statement.range);
        if (statement.kind == dsl::StatementKind::use) unfold(statement, file);
      }
    }
    for (const auto& pattern : file.patterns) {
      parameters(pattern);
      for (const auto& statement : pattern.statements) inside(statement);
    }
    return std::move(edits_);
  }

 private:
  std::string at(SourceRange range) const { return text_.substr(range.begin, range.end - range.begin); }
  void cut(SourceRange range) { edits_.push_back({range, ""}); }
  void put(SourceRange range, std::string text) {
    if (text != at(range)) edits_.push_back({range, std::move(text)});
  }

  /// The statements that `use` takes, which works out where they read no parameters.
  void unfold(const dsl::Statement& statement, const dsl::File& file) {
    const dsl::PatternDef* used = statement.value ? file.find(statement.value->word) : nullptr;
    if (used != nullptr) put(statement.range, at({used->body.begin + 1, used->body.end - 1}));
  }

  /// A name in favour of its value; the definition goes with a later cut.
  void named(const std::string& name, SourceRange definition, const dsl::ExprPtr& value) {
    cut(definition);
    if (value) values_.emplace_back(name, "(" + at(value->outer) + ")");
  }

  void parameters(const dsl::PatternDef& pattern) {
    for (std::size_t i = 0; i < pattern.params.size(); ++i) {
      const auto& param = pattern.params[i];
      SourceRange range = param.range;
      if (i > 0)
        range.begin = pattern.params[i - 1].range.end;
      else if (pattern.params.size() > 1)
        range.end = pattern.params[1].range.begin;
      if (pattern.params.size() == 1) range = {pattern.name_range.end, pattern.body.begin};  // with its brackets
      edits_.push_back({range, "", param.name});
      for (const auto& define : defines_) {
        const std::size_t sign = define.find('=');
        if (define.substr(0, sign) == param.name) values_.emplace_back(param.name, define.substr(sign + 1));
      }
      if (param.fallback) {
        values_.emplace_back(param.name, at(param.fallback->outer));
        expression(*param.fallback);
      }
    }
  }

  void inside(const dsl::Statement& statement) {
    if (statement.kind == dsl::StatementKind::let && statement.value) {
      values_.emplace_back(statement.word, "(" + at(statement.value->outer) + ")");
    }
    if (statement.kind == dsl::StatementKind::branch && statement.second && statement.value) {
      cut({statement.value->outer.end, statement.range.end - 1});  // `on heads …`
    }
    for (const auto& extent : statement.extents) expression(*extent);
    for (const auto& axis : statement.axes) {
      if (axis.extent) expression(*axis.extent);
    }
    if (statement.value) expression(*statement.value);
    if (statement.second) expression(*statement.second);
  }

  /// The node by one of its parts, by something trivial, with fewer parts, and the parts themselves made smaller.
  void expression(const dsl::Expr& e) {
    for (const auto& arg : e.args) {
      put(e.outer, at(arg.value->outer));
      put(e.outer, at(arg.value->range));
    }
    if (e.kind == dsl::ExprKind::integer || e.kind == dsl::ExprKind::real) return number(e);
    for (const char* trivial : {"all", "0", "1", "s", "true", "q", "k"}) {
      if (at(e.outer).size() > 1) put(e.outer, trivial);
    }
    if (e.kind == dsl::ExprKind::name) {
      for (const auto& [name, value] : values_) {
        if (name == e.word) put(e.outer, value);
      }
    }
    if (e.outer.begin != e.range.begin) put(e.outer, at(e.range));
    fewer(e);
    for (const auto& arg : e.args) expression(*arg.value);
  }

  void fewer(const dsl::Expr& e) {
    if (e.kind != dsl::ExprKind::call && e.kind != dsl::ExprKind::list && e.kind != dsl::ExprKind::compare) return;
    const auto begin_of = [&](std::size_t i) {
      return e.args[i].name.empty() ? e.args[i].value->outer.begin : e.args[i].name_range.begin;
    };
    for (std::size_t i = 0; i < e.args.size() && e.args.size() > 1; ++i) {
      if (i > 0)
        cut({e.args[i - 1].value->outer.end, e.args[i].value->outer.end});
      else
        cut({begin_of(0), begin_of(1)});
    }
  }

  void number(const dsl::Expr& e) {
    if (e.kind == dsl::ExprKind::real) {
      for (const char* simple : {"0.0", "1.0", "0.5"}) {
        if (at(e.range).size() > 3 || simple[0] < at(e.range)[0]) put(e.outer, simple);
      }
      return;
    }
    for (const std::int64_t value : {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, e.integer / 2, e.integer - 1}) {
      if (value < e.integer && value >= 0) put(e.outer, std::to_string(value));
    }
  }

  const std::string& text_;
  const std::vector<std::string>& defines_;
  std::vector<Edit> edits_;
  std::vector<std::pair<std::string, std::string>> values_;
};

void add_texts(const Program& program, std::vector<Program>& out) {
  const Source source{"program.weft", program.text};
  const auto file = dsl::parse(source);
  if (!file.ok()) return;
  std::set<std::string> seen = {program.text};
  for (const Edit& edit : Edits(program.text, program.defines).of(*file, program.pattern)) {
    std::string text = applied(program.text, edit);
    if (!seen.insert(text).second) continue;
    out.push_back(program);
    out.back().text = std::move(text);
    if (edit.parameter.empty()) continue;
    std::erase_if(out.back().defines, [&](const auto& value) { return value.starts_with(edit.parameter + "="); });
  }
}

/// Falls with every step in sizes, so that there are no circles.
std::int64_t weight_of(const Program& p) {
  const ir::Shape& s = p.shape;
  std::int64_t weight = s.batch + s.n_q + s.n_k + s.heads + s.kv_heads + s.d + s.d_v;
  for (const std::int64_t offset : s.offset) weight += 1 + offset;
  return weight + static_cast<std::int64_t>(p.defines.size()) + (p.dtype != ir::DType::f32) + p.branch_lse;
}

template <typename Change>
void propose(const Program& program, std::vector<Program>& out, const Change& change) {
  Program next = program;
  change(next);
  if (next.shape.offset.size() > 1) next.shape.offset.resize(static_cast<std::size_t>(next.shape.batch));
  if (weight_of(next) < weight_of(program)) out.push_back(std::move(next));
}

void add_sizes(const Program& program, std::vector<Program>& out) {
  using Size = std::int64_t ir::Shape::*;
  propose(program, out, [](Program& p) { p.shape.heads = p.shape.kv_heads = 1; });
  propose(program, out, [](Program& p) { p.shape.heads = p.shape.kv_heads; });
  propose(program, out,
          [](Program& p) { p.shape.heads = std::max<std::int64_t>(1, p.shape.heads - p.shape.kv_heads); });
  propose(program, out, [](Program& p) { p.shape.kv_heads = 1; });
  propose(program, out, [](Program& p) { p.shape.offset.clear(); });
  propose(program, out, [](Program& p) { p.shape.offset.resize(std::min<std::size_t>(1, p.shape.offset.size())); });
  propose(program, out, [](Program& p) { p.shape.n_q = p.shape.n_k; });
  propose(program, out, [](Program& p) { p.shape.d = p.shape.d_v = 8; });
  for (const auto smaller : {+[](std::int64_t) { return std::int64_t{1}; }, +[](std::int64_t n) { return n / 2; },
                             +[](std::int64_t n) { return n - 1; }}) {
    const auto fall = [&](std::int64_t& n) { n = std::min(n, std::max<std::int64_t>(1, smaller(n))); };
    propose(program, out, [&](Program& p) { fall(p.shape.n_q), fall(p.shape.n_k); });
    for (const Size size : {&ir::Shape::batch, &ir::Shape::n_q, &ir::Shape::n_k, &ir::Shape::d, &ir::Shape::d_v}) {
      propose(program, out, [&](Program& p) { fall(p.shape.*size); });
    }
    propose(program, out, [&](Program& p) {
      for (auto& offset : p.shape.offset) offset = std::min(offset, std::max<std::int64_t>(0, smaller(offset)));
    });
  }
  propose(program, out, [](Program& p) { p.dtype = ir::DType::f32; });
  propose(program, out, [](Program& p) { p.branch_lse = false; });
  for (std::size_t i = 0; i < program.defines.size(); ++i) {
    propose(program, out, [&](Program& p) { p.defines.erase(p.defines.begin() + static_cast<std::ptrdiff_t>(i)); });
  }
}

std::string laid_out(const std::string& text) {
  const Source source{"program.weft", text};
  const auto file = dsl::parse(source);
  return file.ok() ? dsl::format(*file, source) : text;
}

}  // namespace

Program shrink(Program program, const std::function<bool(const Program&)>& fails, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (bool smaller = true; smaller;) {
    smaller = false;
    std::vector<Program> proposals;
    add_sizes(program, proposals);  // first, for small problems are checked sooner
    add_texts(program, proposals);
    for (auto& next : proposals) {
      if (std::chrono::steady_clock::now() > end) break;
      if (!fails(next)) continue;
      program = std::move(next);
      smaller = true;
      break;
    }
  }
  Program tidy = program;
  tidy.text = laid_out(program.text);
  return fails(tidy) ? tidy : program;
}

}  // namespace weft::test
