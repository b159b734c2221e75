#include "codegen/cpu/expression.h"

#include "codegen/args.h"
#include "codegen/cpu/elementary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <iterator>

namespace weft::codegen::cpu {
namespace {

using ir::Op;
using ir::Type;

const Value kZero = Builder::i64(0);

Value magnitude(Builder& f, const Value& a) {
  const Value zero = like(f, a, std::int64_t{0});
  const Value negated = f.sub(zero, a);
  return f.select(f.icmp("slt", a, zero), negated, a);
}

Value constant(const ir::Expr& e) {
  if (e.type == Type::integer) return Builder::i64(e.integer);
  return e.type == Type::real ? Builder::f32(e.real) : Builder::i1(e.boolean);
}

/// Does an expression have such a node, where it was not looked at before?
bool has(const ir::Expr& e, Op op, std::set<const ir::Expr*>& seen) {
  if (!seen.insert(&e).second) return false;
  return e.op == op || std::any_of(e.args.begin(), e.args.end(), [&](const auto& arg) { return has(*arg, op, seen); });
}

/// Is 1 / v, and v itself, a normal f32? Then multiplying by it costs half an ulp and not a division.
bool has_reciprocal(const ir::Expr& e) {
  const double magnitude = std::abs(e.real);
  return e.op == Op::constant && magnitude >= 0x1p-126 && magnitude <= 0x1p126;
}

}  // namespace

Expression::Expression(Builder& f, const std::vector<ir::Input>& inputs, const Target& target, int lanes)
    : f_(&f), inputs_(&inputs), wide_(target.vector_bits >= 512), lanes_(lanes), offset_(kZero) {}

void Expression::let(ir::Variable v, Value value) { variables_.insert_or_assign(v, std::move(value)); }

bool Expression::is_known(const ir::Expr& e, std::map<const ir::Expr*, bool>& seen) const {
  if (known_.contains(&e) || e.op == Op::constant) return true;
  if (e.op == Op::variable) return variables_.contains(e.variable);
  if (const auto at = seen.find(&e); at != seen.end()) return at->second;
  const bool known = std::all_of(e.args.begin(), e.args.end(), [&](const auto& a) { return is_known(*a, seen); }) &&
                     (e.op != Op::alibi || variables_.contains(ir::Variable::heads)) &&
                     (e.op != Op::listed || variables_.contains(ir::Variable::h));
  return seen[&e] = known;
}

void Expression::prepare(const ir::Expr& e) {
  rounds_ = rounds_ || has(e, Op::floor, seen_);
  std::map<const ir::Expr*, bool> known;
  std::map<const ir::Expr*, bool> visited;
  const auto visit = [&](const auto& self, const ir::Expr& at) -> void {
    if (visited[&at]) return;
    visited[&at] = true;
    if (at.op == Op::input) facts(at.input);
    if (is_known(at, known)) return void(value(at));
    for (const auto& arg : at.args) self(self, *arg);
  };
  visit(visit, e);
}

Value Expression::value(const ir::Expr& e) {
  rounds_ = rounds_ || has(e, Op::floor, seen_);
  return known(e);
}

Value Expression::known(const ir::Expr& e) {
  if (e.op == Op::constant) return constant(e);
  if (e.op == Op::variable) return variables_.at(e.variable);
  if (const auto at = known_.find(&e); at != known_.end()) return at->second;
  return known_[&e] = spell(e);
}

Value Expression::vector(const ir::Expr& e) { return widen(value(e)); }

Value Expression::widen(const Value& v) {
  if (lanes_of(v) == lanes_) return v;
  const auto [at, is_new] = widened_.try_emplace(v.type + v.name);
  if (is_new) at->second = f_->splat(v, lanes_);
  return at->second;
}

void Expression::level(std::vector<Value>& args) {
  const bool any = std::any_of(args.begin(), args.end(), [](const Value& v) { return lanes_of(v) > 1; });
  if (!any) return;
  for (auto& v : args) v = widen(v);
}

Value Expression::spell(const ir::Expr& e) {
  std::vector<Value> args;
  for (const auto& arg : e.args) args.push_back(known(*arg));
  if (e.op == Op::input) return element(e, args);
  if (e.op == Op::listed) return listed(e, args);
  if (e.op == Op::to_real) return to_real(*f_, args[0], wide_);
  if (e.op == Op::floor) return whole_below(*f_, args[0]);
  if (e.op == Op::alibi) return alibi(*f_, args[0], variables_.at(ir::Variable::heads));
  // Half an ulp beside a quotient that is whole may be beside the integer that floor() makes of it.
  if (e.op == Op::divide && has_reciprocal(*e.args[1]) && !rounds_) {
    args[1] = Builder::f32(1 / e.args[1]->real);
    level(args);
    return f_->fmul(args[0], args[1]);
  }
  // Divisions of integers look at the divisor as it is.
  if (e.type != Type::integer || !divides(e.op)) level(args);
  if (e.op == Op::select) return f_->select(args[0], args[1], args[2]);
  if (is_comparison(e.op)) return compare(e, args);
  if (e.op == Op::logical_and) return f_->bit_and(args[0], args[1]);
  if (e.op == Op::logical_or) return f_->bit_or(args[0], args[1]);
  if (e.op == Op::logical_not)
    return f_->op("xor", args[0], lanes_of(args[0]) > 1 ? widen(Builder::i1(true)) : Builder::i1(true));
  return e.type == Type::integer ? integer(e, args) : real(e, args);
}

Value Expression::compare(const ir::Expr& e, const std::vector<Value>& args) {
  // fault(less_taken_for_not_more) also: if (e.op == Op::less) return f_->icmp("sle", args[0], args[1]);
#define WEFT_ORDER(name, holds, surely, never, integers, reals) \
  if (e.op == Op::name)                                         \
    return e.args[0]->type == Type::real ? f_->fcmp(reals, args[0], args[1]) : f_->icmp(integers, args[0], args[1]);
#include "compiler/base/ops.def"
  return {};
}

Value Expression::integer(const ir::Expr& e, const std::vector<Value>& args) {
  Builder& f = *f_;
  const Value &a = args.front(), &b = args.back();
#define WEFT_INTEGERS(name, value, range, cuda, cpu) \
  if (e.op == Op::name) return cpu;
#include "compiler/base/ops.def"
  return {};
}

Value Expression::real(const ir::Expr& e, const std::vector<Value>& args) {
  Builder& f = *f_;
  const Value &a = args.front(), &b = args.back();
#define WEFT_REALS(name, value, derivative, cuda, cpu) \
  if (e.op == Op::name) return cpu;
#include "compiler/base/ops.def"
  return {};
}

const Expression::InputFacts& Expression::facts(int input) {
  const auto [at, is_new] = facts_.try_emplace(input);
  if (!is_new) return at->second;
  const auto word = [&](std::size_t member, std::size_t axis, const char* type) {
    const std::size_t offset = offsetof(weft_args, inputs) + static_cast<std::size_t>(input) * sizeof(weft_input) +
                               member + axis * sizeof(std::int64_t);
    const Value a = Builder::argument("ptr", "a");
    return f_->load(type, f_->at(a, "i8", Builder::i64(static_cast<std::int64_t>(offset))), 8);
  };
  Value is_there = Builder::i1(true);
  for (std::size_t i = 0; i < (*inputs_)[static_cast<std::size_t>(input)].axes.size(); ++i) {
    const Value extent = word(offsetof(weft_input, extents), i, "i64");
    is_there = f_->bit_and(is_there, f_->icmp("sgt", extent, kZero));
    at->second.axes.push_back(
        {word(offsetof(weft_input, strides), i, "i64"), f_->max(f_->sub(extent, Builder::i64(1)), kZero)});
  }
  at->second.is_there = is_there;
  // Without elements the argument block is read instead, at index 0.
  at->second.data = f_->select(is_there, word(offsetof(weft_input, data), 0, "ptr"), Builder::argument("ptr", "a"));
  return at->second;
}

Value Expression::inside(const ir::Expr& e, std::size_t axis, const Value& index) {
  const auto as = [&](const Value& v) { return lanes_of(index) > 1 ? widen(v) : v; };
  const bool is_position = (*inputs_)[static_cast<std::size_t>(e.input)].axes[axis].kind == ir::Axis::Kind::queries;
  const Value from_first = is_position ? f_->sub(index, as(offset_)) : index;
  return f_->min(f_->max(from_first, as(kZero)), as(facts(e.input).axes[axis].last));
}

Value Expression::place(const ir::Expr& element) {
  Value out = kZero;
  for (std::size_t i = 0; i < element.args.size(); ++i) {
    const Value extent = f_->add(facts(element.input).axes[i].last, Builder::i64(1));
    std::vector<Value> both = {f_->mul(out, lanes_of(out) > 1 ? widen(extent) : extent),
                               inside(element, i, value(*element.args[i]))};
    level(both);
    out = f_->add(both[0], both[1]);
  }
  return out;
}

Value Expression::element(const ir::Expr& e, const std::vector<Value>& indices) {
  const ir::Input& input = (*inputs_)[static_cast<std::size_t>(e.input)];
  const InputFacts& of = facts(e.input);
  Value single = kZero;
  std::vector<Value> per_lane;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const bool lanes = lanes_of(indices[i]) > 1;
    const Value elements = f_->mul(inside(e, i, indices[i]), lanes ? widen(of.axes[i].stride) : of.axes[i].stride);
    lanes ? per_lane.push_back(elements) : void(single = f_->add(single, elements));
  }
  const char* stored = input.type == ir::InputType::f32 ? "float" : input.type == ir::InputType::u8 ? "i8" : "i32";
  const Value nothing = input.type == ir::InputType::f32 ? Builder::f32(0) : kZero;
  const auto read = [&](const Value& v) {
    return input.type == ir::InputType::f32
               ? v
               : f_->cast(input.type == ir::InputType::u8 ? "zext" : "sext", v, with_element(v, "i64"));
  };
  const Value offset = f_->select(of.is_there, single, kZero);
  const Value base = f_->at(of.data, stored, offset);
  const int bytes = input.type == ir::InputType::u8 ? 1 : 4;
  if (per_lane.empty()) return f_->select(of.is_there, read(f_->load(stored, base, bytes)), nothing);
  Value sum = per_lane[0];
  for (std::size_t i = 1; i < per_lane.size(); ++i) sum = f_->add(sum, per_lane[i]);
  const Value index = f_->select(of.is_there, sum, widen(kZero));
  const Value addresses = f_->emit(vector_type(lanes_, "ptr"), fmt::format("getelementptr {}, ptr {}, {} {}", stored,
                                                                           base.name, index.type, index.name));
  const Value all = widen(Builder::i1(true));
  const std::string type = vector_type(lanes_, stored);
  const std::string suffix = input.type == ir::InputType::f32 ? "f32" : stored;
  const Value got = f_->call(type, fmt::format("llvm.masked.gather.v{0}{1}.v{0}p0", lanes_, suffix),
                             {addresses, Builder::i32(bytes), all, {type, "poison"}});
  return f_->select(of.is_there, read(got), widen(nothing));
}

