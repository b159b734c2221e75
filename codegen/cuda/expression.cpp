#include "codegen/cuda/expression.h"

#include "codegen/cuda/expression_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <string>

namespace weft::codegen::cuda {
namespace {

using ir::Op;
using ir::Type;

/// A written operand that is longer gets a name.
constexpr std::size_t kLongest = 60;
constexpr std::size_t kLongestComment = 300;

std::string integer_literal(std::int64_t value, bool wide) {
  // The literal of the smallest integer would overflow before its sign is applied.
  if (value == INT64_MIN) return fmt::format("(i64)({}LL - 1)", INT64_MIN + 1);
  if (value == INT32_MIN && !wide) return fmt::format("({} - 1)", INT32_MIN + 1);
  return wide ? fmt::format("(i64){}{}", value, Interval{value, value}.fits_int() ? "" : "LL")
              : fmt::format("{}", value);
}

bool is_power_of_two(double value) {
  int exponent = 0;
  return std::abs(std::frexp(value, &exponent)) == 0.5 && exponent > -120 && exponent < 120;
}

class Speller {
 public:
  Speller(TextWriter& w, const ir::Expr& e, const std::vector<ir::Input>& inputs)
      : w_(w), inputs_(inputs), nodes_(e, inputs) {}

  /// Of a function that returns the value, or of an input's element the place.
  void body(bool of_place = false) {
    for (Node& node : nodes_.all) {
      spell(node);
      const bool leaf = node.e->op == Op::constant || node.e->op == Op::variable;
      const bool last = &node == &nodes_.all.back();
      if (leaf || last || (node.uses < 2 && node.text.size() <= kLongest)) continue;
      const std::string name = fmt::format("{}_{}", noun(*node.e), ++names_);
      w_.line("const {} {} = {};", type_of(node), name, node.text);
      set(node, name, primary);
    }
    const Node& root = nodes_.all.back();
    w_.line("return {};", of_place ? place(root) : root.text);
  }

 private:
  static void set(Node& node, std::string text, Tightness tightness) {
    node.text = std::move(text);
    node.tightness = tightness;
  }

  static const char* type_of(const Node& node) {
    if (node.e->type == Type::real) return "float";
    return node.e->type == Type::boolean ? "bool" : node.wide ? "i64" : "int";
  }

  static const char* noun(const ir::Expr& e) {
    if (e.op == Op::input) return "element";
    if (e.op == Op::alibi) return "slope";
    return e.type == Type::boolean ? "holds" : e.type == Type::integer ? "number" : "value";
  }

  const Node& arg(const Node& node, std::size_t i) const { return nodes_.arg(node, i); }

  static std::string in_place(const Node& node, Tightness least) {
    return node.tightness < least ? "(" + node.text + ")" : node.text;
  }

  /// As an operand of 64 bits where `wide`, whatever its own width is.
  static std::string widened(const Node& node, bool wide, Tightness least) {
    return wide && !node.wide ? "(i64)" + in_place(node, unary) : in_place(node, least);
  }

  void spell(Node& node) const {
    const ir::Expr& e = *node.e;
    if (e.op == Op::constant) return constant(node);
    if (e.op == Op::variable)
      return set(node, variable(e.variable), e.variable == ir::Variable::heads ? unary : primary);
    if (e.op == Op::input) return input(node);
    if (e.op == Op::listed) return listed(node);
    if (e.op == Op::select) return select(node);
    if (is_comparison(e.op)) return compare(node);
    if (e.type == Type::boolean) return logical(node);
    if (e.op == Op::to_real) return set(node, "(float)" + in_place(arg(node, 0), unary), unary);
    if (e.op == Op::floor) return call(node, "whole_below", false);
    if (e.op == Op::alibi) return alibi(node);
    if (e.type == Type::real) return real(node);
    integer(node);
  }

  static void constant(Node& node) {
    const ir::Expr& e = *node.e;
    if (e.type == Type::boolean) return set(node, e.boolean ? "true" : "false", primary);
    if (e.type == Type::real) return set(node, real_literal(e.real), std::signbit(e.real) ? unary : primary);
    set(node, integer_literal(e.integer, node.wide), e.integer < 0 || node.wide ? unary : primary);
  }

