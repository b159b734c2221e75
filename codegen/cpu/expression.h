#pragma once

#include "codegen/cpu/builder.h"
#include "compiler/ir/plan.h"
#include "compiler/target/target.h"

#include <map>
#include <set>
#include <string>
#include <vector>

/// Spells `ir::Expr` trees as IR values at one place of a kernel: i64, f32 and i1, one value where the expression is
/// the same for all lanes, a vector where it differs. Equal sub-expressions are spelled once whether or not they are
/// shared in memory, so that a plan and its text give the same kernel. What only depends on variables known so far can
/// be spelled ahead, in front of a loop:
///
///     Expression outside(f, plan, target, lanes);
///     outside.let(ir::Variable::q, rows);
///     outside.prepare(score);
///     f.for_each(…, [&](Value key) {
///       Expression inside = outside;  // forgets what the loop's body computes
///       inside.let(ir::Variable::k, key);
///       f.vstore(inside.lanes(score), …);
///     });
///
/// Every operation is total (section 5 of the semantics), so both sides of a `select` are computed. Elements of inputs
/// are read through clamped indices, so that no pair faults, kept or not.
namespace weft::codegen::cpu {

class Expression {
 public:
  /// In a function whose argument %a is the argument block. Inputs are those of the plan.
  Expression(Builder& f, const std::vector<ir::Input>& inputs, const Target& target, int lanes);

  /// What a variable stands for from here on: i64, or f32 for `s`; single or one per lane.
  void let(ir::Variable v, Value value);
  /// Position of row 0, for axes over queries: i64.
  void let_offset(Value offset) { offset_ = std::move(offset); }

  /// The value of a node, computed elsewhere.
  void know(const ir::Expr& e, Value value) { known_.insert_or_assign(&e, std::move(value)); }

  /// Spells every part of `e` whose variables are known.
  void prepare(const ir::Expr& e);
  /// The value of `e`: single where it can be.
  Value value(const ir::Expr& e);
  /// The same as a vector.
  Value vector(const ir::Expr& e);
  /// The place of an input's element, row-major by the input's extents, clamped as where it is read: i64, single where
  /// it can be. Of inputs without elements any number.
  Value place(const ir::Expr& element);

 private:
  /// Facts of an input's axis.
  struct AxisFacts {
    Value stride, last;  ///< in elements; the largest index
  };
  struct InputFacts {
    Value data, is_there;  ///< a readable address and false, where an axis has no element
    std::vector<AxisFacts> axes;
  };

  /// The value of a part.
  Value known(const ir::Expr& e);
  bool is_known(const ir::Expr& e, std::map<const ir::Expr*, bool>& seen) const;
  Value spell(const ir::Expr& e);
  Value integer(const ir::Expr& e, const std::vector<Value>& args);
  Value real(const ir::Expr& e, const std::vector<Value>& args);
  Value compare(const ir::Expr& e, const std::vector<Value>& args);
  Value listed(const ir::Expr& e, const std::vector<Value>& args);
  Value element(const ir::Expr& e, const std::vector<Value>& indices);
  /// Index number `axis` of an element of an input, inside its axis.
  Value inside(const ir::Expr& e, std::size_t axis, const Value& index);
  const InputFacts& facts(int input);
  Value widen(const Value& v);
  /// Single values become vectors where another operand is one.
  void level(std::vector<Value>& args);

  Builder* f_;
  const std::vector<ir::Input>* inputs_;
  bool wide_;
  int lanes_;
  Value offset_;
  std::map<ir::Variable, Value> variables_;
  struct Before {
    bool operator()(const ir::Expr* a, const ir::Expr* b) const { return ir::compare(*a, *b) < 0; }
  };
  std::map<const ir::Expr*, Value, Before> known_;
  std::map<std::string, Value> widened_;
  std::map<int, InputFacts> facts_;
  bool rounds_ = false;  ///< some expression makes integers of reals
  std::set<const ir::Expr*> seen_;
};

/// Declarations and functions that expressions use, once a module; of functions, those that `callers` call.
std::string expression_functions(int lanes, std::string_view callers);

}  // namespace weft::codegen::cpu