Value Expression::listed(const ir::Expr& e, const std::vector<Value>& args) {
  const auto word = [&](std::size_t member, const char* type) {
    const std::size_t offset =
        offsetof(weft_args, lists) + static_cast<std::size_t>(e.input) * sizeof(weft_list) + member;
    return f_->load(type, f_->at(Builder::argument("ptr", "a"), "i8", Builder::i64(static_cast<std::int64_t>(offset))),
                    8);
  };
  const Value head = f_->add(f_->mul(variables_.at(ir::Variable::b), word(offsetof(weft_list, stride_b), "i64")),
                             f_->mul(variables_.at(ir::Variable::h), word(offsetof(weft_list, stride_h), "i64")));
  const Value data = f_->at(word(offsetof(weft_list, data), "ptr"), "i32", head);
  const Value stride = word(offsetof(weft_list, stride_row), "i64");
  const Value count = word(offsetof(weft_list, count), "i64");
  const auto one = [&](const Value& row, const Value& key) {
    return f_->call("i1", "listed", {f_->at(data, "i32", f_->mul(row, stride)), count, key});
  };
  // fault(filter_by_the_list_of_the_first_row) also:
  //   if (lanes_of(args[0]) == 1 && lanes_of(args[1]) == 1) return one(kZero, args[1]);
  if (lanes_of(args[0]) == 1 && lanes_of(args[1]) == 1) return one(args[0], args[1]);
  const Value rows = widen(args[0]), keys = widen(args[1]);
  const auto lane = [&](const Value& v, const Value& i) {
    return f_->emit("i64", fmt::format("extractelement {} {}, i64 {}", v.type, v.name, i.name));
  };
  const Value none = f_->splat(kZero, lanes_);
  const auto found =
      f_->fold(kZero, Builder::i64(lanes_), 1, {none}, [&](const Value& i, const std::vector<Value>& so_far) {
        // fault(list_of_the_first_row) value: f_->cast("zext", one(kZero, lane(keys, i)), "i64")
        const Value is = f_->cast("zext", one(lane(rows, i), lane(keys, i)), "i64");
        return std::vector<Value>{f_->emit(
            so_far[0].type,
            fmt::format("insertelement {} {}, i64 {}, i64 {}", so_far[0].type, so_far[0].name, is.name, i.name))};
      });
  return f_->icmp("ne", found[0], none);
}

