#include "compiler/ir/derivative.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
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
  explicit Derivation(const Expr& by) : by_(by) {}

  ExprPtr of(const ExprPtr& node) {
    if (node->type != Type::real) return nullptr;
    if (node->op == by_.op && compare(*node, by_) == 0) return constant_real(1);
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

  const Expr& by_;
  std::unordered_map<const Expr*, ExprPtr> done_;
};

}  // namespace

ExprPtr derivative(const ExprPtr& e, const ExprPtr& by) {
  ExprPtr out = Derivation(*by).of(e);
  return out ? out : constant_real(0);
}

std::vector<ExprPtr> real_elements(const ExprPtr& e) {
  std::vector<ExprPtr> out;
  std::unordered_set<const Expr*> seen;
  const auto visit = [&](const auto& self, const ExprPtr& at) -> void {
    if (at->type != Type::real || !seen.insert(at.get()).second) return;
    const auto is_same = [&](const ExprPtr& other) { return compare(*other, *at) == 0; };
    if (at->op == Op::input && std::none_of(out.begin(), out.end(), is_same)) out.push_back(at);
    if (at->op != Op::input) std::for_each(at->args.begin(), at->args.end(), [&](const auto& arg) { self(self, arg); });
  };
  visit(visit, e);
  return out;
}

}  // namespace weft::ir