  static const char* variable(ir::Variable v) {
    using ir::Variable;
    switch (v) {
      case Variable::b:
        return "t.b";
      case Variable::h:
        return "t.h";
      case Variable::q:
        return "q";
      case Variable::k:
        return "k";
      case Variable::n_q:
        return "queries_of(a, t.b)";
      case Variable::n_k:
        return "keys_of(a, t.b)";
      case Variable::heads:
        return "(int)a.heads";
      case Variable::s:
        break;
    }
    return "s";
  }

  void select(Node& node) const {
    const auto value = [&](std::size_t i) { return widened(arg(node, i), node.wide, comparison); };
    set(node, fmt::format("{} ? {} : {}", in_place(arg(node, 0), comparison), value(1), value(2)), loosest);
  }

  void compare(Node& node) const {
    const Op op = node.e->op;
    const bool wide = arg(node, 0).wide || arg(node, 1).wide;
    const auto value = [&](std::size_t i) { return widened(arg(node, i), wide, shift); };
    set(node, fmt::format("{} {} {}", value(0), facts(op).sign, value(1)), comparison);
  }

  /// Without branches: both sides are cheap and defined.
  void logical(Node& node) const {
    if (node.e->op == Op::logical_not) return set(node, "!" + in_place(arg(node, 0), unary), unary);
    const char* const sign = node.e->op == Op::logical_and ? "&" : "|";
    set(node, fmt::format("{} {} {}", in_place(arg(node, 0), unary), sign, in_place(arg(node, 1), unary)), loosest);
  }

  void alibi(Node& node) const {
    const Node& head = arg(node, 0);
    const std::string number = head.wide ? fmt::format("clamp_to_int({})", head.text) : head.text;
    set(node, fmt::format("alibi_slope({}, (int)a.heads)", number), primary);
  }

  void listed(Node& node) const {
    set(node, fmt::format("is_listed(a.lists[{}], t, {}, {})", node.e->input, arg(node, 0).text, arg(node, 1).text),
        primary);
  }

  void infix(Node& node, const char* sign, Tightness own, bool wide) const {
    const auto next = static_cast<Tightness>(own + 1);
    set(node, fmt::format("{} {} {}", widened(arg(node, 0), wide, own), sign, widened(arg(node, 1), wide, next)), own);
  }

  void call(Node& node, std::string_view function, bool wide) const {
    std::string list;
    for (std::size_t i = 0; i < node.args.size(); ++i) {
      list += (i == 0 ? "" : ", ") + widened(arg(node, i), wide, loosest);
    }
    set(node, fmt::format("{}({})", function, list), primary);
  }

  void prefix(Node& node, const char* sign) const { set(node, sign + in_place(arg(node, 0), primary), unary); }

  void real(Node& node) const {
#define WEFT_REALS(name, value, derivative, cuda, cpu) \
  if (node.e->op == Op::name) return cuda;
#include "compiler/base/ops.def"
  }

  /// By a constant: times its inverse, which is at most one unit beside the quotient.
  void divide(Node& node) const {
    const Node& divisor = arg(node, 1);
    const double c = divisor.e->real;
    const bool invertible = divisor.e->op == Op::constant && std::abs(c) > 1e-30 && std::abs(c) < 1e30;
    if (!invertible || (node.sharp && !is_power_of_two(c))) return infix(node, "/", product, false);
    const std::string inverse = is_power_of_two(c) ? real_literal(1 / c) : fmt::format("(1 / {})", divisor.text);
    set(node, fmt::format("{} * {}", in_place(arg(node, 0), product), inverse), product);
  }

  void integer(Node& node) const {
    bool wide = node.wide;
    for (std::size_t i = 0; i < node.args.size(); ++i) wide = wide || arg(node, i).wide;
#define WEFT_INTEGERS(name, value, range, cuda, cpu) \
  if (node.e->op == Op::name) cuda;
#include "compiler/base/ops.def"
    if (wide && !node.wide) set(node, "(int)" + in_place(node, unary), unary);
  }