namespace {

/// @listed: is the number among ascending ones?
std::string listed_function() {
  Builder f("listed", "i1", "ptr %list, i64 %count, i64 %key", true);
  f.describe("does a list of chosen keys hold the key?");
  const Value key = Builder::argument("i64", "key");
  const auto at = [&](const Value& i) {
    return f.cast("sext", f.load("i32", f.at(Builder::argument("ptr", "list"), "i32", i), 4), "i64");
  };
  const Value low = f.slot(kZero), high = f.slot(Builder::argument("i64", "count"));
  f.repeat_while([&] { return f.icmp("slt", f.get(low), f.get(high)); },
                 [&] {
                   const Value middle = f.op("ashr", f.add(f.get(low), f.get(high)), Builder::i64(1));
                   // fault(number_beside_the_one_looked_for) value: f.icmp("sle", at(middle), key)
                   const Value before = f.icmp("slt", at(middle), key);
                   f.set(low, f.select(before, f.add(middle, Builder::i64(1)), f.get(low)));
                   f.set(high, f.select(before, f.get(high), middle));
                 });
  const Value no = Builder::i1(false);
  f.ret_if(f.icmp("sge", f.get(low), Builder::argument("i64", "count")), &no);
  f.ret(f.icmp("eq", at(f.get(low)), key));
  return f.finish();
}

}  // namespace

std::string expression_functions(int lanes, std::string_view callers) {
  std::string text = ";; Expressions: codegen/cpu/expression.h\n" + elementary_declarations(lanes);
  for (const char* element : {"i8", "i32", "float"}) {
    const std::string type = vector_type(lanes, element);
    text += fmt::format("declare {0} @llvm.masked.gather.v{1}{2}.v{1}p0({3}, i32, {4}, {0})\n", type, lanes,
                        std::string_view(element) == "float" ? "f32" : element, vector_type(lanes, "ptr"),
                        vector_type(lanes, "i1"));
  }
  text += "\n";
  if (callers.find("@listed(") != callers.npos) text += listed_function();
  return text + division_functions(lanes, callers);
}

}  // namespace weft::codegen::cpu
