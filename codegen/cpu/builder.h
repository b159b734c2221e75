#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

/// A small builder of LLVM IR text: one function, structured control flow, numbered values. Keeps to
/// what LLVM 16 reads.
namespace weft::codegen::cpu {

/// An SSA value or literal with its type.
struct Value {
  std::string type;
  std::string name;
};

class Builder {
 public:
  /// `parameters`: "ptr %a, i64 %n". Internal functions stay inside the object.
  Builder(std::string name, std::string result, std::string parameters, bool is_internal);

  // Literals.
  static Value i64(std::int64_t v) { return {"i64", std::to_string(v)}; }
  static Value i32(std::int64_t v) { return {"i32", std::to_string(v)}; }
  static Value i1(bool v) { return {"i1", v ? "true" : "false"}; }
  static Value f32(double v);
  static Value f64(double v);
  static Value argument(std::string type, std::string name) { return {std::move(type), "%" + std::move(name)}; }

  // Instructions. Binary operands have one type. What literals decide is decided here: less text to read and compile.
  Value op(std::string_view op, const Value& a, const Value& b);
  Value add(const Value& a, const Value& b) { return op("add", a, b); }
  Value sub(const Value& a, const Value& b) { return op("sub", a, b); }
  Value mul(const Value& a, const Value& b) { return op("mul", a, b); }
  Value bit_and(const Value& a, const Value& b) { return op("and", a, b); }
  Value bit_or(const Value& a, const Value& b) { return op("or", a, b); }
  Value fadd(const Value& a, const Value& b) { return op("fadd", a, b); }
  Value fsub(const Value& a, const Value& b) { return op("fsub", a, b); }
  Value fmul(const Value& a, const Value& b) { return op("fmul", a, b); }
  Value icmp(std::string_view condition, const Value& a, const Value& b);
  Value fcmp(std::string_view condition, const Value& a, const Value& b);
  Value select(const Value& c, const Value& a, const Value& b);
  Value min(const Value& a, const Value& b) { return select(icmp("slt", a, b), a, b); }
  Value max(const Value& a, const Value& b) { return select(icmp("sgt", a, b), a, b); }
  Value cast(std::string_view op, const Value& a, const std::string& type);
  Value load(const std::string& type, const Value& pointer, int align);
  void store(const Value& v, const Value& pointer, int align);
  /// pointer + index elements of `type`.
  Value at(const Value& pointer, const std::string& type, const Value& index);
  Value call(const std::string& result, std::string_view function, const std::vector<Value>& args);
  void call_void(std::string_view function, const std::vector<Value>& args);
  Value splat(const Value& scalar, int lanes);
  Value extract(const Value& vector, int lane);
  Value insert(const Value& vector, const Value& scalar, int lane);
  /// Any other instruction with a result: text after `=`.
  Value emit(const std::string& type, std::string text);
  void emit(std::string text);
  void comment(std::string_view text);

  // Mutable 64-bit words on the stack, for cold code.
  Value slot(const Value& initial);
  Value get(const Value& slot, const std::string& type = "i64") { return load(type, slot, 8); }
  void set(const Value& slot, const Value& v) { store(v, slot, 8); }

  // Control flow. A loop between literals that runs at most once is no loop.
  void for_each(const Value& begin, const Value& end, std::int64_t step, const std::function<void(Value)>& body);
  /// A loop that hands values from pass to pass; returns the last ones.
  std::vector<Value> fold(const Value& begin, const Value& end, std::int64_t step, std::vector<Value> initial,
                          const std::function<std::vector<Value>(Value, const std::vector<Value>&)>& body);
  void when(const Value& condition, const std::function<void()>& then, const std::function<void()>& otherwise = {});
  void repeat_while(const std::function<Value()>& condition, const std::function<void()>& body);
  void ret();
  void ret(const Value& v);
  /// Returns early when the condition holds.
  void ret_if(const Value& condition, const Value* v = nullptr);

  /// What the value of the next instruction is called, before its number; a literal or empty. What is read or computed
  /// from a named value without changing its meaning (an address, a load, a copy to all lanes, a sum) inherits its
  /// name.
  void name_next(std::string_view name) { next_name_ = name; }
  /// What the next loop counts, and what it hands from pass to pass; literals.
  void name_loop(std::string_view index, std::string_view carried = {}) { loop_names_ = {index, carried}; }
  /// The value of the next instruction is called as this one, which outlives it, unless it has a name already.
  void name_like(const Value& v);
  /// What the function does, above it; to be called once.
  void describe(std::string_view text);

  /// Says that the function takes no part in the time a kernel needs: nothing is spent on making it fast.
  void seldom() { attributes_ = "#1"; }

  /// The whole function's text.
  std::string finish() const;

 private:
  std::string label() { return "b" + std::to_string(next_label_++); }
  void open(const std::string& name);
  /// A value of its own, without an instruction yet.
  std::string fresh(std::string_view stem);

  std::string description_, head_, attributes_ = "#0", entry_, body_;
  std::string current_ = "entry";
  std::string_view next_name_;
  struct LoopNames {
    std::string_view index, carried;
  } loop_names_;
  int next_value_ = 0;
  int next_label_ = 0;
};

std::string vector_type(int lanes, std::string_view element);

}  // namespace weft::codegen::cpu
