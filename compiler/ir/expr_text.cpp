#include "compiler/ir/expr_text.h"

#include "compiler/ir/plan_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

namespace weft::ir {
namespace {

constexpr int kDeepest = 2048;  // what the stack holds under sanitizers, too

std::string atom(const Expr& e) {
  if (e.op == Op::variable) return std::string(word(kVariables, e.variable));
  if (e.type == Type::boolean) return e.boolean ? "true" : "false";
  return e.type == Type::real ? fmt::format("r{}", e.real) : std::to_string(e.integer);
}

void write(const Expr& e, std::string& out) {
  if (e.op == Op::constant || e.op == Op::variable) {
    out += atom(e);
    return;
  }
  out += '(';
  out += facts(e.op).word;
  if (e.op == Op::input) out += fmt::format(" {} {}", e.input, e.type == Type::real ? "real" : "integer");
  if (e.op == Op::listed) out += fmt::format(" {}", e.input);
  for (const auto& arg : e.args) {
    out += ' ';
    write(*arg, out);
  }
  out += ')';
}

bool is_numeric(const ExprPtr& e) { return e->type != Type::boolean; }

/// What the checker guarantees of a program and nobody of a plan's text.
bool fits(Op op, const std::vector<ExprPtr>& args) {
  const auto all = [&](auto condition) { return std::all_of(args.begin(), args.end(), condition); };
  const auto is = [](Type type) { return [type](const ExprPtr& e) { return e->type == type; }; };
  if (args.size() != facts(op).arity) return false;
  switch (facts(op).signature) {
    case Signature::numbers:
    case Signature::order:
      return all(is_numeric);
    case Signature::reals:
      return all(is(Type::real));
    case Signature::choice:
      return args[0]->type == Type::boolean && is_numeric(args[1]) == is_numeric(args[2]);
    case Signature::equality:
      return is_numeric(args[0]) == is_numeric(args[1]);
    case Signature::logic:
      return all(is(Type::boolean));
    case Signature::of_integer:
      return all(is(Type::integer));
    case Signature::of_real:
      return all(is(Type::real));
    case Signature::none:
      break;
  }
  return false;
}

class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}
  std::string_view rest() const { return rest_; }

  /// Calls itself as deep as the text is nested: what it calls besides stays out of line, so that its frame is small.
  ExprPtr read(int depth) {
    skip_blanks();
    if (depth > kDeepest || rest_.empty()) return nullptr;
    if (rest_.front() != '(') return leaf(take());
    rest_.remove_prefix(1);
    const std::string_view name = take();
    const auto ops = all_ops();
    const auto at = std::find_if(ops.begin(), ops.end(), [&](const OpFacts& row) { return row.word == name; });
    if (at == ops.end()) return nullptr;
    if (at->op == Op::input) return input(depth);
    if (at->op == Op::listed) return member(depth);
    auto args = operands(depth);
    return args && fits(at->op, *args) ? apply(at->op, std::move(*args)) : nullptr;
  }

 private:
  [[gnu::noinline]] ExprPtr leaf(std::string_view text) {
    for (const auto& w : kVariables) {
      if (w.name == text) return variable(w.value);
    }
    if (text == "true" || text == "false") return constant_bool(text == "true");
    if (text.starts_with('r')) {
      const auto value = number<double>(text.substr(1));
      return value && !std::isnan(*value) ? constant_real(*value) : nullptr;
    }
    const auto value = number<std::int64_t>(text);
    return value ? constant(*value) : nullptr;
  }

  [[gnu::noinline]] ExprPtr input(int depth) {
    const auto index = number<int>(take());
    const std::string_view type = take();
    auto args = operands(depth);
    const bool known = type == "real" || type == "integer";
    if (!index || *index < 0 || !known || !args) return nullptr;
    if (!integers(*args)) return nullptr;
    return input_at(*index, type == "real" ? Type::real : Type::integer, std::move(*args));
  }

  [[gnu::noinline]] ExprPtr member(int depth) {
    const auto index = number<int>(take());
    auto args = operands(depth);
    if (!index || *index < 0 || !args || args->size() != 2 || !integers(*args)) return nullptr;
    return listed(*index, (*args)[0], (*args)[1]);
  }

  static bool integers(const std::vector<ExprPtr>& args) {
    return std::all_of(args.begin(), args.end(), [](const ExprPtr& e) { return e->type == Type::integer; });
  }

  std::optional<std::vector<ExprPtr>> operands(int depth) {
    std::vector<ExprPtr> args;
    for (skip_blanks(); !rest_.starts_with(')'); skip_blanks()) {
      args.push_back(read(depth + 1));
      if (!args.back()) return std::nullopt;
    }
    rest_.remove_prefix(1);
    return args;
  }

  template <typename T>
  static std::optional<T> number(std::string_view text) {
    T value{};
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || at != end) return std::nullopt;
    return value;
  }

  std::string_view take() {
    skip_blanks();
    const std::string_view out = rest_.substr(0, std::min(rest_.find_first_of(" ()"), rest_.size()));
    rest_.remove_prefix(out.size());
    return out;
  }
  void skip_blanks() {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
  }
  std::string_view rest_;
};

}  // namespace

std::string prefix_text(const Expr& e) {
  std::string out;
  write(e, out);
  return out;
}

ExprPtr read_prefix(std::string_view& text) {
  Reader reader(text);
  ExprPtr out = reader.read(0);
  text = reader.rest();
  return out;
}

}  // namespace weft::ir
