#include "compiler/ir/derivative.h"

#include <unordered_map>
#include <utility>

namespace weft::ir {
namespace {

/// A real expression as the rules of ops.def write it. Null is a derivative that is 0 wherever the value is defined,
/// so that it may leave out what it is multiplied by.
struct Term {
  Term(ExprPtr e) : tree(std::move(e)) {}
  Term(double number) : tree(constant_real(number)) {}
  ExprPtr tree;
};

bool is_one(const Term& t) { return t.tree && t.tree->op == Op::constant && t.tree->real == 1; }

Term operator-(const Term& a) { return a.tree ? Term(apply(Op::negate, {a.tree})) : a; }
Term operator+(const Term& a, const Term& b) {
  return !a.tree ? b : !b.tree ? a : Term(apply(Op::add, {a.tree, b.tree}));
}
Term operator-(const Term& a, const Term& b) {
  return !a.tree ? -b : !b.tree ? a : Term(apply(Op::subtract, {a.tree, b.tree}));
}
Term operator*(const Term& a, const Term& b) {
  if (!a.tree || !b.tree) return ExprPtr();
  return is_one(a) ? b : is_one(b) ? a : Term(apply(Op::multiply, {a.tree, b.tree}));
}
Term operator/(const Term& a, const Term& b) { return a.tree ? Term(apply(Op::divide, {a.tree, b.tree})) : a; }
ExprPtr operator==(const Term& a, const Term& b) { return apply(Op::equal, {a.tree, b.tree}); }

Term choose(const ExprPtr& condition, const Term& yes, const Term& no) {
  if (!yes.tree && !no.tree) return yes;
  const auto number = [](const Term& t) { return t.tree ? t.tree : constant_real(0); };
  return apply(Op::select, {condition, number(yes), number(no)});
}

class Derivation {
 public:
  ExprPtr of(const ExprPtr& node) {
    if (node->type != Type::real) return nullptr;
    if (node->op == Op::variable) return constant_real(1);
    const auto [at, is_new] = done_.try_emplace(node.get());
    if (!is_new) return at->second;
    ExprPtr out = rule(node);
    return done_[node.get()] = std::move(out);
  }

 private:
  ExprPtr rule(const ExprPtr& node) {
    const auto& args = node->args;
    if (node->op == Op::select) return choose(args[0], of(args[1]), of(args[2])).tree;
    const Signature signature = facts(node->op).signature;
    if (signature != Signature::numbers && signature != Signature::reals) return nullptr;
    const Term e = node, a = args.front(), b = args.back(), da = of(args.front()), db = of(args.back());
    if (!da.tree && !db.tree) return nullptr;
#define WEFT_REALS(name, value, derivative, ...) \
  if (node->op == Op::name) return Term(derivative).tree;
#include "compiler/base/ops.def"
    return nullptr;
  }

  std::unordered_map<const Expr*, ExprPtr> done_;
};

}  // namespace

ExprPtr derivative(const ExprPtr& e) {
  ExprPtr out = Derivation().of(e);
  return out ? out : constant_real(0);
}

}  // namespace weft::ir
