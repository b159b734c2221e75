#include "codegen/cpu/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <utility>

namespace weft::codegen::cpu {
namespace {

/// The parts one after the other. Kernels have thousands of instructions, and their text is made before the store can
/// be asked for them: a format string for each would take twice as long.
template <typename... Parts>
std::string text_of(const Parts&... parts) {
  std::string out;
  out.reserve((std::string_view(parts).size() + ...));
  (out.append(parts), ...);
  return out;
}

}  // namespace

std::string vector_type(int lanes, std::string_view element) {
  return lanes == 1 ? std::string(element) : text_of("<", std::to_string(lanes), " x ", element, ">");
}

Builder::Builder(std::string name, std::string result, std::string parameters, bool is_internal) {
  head_ = fmt::format("define {}{} @{}({})", is_internal ? "internal " : "", result, name, parameters);
  entry_ = "entry:\n";
}

Value Builder::f32(double v) {
  // LLVM writes a float literal as the bits of the double of the same value.
  return {"float", fmt::format("0x{:016X}", std::bit_cast<std::uint64_t>(static_cast<double>(static_cast<float>(v))))};
}

Value Builder::f64(double v) { return {"double", fmt::format("0x{:016X}", std::bit_cast<std::uint64_t>(v))}; }

std::string Builder::fresh(std::string_view stem) {
  const std::string number = std::to_string(next_value_++);
  return stem.empty() ? text_of("%v", number) : text_of("%", stem, ".", number);
}

void Builder::name_like(const Value& v) {
  const std::string_view name = v.name;
  if (!next_name_.empty() || name.size() < 3 || name.front() != '%') return;  // %a and %s say nothing
  const auto dot = name.find('.');
  const bool is_number = name[1] == 'v' && name.find_first_not_of("0123456789", 2) == std::string_view::npos;
  if (!is_number) next_name_ = name.substr(1, dot == std::string_view::npos ? dot : dot - 1);
}

Value Builder::emit(const std::string& type, std::string text) {
  Value out{type, fresh(next_name_)};
  next_name_ = {};
  body_.append("  ").append(out.name).append(" = ").append(text).append("\n");
  return out;
}

void Builder::emit(std::string text) { body_.append("  ").append(text).append("\n"); }

void Builder::describe(std::string_view text) { description_ = text_of("; ", text, "\n"); }

void Builder::comment(std::string_view text) { body_ += fmt::format("  ; {}\n", text); }

namespace {

/// The number that a literal i64 is.
std::optional<std::int64_t> number(const Value& v) {
  std::int64_t out = 0;
  const char* end = v.name.data() + v.name.size();
  const auto read = std::from_chars(v.name.data(), end, out);
  if (v.type != "i64" || read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return out;
}

/// Of two literals that are near enough to 0 for nothing to overflow.
std::optional<std::int64_t> folded(std::string_view op, std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kNear = std::int64_t{1} << 30;
  if (std::max(std::abs(a), std::abs(b)) >= kNear) return std::nullopt;
  if (op == "add") return a + b;
  if (op == "sub") return a - b;
  if (op == "mul") return a * b;
  if (op == "and") return a & b;
  return std::nullopt;
}

/// Does the operation with this literal on its right give its left operand?
bool changes_nothing(std::string_view op, std::int64_t right) {
  if (op == "mul" || op == "sdiv" || op == "udiv") return right == 1;
  return right == 0 && (op == "add" || op == "sub" || op == "or" || op == "shl" || op == "lshr");
}

/// Type of a comparison: i1, or a vector of them.
std::string truth_type(const std::string& type) {
  return type.front() == '<' ? type.substr(0, type.find(" x ")) + " x i1>" : "i1";
}

}  // namespace

Value Builder::op(std::string_view op, const Value& a, const Value& b) {
  const auto left = number(a), right = number(b);
  if (left && right) {
    if (const auto value = folded(op, *left, *right)) return i64(*value);
  }
  if (right && changes_nothing(op, *right)) return a;
  if (left && *left == 0 && op == "add") return b;
  if (op == "add" || op == "fadd") name_like(a);
  return emit(a.type, text_of(op, " ", a.type, " ", a.name, ", ", b.name));
}

Value Builder::icmp(std::string_view condition, const Value& a, const Value& b) {
  const auto left = number(a), right = number(b);
  if (left && right && condition == "eq") return i1(*left == *right);
  return emit(truth_type(a.type), text_of("icmp ", condition, " ", a.type, " ", a.name, ", ", b.name));
}

Value Builder::fcmp(std::string_view condition, const Value& a, const Value& b) {
  return emit(truth_type(a.type), text_of("fcmp ", condition, " ", a.type, " ", a.name, ", ", b.name));
}

Value Builder::select(const Value& c, const Value& a, const Value& b) {
  if (c.name == "true") return a;
  if (c.name == "false") return b;
  return emit(a.type, text_of("select ", c.type, " ", c.name, ", ", a.type, " ", a.name, ", ", b.type, " ", b.name));
}

Value Builder::cast(std::string_view op, const Value& a, const std::string& type) {
  if (op == "bitcast" && a.type == type) return a;
  name_like(a);
  return emit(type, text_of(op, " ", a.type, " ", a.name, " to ", type));
}

Value Builder::load(const std::string& type, const Value& pointer, int align) {
  name_like(pointer);
  return emit(type, text_of("load ", type, ", ptr ", pointer.name, ", align ", std::to_string(align)));
}

void Builder::store(const Value& v, const Value& pointer, int align) {
  emit(text_of("store ", v.type, " ", v.name, ", ptr ", pointer.name, ", align ", std::to_string(align)));
}

Value Builder::at(const Value& pointer, const std::string& type, const Value& index) {
  if (number(index) == 0) return pointer;
  name_like(pointer);
  return emit("ptr", text_of("getelementptr ", type, ", ptr ", pointer.name, ", i64 ", index.name));
}

namespace {
std::string arguments(const std::vector<Value>& args) {
  std::string out;
  for (const auto& a : args) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", a.type, a.name);
  return out;
}
}  // namespace

Value Builder::call(const std::string& result, std::string_view function, const std::vector<Value>& args) {
  return emit(result, fmt::format("call {} @{}({})", result, function, arguments(args)));
}

void Builder::call_void(std::string_view function, const std::vector<Value>& args) {
  emit(fmt::format("call void @{}({})", function, arguments(args)));
}

Value Builder::splat(const Value& scalar, int lanes) {
  const std::string type = vector_type(lanes, scalar.type);
  if (scalar.name.front() != '%') {
    if (scalar.name == "0" || scalar.name == "false" || scalar.name == f32(0).name) return {type, "zeroinitializer"};
    std::string text = "<";
    for (int i = 0; i < lanes; ++i) text += fmt::format("{}{} {}", i == 0 ? "" : ", ", scalar.type, scalar.name);
    return {type, text + ">"};
  }
  name_like(scalar);
  const Value first = emit(type, fmt::format("insertelement {} poison, {} {}, i64 0", type, scalar.type, scalar.name));
  name_like(first);
  return emit(type,
              fmt::format("shufflevector {0} {1}, {0} poison, <{2} x i32> zeroinitializer", type, first.name, lanes));
}

Value Builder::extract(const Value& vector, int lane) {
  const std::size_t x = vector.type.find(" x ") + 3;
  const std::string element = vector.type.substr(x, vector.type.size() - x - 1);
  return emit(element, fmt::format("extractelement {} {}, i64 {}", vector.type, vector.name, lane));
}

Value Builder::insert(const Value& vector, const Value& scalar, int lane) {
  return emit(vector.type, fmt::format("insertelement {} {}, {} {}, i64 {}", vector.type, vector.name, scalar.type,
                                       scalar.name, lane));
}

Value Builder::slot(const Value& initial) {
  Value out{"ptr", fresh({})};
  entry_ += fmt::format("  {} = alloca i64, align 8\n", out.name);
  set(out, initial);
  return out;
}

void Builder::open(const std::string& name) {
  body_ += name + ":\n";
  current_ = name;
}

void Builder::for_each(const Value& begin, const Value& end, std::int64_t step,
                       const std::function<void(Value)>& body) {
  fold(begin, end, step, {}, [&](Value i, const std::vector<Value>&) {
    body(std::move(i));
    return std::vector<Value>{};
  });
}

std::vector<Value> Builder::fold(const Value& begin, const Value& end, std::int64_t step, std::vector<Value> initial,
                                 const std::function<std::vector<Value>(Value, const std::vector<Value>&)>& body) {
  const auto names = std::exchange(loop_names_, {});
  const auto first = number(begin), last = number(end);
  if (first && last && *last - *first <= step) return *first < *last ? body(begin, initial) : initial;
  const std::string head = label(), inside = label(), latch = label(), exit = label();
  const std::string before = current_;
  const Value i{begin.type, fresh(names.index)}, next{begin.type, fresh(names.index)};
  std::vector<Value> carried;
  for (const auto& v : initial) carried.push_back({v.type, fresh(names.carried)});
  emit("br label %" + head);
  open(head);
  const std::size_t phis = body_.size();  // filled in when the last values are known
  const Value go = icmp("slt", i, end);
  emit(fmt::format("br i1 {}, label %{}, label %{}", go.name, inside, exit));
  open(inside);
  const std::vector<Value> results = body(i, carried);
  emit("br label %" + latch);
  open(latch);
  const Value sum = emit(i.type, fmt::format("add {} {}, {}", i.type, i.name, step));
  // An empty statement of assembly, so that LLVM's loop strength reduction does not see an induction variable: it takes
  // half of the time of compiling the forward and wins nothing where the addresses of a loop are a base and the
  // variable.
  emit(fmt::format("{} = call {} asm \"\", \"=r,0\"({} {})", next.name, i.type, sum.type, sum.name));
  emit("br label %" + head);
  std::string text =
      fmt::format("  {} = phi {} [ {}, %{} ], [ {}, %{} ]\n", i.name, i.type, begin.name, before, next.name, latch);
  for (std::size_t c = 0; c < carried.size(); ++c) {
    text += fmt::format("  {} = phi {} [ {}, %{} ], [ {}, %{} ]\n", carried[c].name, carried[c].type, initial[c].name,
                        before, results[c].name, latch);
  }
  body_.insert(phis, text);
  open(exit);
  return carried;
}

void Builder::when(const Value& condition, const std::function<void()>& then, const std::function<void()>& otherwise) {
  const std::string yes = label(), no = label(), end = otherwise ? label() : no;
  emit(fmt::format("br i1 {}, label %{}, label %{}", condition.name, yes, no));
  open(yes);
  then();
  emit("br label %" + end);
  if (otherwise) {
    open(no);
    otherwise();
    emit("br label %" + end);
  }
  open(end);
}

void Builder::repeat_while(const std::function<Value()>& condition, const std::function<void()>& body) {
  const std::string head = label(), inside = label(), exit = label();
  emit("br label %" + head);
  open(head);
  const Value go = condition();
  emit(fmt::format("br i1 {}, label %{}, label %{}", go.name, inside, exit));
  open(inside);
  body();
  emit("br label %" + head);
  open(exit);
}

void Builder::ret() { emit("ret void"); }
void Builder::ret(const Value& v) { emit(fmt::format("ret {} {}", v.type, v.name)); }

void Builder::ret_if(const Value& condition, const Value* v) {
  const std::string yes = label(), no = label();
  emit(fmt::format("br i1 {}, label %{}, label %{}", condition.name, yes, no));
  open(yes);
  v != nullptr ? ret(*v) : ret();
  open(no);
}

std::string Builder::finish() const {
  // Slots live in the entry block, in front of everything.
  return description_ + head_ + " " + attributes_ + " {\n" + entry_ + body_ + "}\n\n";
}

}  // namespace weft::codegen::cpu
