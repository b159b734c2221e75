#include "compiler/ir/pattern.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

namespace weft::ir {
namespace {

constexpr std::int64_t kManyNodes = std::int64_t{1} << 40;

bool reads_inputs(const Expr& e) {
  return any_node(e, [](const Expr& node) { return node.op == Op::input || node.items > 0; });
}

SetPtr finish(Set set) {
  set.reads_inputs = set.input >= 0;
  if (set.expr) {
    set.reads_inputs = set.reads_inputs || reads_inputs(*set.expr);
    set.nodes += set.expr->nodes;
    set.depth += set.expr->depth;
  }
  for (const auto& child : set.children) {
    set.nodes = std::min(kManyNodes, set.nodes + child->nodes);
    set.depth = std::max(set.depth, child->depth + 1);
    set.reads_inputs = set.reads_inputs || child->reads_inputs;
  }
  return std::make_shared<const Set>(std::move(set));
}

SetPtr make_all(SourceRange range) { return finish({.kind = SetKind::all, .range = range}); }

SetPtr make_empty(SourceRange range) {
  return finish({.kind = SetKind::complement, .range = range, .children = {make_all(range)}});
}

bool is_all(const SetPtr& set) { return set->kind == SetKind::all; }

SetPtr make_complement(const SetPtr& set, SourceRange range) {
  if (set->kind == SetKind::complement) return set->children[0];
  return finish({.kind = SetKind::complement, .range = range, .children = {set}});
}

SetPtr make_difference(const SetPtr& from, const SetPtr& without, SourceRange range) {
  if (is_empty(*without) || is_empty(*from)) return from;
  if (is_all(without)) return make_empty(range);
  if (is_all(from)) return make_complement(without, range);
  return finish({.kind = SetKind::difference, .range = range, .children = {from, without}});
}

/// Intersection and union are each other's mirror image: the neutral operand of one (`all`, the empty
/// set) absorbs the other.
SetPtr make_many(SetKind kind, const std::vector<SetPtr>& children, SourceRange range) {
  const bool intersects = kind == SetKind::intersection;
  std::vector<SetPtr> flat;
  for (const auto& child : children) {
    if (intersects ? is_empty(*child) : is_all(child)) return child;
    if (intersects ? is_all(child) : is_empty(*child)) continue;
    if (child->kind == kind) {
      flat.insert(flat.end(), child->children.begin(), child->children.end());
    } else {
      flat.push_back(child);
    }
  }
  if (flat.empty()) return intersects ? make_all(range) : make_empty(range);
  if (flat.size() == 1) return flat.front();
  return finish({.kind = kind, .range = range, .children = std::move(flat)});
}

bool same(const ExprPtr& a, const ExprPtr& b) { return a && b ? same(*a, *b) : !a && !b; }

bool same(const Axis& a, const Axis& b) { return a.kind == b.kind && a.extent == b.extent; }

bool same(const Input& a, const Input& b) {
  return a.name == b.name && a.type == b.type && a.block == b.block &&
         std::equal(a.axes.begin(), a.axes.end(), b.axes.begin(), b.axes.end(),
                    [](const Axis& x, const Axis& y) { return same(x, y); });
}

bool same(const std::optional<Ring>& a, const std::optional<Ring>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return a->ranks == b->ranks && a->layout == b->layout;
}

bool same(const Branch& a, const Branch& b) { return a.heads == b.heads && same(*a.set, *b.set); }

bool same(const ScheduleHint& a, const ScheduleHint& b) { return a.key == b.key && a.value == b.value; }

template <typename T>
bool all_same(const std::vector<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const T& x, const T& y) { return same(x, y); });
}

}  // namespace

bool HeadSet::contains(std::int64_t h, std::int64_t heads) const {
  if (kind == Kind::all) return h < heads;
  if (kind == Kind::range) return lo <= h && h < hi;
  const std::int64_t size = heads / count, extra = heads % count;
  // The `extra` groups that get one head more are the first or the last ones.
  const auto larger_before = [&](std::int64_t group) {
    return kind == Kind::group ? std::min(group, extra) : std::max<std::int64_t>(0, group - (count - extra));
  };
  return index * size + larger_before(index) <= h && h < (index + 1) * size + larger_before(index + 1);
}

bool are_apart(const HeadSet& a, const HeadSet& b) {
  if (a.kind != b.kind || a.kind == HeadSet::Kind::all) return false;
  if (a.kind == HeadSet::Kind::range) return a.hi <= b.lo || b.hi <= a.lo;
  return a.count == b.count && a.index != b.index;
}