  /// The operator, or the function that wraps where C++ leaves open what happens.
  void total(Node& node, const char* wrapped, Tightness own, bool wide) const {
    if (node.values.may_wrap) return call(node, wrapped, true);
    infix(node, facts(node.e->op).sign, own, wide);
  }

  void negate(Node& node, bool wide) const {
    const Node& x = arg(node, 0);
    const std::string minus =
        node.values.may_wrap ? fmt::format("wrapped_difference(0, {})", x.text) : "-" + widened(x, wide, primary);
    if (node.e->op == Op::negate) return set(node, minus, unary);
    if (!wide) return call(node, "abs", false);
    set(node, fmt::format("{} < 0 ? {} : {}", in_place(x, shift), minus, in_place(x, comparison)), loosest);
  }

  /// Where signs are known C++'s own operators do; a power of two is a shift or a mask, of negative numbers too.
  void quotient(Node& node, bool wide) const {
    const Node &x = arg(node, 0), &y = arg(node, 1);
    const bool divides = node.e->op == Op::divide;
    const std::int64_t c = y.e->op == Op::constant ? y.e->integer : 0;
    if (c > 0 && (c & (c - 1)) == 0) {
      const std::string number = widened(x, wide, divides ? shift : unary);
      if (!divides) return set(node, fmt::format("{} & {}", number, integer_literal(c - 1, wide)), loosest);
      int bits = 0;
      while (std::int64_t{1} << bits != c) ++bits;
      return set(node, fmt::format("{} >> {}", number, bits), shift);
    }
    if (x.values.is_natural() && y.values.lo > 0) return infix(node, divides ? "/" : "%", product, wide);
    call(node, fmt::format("{}<{}>", divides ? "floored_quotient" : "natural_rest", wide ? "i64" : "int"), wide);
  }

  // -------------------------------------------------------------- inputs

  struct Index {
    std::string text;
    Tightness tightness;
    bool wide;
  };

  /// How many numbers an index along the axis can be, as text, and as a number where that is known.
  static std::pair<std::string, std::int64_t> extent_of(const ir::Input& declared, int number, std::size_t axis) {
    using Kind = ir::Axis::Kind;
    switch (declared.axes[axis].kind) {
      case Kind::batch:
        return {"a.batch", 0};
      case Kind::heads:
        return {"a.heads", 0};
      case Kind::queries:
        return {"queries_of(a, t.b)", 0};
      case Kind::keys:
      case Kind::tokens:
        return {"keys_of(a, t.b)", 0};
      case Kind::blocks:
        return {fmt::format("a.inputs[{}].extents[{}]", number, axis), 0};
      case Kind::extent:
        break;
    }
    return {"", declared.axes[axis].extent};
  }

  /// Is the variable always inside the axis that it stands for?
  static bool is_inside(ir::Axis::Kind axis, const ir::Expr& index) {
    using Kind = ir::Axis::Kind;
    using ir::Variable;
    if (index.op != Op::variable) return false;
    const Variable v = index.variable;
    return (axis == Kind::batch && v == Variable::b) || (axis == Kind::heads && v == Variable::h) ||
           (axis == Kind::queries && v == Variable::q) ||
           ((axis == Kind::keys || axis == Kind::tokens) && v == Variable::k);
  }

  /// An index in elements along its axis, never outside.
  static Index clamped(const Node& index, const ir::Input& declared, int number, std::size_t axis) {
    const auto kind = declared.axes[axis].kind;
    const bool from_row = kind == ir::Axis::Kind::queries;
    const auto [extent, known] = extent_of(declared, number, axis);
    Interval values = index.values;
    if (from_row) values = interval_of(Op::subtract, {values, interval_of(ir::Variable::q)});
    const bool inside = is_inside(kind, *index.e);
    const bool wide = !inside && (index.wide || !values.fits_int() || known > INT32_MAX);
    std::string at = widened(index, wide, from_row ? sum : loosest) + (from_row ? " - t.first_query" : "");
    Tightness tightness = from_row ? sum : index.tightness;
    const auto bounded = [&](const char* function, const std::string& by) {
      at = fmt::format("{}({}, {})", function, at, by);
      tightness = primary;
    };
    if (!inside && !values.is_natural()) bounded("max", integer_literal(0, wide));
    if (known > 0 && values.hi >= known) bounded("min", integer_literal(known - 1, wide));
    const bool is_int =
        kind == ir::Axis::Kind::queries || kind == ir::Axis::Kind::keys || kind == ir::Axis::Kind::tokens;
    const char* const cast = wide == !is_int ? "" : wide ? "(i64)" : "(int)";
    if (!inside && known == 0) bounded("min", fmt::format("{}{} - 1", cast, extent));
    return {at, tightness, wide};
  }