SetPtr make_set(SetKind kind, std::vector<std::int64_t> args, SourceRange range) {
  return finish({.kind = kind, .range = range, .args = std::move(args)});
}

SetPtr make_set(SetKind kind, std::vector<SetPtr> children, SourceRange range) {
  if (kind == SetKind::complement) return make_complement(children[0], range);
  if (kind == SetKind::difference) return make_difference(children[0], children[1], range);
  assert(kind == SetKind::intersection || kind == SetKind::unite);
  return make_many(kind, children, range);
}

SetPtr make_input_set(SetKind kind, int input, SourceRange range) {
  return finish({.kind = kind, .range = range, .input = input});
}

SetPtr make_where(ExprPtr condition, SourceRange range) {
  if (condition->op == Op::constant) return condition->boolean ? make_all(range) : make_empty(range);
  return finish({.kind = SetKind::where, .range = range, .expr = std::move(condition)});
}

SetPtr make_blocks(std::int64_t block, SetPtr inside, SourceRange range) {
  if (is_all(inside) || is_empty(*inside)) return inside;
  return finish({.kind = SetKind::blocks, .range = range, .args = {block}, .children = {std::move(inside)}});
}

SetPtr make_top(std::int64_t count, int input, bool causal, SourceRange range) {
  return finish({.kind = SetKind::top, .range = range, .args = {count}, .input = input, .causal_top = causal});
}

SetPtr make_own(SetKind kind, std::int64_t ranks, std::int64_t rank, RingLayout layout) {
  return finish({.kind = kind, .args = {ranks, rank}, .layout = layout});
}

SetPtr make_dilated(std::int64_t segment, std::int64_t rate, ExprPtr phase, bool all_queries, SourceRange range) {
  if (phase->op == Op::constant) phase = constant(floor_mod(phase->integer, rate), phase->range);
  return finish({.kind = SetKind::dilated,
                 .range = range,
                 .args = {segment, rate},
                 .expr = std::move(phase),
                 .all_queries = all_queries});
}

bool is_empty(const Set& set) { return set.kind == SetKind::complement && is_all(set.children[0]); }

bool same(const Set& a, const Set& b) {
  if (&a == &b) return true;
  return a.kind == b.kind && a.nodes == b.nodes && a.args == b.args && a.input == b.input &&
         a.all_queries == b.all_queries && a.causal_top == b.causal_top && a.layout == b.layout &&
         same(a.expr, b.expr) &&
         std::equal(a.children.begin(), a.children.end(), b.children.begin(), b.children.end(),
                    [](const SetPtr& x, const SetPtr& y) { return same(*x, *y); });
}

bool same(const Pattern& a, const Pattern& b) {
  return a.name == b.name && a.heads == b.heads && a.kv_heads == b.kv_heads && a.dim == b.dim && a.dim_v == b.dim_v &&
         a.dtype == b.dtype && a.tokens.kind == b.tokens.kind && a.tokens.count == b.tokens.count && a.grid == b.grid &&
         a.combine == b.combine && a.dropout == b.dropout && all_same(a.inputs, b.inputs) &&
         all_same(a.branches, b.branches) && all_same(a.schedule, b.schedule) && same(a.scale, b.scale) &&
         same(a.score, b.score) && same(a.sink_logit, b.sink_logit) && same(a.sigmoid, b.sigmoid) &&
         same(a.ring, b.ring);
}

const char* to_string(DType t) {
  constexpr std::array kNames = {"f32", "f16", "bf16"};
  return kNames[static_cast<std::size_t>(t)];
}

const char* to_string(InputType t) {
  constexpr std::array kNames = {"i32", "u8", "f32"};
  return kNames[static_cast<std::size_t>(t)];
}

const char* to_string(Combine c) {
  constexpr std::array kNames = {"joint", "joint detached", "union", "sum", "mean"};
  return kNames[static_cast<std::size_t>(c)];
}

const char* to_string(RingLayout l) {
  constexpr std::array kNames = {"auto", "contiguous", "zigzag", "striped"};
  return kNames[static_cast<std::size_t>(l)];
}

const char* to_string(SetKind k) {
  constexpr std::array kWords = {
#define WEFT_ANY_SET(kind, word, ...) word,
#include "dsl/sets.def"
  };
  return kWords[static_cast<std::size_t>(k)];
}

int size_of(DType t) { return t == DType::f32 ? 4 : 2; }

}  // namespace weft::ir