  /// Which number of its input an element is, row-major.
  std::string place(const Node& node) const {
    const int number = node.e->input;
    const ir::Input& declared = inputs_[static_cast<std::size_t>(number)];
    std::string at = "(i64)0";
    for (std::size_t axis = 0; axis < node.args.size(); ++axis) {
      const Index index = clamped(arg(node, axis), declared, number, axis);
      at = axis == 0 ? fmt::format("(i64)({})", index.text)
                     : fmt::format("({}) * a.inputs[{}].extents[{}] + ({})", at, number, axis, index.text);
    }
    return at;
  }

  /// Strides count elements; that of the last axis is 1.
  void input(Node& node) const {
    const int number = node.e->input;
    const ir::Input& declared = inputs_[static_cast<std::size_t>(number)];
    const char* const types[] = {"int", "unsigned char", "float"};
    const char* const type = types[static_cast<int>(declared.type)];
    std::string at = fmt::format("(const {}*)a.inputs[{}].data", type, number);
    for (std::size_t axis = 0; axis < node.args.size(); ++axis) {
      const Index index = clamped(arg(node, axis), declared, number, axis);
      const bool last = axis + 1 == node.args.size();
      const std::string alone = index.tightness < product ? "(" + index.text + ")" : index.text;
      const std::string stride = fmt::format("a.inputs[{}].strides[{}]", number, axis);
      at += last         ? " + " + alone
            : index.wide ? fmt::format(" + {} * {}", alone, stride)
                         : fmt::format(" + times({}, {})", index.text, stride);
    }
    set(node, fmt::format("load_global<{}>({})", type, at), primary);
  }

  TextWriter& w_;
  const std::vector<ir::Input>& inputs_;
  Nodes nodes_;
  int names_ = 0;
};

}  // namespace

std::string real_literal(double value) {
  if (std::isinf(value)) return value > 0 ? "infinity()" : "-infinity()";
  const auto single = static_cast<float>(std::clamp<double>(value, -FLT_MAX, FLT_MAX));
  const std::string text = fmt::format("{}", single);
  return text + (text.find_first_of(".e") == std::string::npos ? ".0f" : "f");
}

namespace {

void write(TextWriter& w, std::string_view head, const ir::Expr& e, const std::vector<ir::Input>& inputs,
           bool of_place) {
  std::string comment = ir::print(e);
  if (comment.size() > kLongestComment) comment = comment.substr(0, kLongestComment) + " …";
  w.line("/// {}", comment);
  w.line("{} {{", head);
  w.indent();
  Speller(w, e, inputs).body(of_place);
  w.dedent();
  w.line("}}");
}

}  // namespace

void write_function(TextWriter& w, std::string_view head, const ir::Expr& e, const std::vector<ir::Input>& inputs) {
  write(w, head, e, inputs, false);
}

void write_place(TextWriter& w, std::string_view head, const ir::Expr& e, const std::vector<ir::Input>& inputs) {
  write(w, head, e, inputs, true);
}

int cost_of(const ir::Expr& e, const std::vector<ir::Input>& inputs) {
  int cost = 0;
  for (const auto& node : Nodes(e, inputs).all) {
    const Cost own = facts(node.e->op).cost;
    if (node.args.empty()) continue;
    cost += own == Cost::simple ? (node.wide ? 4 : 1) : own == Cost::division ? 10 : 20;
  }
  return cost;
}

}  // namespace weft::codegen::cuda
