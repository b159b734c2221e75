#include "codegen/cpu/expression.h"
#include "codegen/cpu/kernel.h"
#include "compiler/ir/predicates.h"

#include <algorithm>

/// Conditions on pairs: what the rows of a tile say to each, which keys it lets through, and the mask of the pairs that
/// it leaves. Which of this is asked when, and what follows: runtime/cpu/conditions.cpp.
namespace weft::codegen::cpu {
namespace {

using ir::Variable;

const Value kZero = Part::i64(0);
const Value kOne = Part::i64(1);

/// Address of what a row part of a condition is for the tile's rows: i64, f32 bits or 0 and 1.
Value part_at(Part& f, std::size_t condition, std::size_t part, const Value& v) {
  const Kernel& k = f.kernel;
  const std::int64_t at = k.of_pairs[condition].parts_at + static_cast<std::int64_t>(part) * k.rows * 8;
  return f.at(f.in_scratch(at), "i64", v);
}

Value as_words(Part& f, const ir::Expr& e, const Value& v) {
  const std::string words = vector_type(f.kernel.lanes, "i64");
  if (e.type == ir::Type::boolean) return f.cast("zext", v, words);
  return e.type == ir::Type::real ? f.cast("zext", f.cast("bitcast", v, f.kernel.vi()), words) : v;
}

Value from_words(Part& f, const ir::Expr& e, const Value& words) {
  if (e.type == ir::Type::boolean) return f.cast("trunc", words, f.kernel.vb());
  return e.type == ir::Type::real ? f.cast("bitcast", f.cast("trunc", words, f.kernel.vi()), f.kernel.vf()) : words;
}

Value load_words(Part& f, const Value& at) { return f.load(vector_type(f.kernel.lanes, "i64"), at, 32); }

Expression rows_of(Part& f, const Value& v) {
  Expression e = expression_at(f, f.kernel.lanes);
  e.let(Variable::q, load_words(f, f.at(f.in_scratch(f.kernel.x), "i64", v)));
  return e;
}

/// A condition on rows alone: does some row meet it, does some fail?
void describe_rows(Part& f, std::size_t number) {
  const Kernel& k = f.kernel;
  const Value state = f.condition(Part::i64(static_cast<std::int64_t>(number)));
  const auto found = f.fold(
      kZero, Part::i64(k.rows), k.lanes, {Part::i1(false), Part::i1(false)},
      [&](const Value& v, const std::vector<Value>& seen) {
        Expression e = rows_of(f, v);
        const Value meets = e.vector(*k.of_pairs[number].holds);
        // fault(rows_that_fail_are_not_seen) value: meets
        const Value all = f.splat(Part::i1(true), k.lanes);
        return std::vector<Value>{f.bit_or(seen[0], f.any(meets)), f.bit_or(seen[1], f.any(f.op("xor", meets, all)))};
      });
  f.set_member(state, offsetof(Condition, said.some_meet), f.cast("zext", found[0], "i64"));
  f.set_member(state, offsetof(Condition, said.some_fail), f.cast("zext", found[1], "i64"));
}

/// A condition on pairs: its row parts for all rows, and an interval's bounds.
void describe_pairs(Part& f, std::size_t number) {
  const Kernel& k = f.kernel;
  const ir::Predicate& p = k.plan.predicates[number];
  f.for_each(kZero, Part::i64(k.rows), k.lanes, [&](const Value& v) {
    Expression e = rows_of(f, v);
    std::vector<ir::ExprPtr> stored = k.of_pairs[number].parts;
    if (p.key) stored.insert(stored.end(), {p.lo, p.hi});
    for (std::size_t i = 0; i < stored.size(); ++i) {
      f.store(as_words(f, *stored[i], e.vector(*stored[i])), part_at(f, number, i, v), 32);
    }
  });
}

/// What only the condition tells.
void describe_condition(Part& f, std::size_t number) {
  const Kernel& k = f.kernel;
  const Kernel::OfPairs& c = k.of_pairs[number];
  const ir::Predicate& p = k.plan.predicates[number];
  const Value state = f.condition(Part::i64(static_cast<std::int64_t>(number)));
  const auto set = [&](std::size_t member, std::int64_t v) { f.set_member(state, member, Part::i64(v)); };
  const int list = ir::summary_of(k.plan, number);
  const bool of_blocks = list >= 0 && k.plan.lists[static_cast<std::size_t>(list)].kind == ir::List::Kind::meets;
  set(offsetof(Condition, said.on_row), c.on_row ? 1 : 0);
  set(offsetof(Condition, parts), static_cast<std::int64_t>(c.parts.size()));
  set(offsetof(Condition, parts_at), c.parts_at);
  set(offsetof(Condition, bounds_at), p.key ? c.bounds_at : 0);
  // Asked of every condition: only a plain interval narrows the keys of a run.
  set(offsetof(Condition, narrowing_at), !c.on_row && p.key && p.modulus == 0 ? c.bounds_at : 0);
  set(offsetof(Condition, unit), c.unit);
  set(offsetof(Condition, modulus), c.modulus);
  set(offsetof(Condition, grid_unit), c.periodic ? c.periodic->unit : 0);
  set(offsetof(Condition, grid_modulus), c.periodic ? c.periodic->modulus : 0);
  set(offsetof(Condition, summary), list);
  set(offsetof(Condition, summarizes_blocks), of_blocks ? 1 : 0);
  const std::int64_t of_list = c.parts.size() == 1 ? ir::listed_unit(p, k.plan.stationary()) : 0;
  set(offsetof(Condition, list), of_list > 0 ? p.holds->input : -1);
  set(offsetof(Condition, of_list), of_list);
}

/// @describe: what the rows of the tile say to every condition.
std::string describe(const Kernel& k) {
  Part f(k, "describe");
  f.seldom();
  for (std::size_t i = 0; i < k.of_pairs.size(); ++i) {
    describe_condition(f, i);
    k.of_pairs[i].on_row ? describe_rows(f, i) : describe_pairs(f, i);
  }
  f.ret();
  return f.finish();
}

/// Answers of the tile's runs to one key, as walk::Answer has them.
Value answers_of_runs(Part& f, const Value& state, const Expression& key, const ir::Expr& holds) {
  const Value rows = f.at(state, "i8", Part::i64(offsetof(Condition, run_rows)));
  const Value runs = f.member(state, offsetof(Condition, said.runs));
  return f.fold(kZero, runs, 1, {kZero}, [&](const Value& r, const std::vector<Value>& so_far) {
    Expression pair = key;
    pair.let(Variable::q, f.load("i64", f.at(rows, "i64", r), 8));
    // fault(runs_that_do_not_keep_are_overlooked) instead:
    //   return std::vector<Value>{f.bit_or(so_far[0], f.select(pair.value(holds), kOne, kZero))};
    // fault(runs_that_keep_are_overlooked) instead:
    //   return std::vector<Value>{f.bit_or(so_far[0], Part::i64(2))};
    return std::vector<Value>{f.bit_or(so_far[0], f.select(pair.value(holds), kOne, Part::i64(2)))};
  })[0];
}

/// @ask: answers of the tile's runs to key y; of an interval also the key's value there.
std::string ask(const Kernel& k) {
  Part f(k, "ask", "i64", "i64 %number, i64 %y");
  for (std::size_t i = 0; i < k.of_pairs.size(); ++i) {
    if (k.of_pairs[i].on_row) continue;
    const Value number = Part::i64(static_cast<std::int64_t>(i)), state = f.condition(number);
    f.when(f.icmp("eq", Part::argument("i64", "number"), number), [&] {
      Expression key = expression_at(f, 1);
      key.let(Variable::k, Part::argument("i64", "y"));
      key.prepare(*k.of_pairs[i].holds);
      if (const auto& of = k.plan.predicates[i].key)
        f.set_member(state, offsetof(Condition, known_key), key.value(*of));
      f.set_member(state, offsetof(Condition, known), answers_of_runs(f, state, key, *k.of_pairs[i].holds));
    });
  }
  const Value state = f.condition(Part::argument("i64", "number"));
  f.ret(f.member(state, offsetof(Condition, known)));
  return f.finish();
}

/// @form: a bound that is an expression of the row.
std::string form(const Kernel& k) {
  Part f(k, "form", "i64", "i64 %number, i64 %x");
  const Value out = f.slot(kZero);
  for (std::size_t i = 0; i < k.plan.forms.size(); ++i) {
    f.when(f.icmp("eq", Part::argument("i64", "number"), Part::i64(static_cast<std::int64_t>(i))), [&] {
      Expression form = expression_at(f, 1);
      form.let(Variable::q, Part::argument("i64", "x"));
      f.set(out, form.value(*k.plan.forms[i]));
    });
  }
  f.ret(f.get(out));
  return f.finish();
}

/// @mask: takes from `mask` the rows of a vector that do not meet a condition, or its opposite, at key y.
std::string mask(const Kernel& k) {
  Part f(k, "mask", "void", "i64 %number, i1 %negated, i64 %y, i64 %v");
  f.describe("takes from the rows that keep key y those that fail a condition");
  const Value number = Part::argument("i64", "number");
  const Value v = Part::argument("i64", "v");
  const Value kept = f.load(k.vi(), f.in_scratch(k.mask), 32);
  const Value flip = f.cast("sext", f.splat(Part::argument("i1", "negated"), k.lanes), k.vi());
  for (std::size_t i = 0; i < k.of_pairs.size(); ++i) {
    const Kernel::OfPairs& c = k.of_pairs[i];
    f.when(f.icmp("eq", number, Part::i64(static_cast<std::int64_t>(i))), [&] {
      Expression e = rows_of(f, v);
      if (!c.on_row) {
        for (std::size_t part = 0; part < c.parts.size(); ++part) {
          e.know(*c.parts[part], from_words(f, *c.parts[part], load_words(f, part_at(f, i, part, v))));
        }
      }
      e.let(Variable::k, Part::argument("i64", "y"));
      const Value holds = f.cast("sext", e.vector(*c.holds), k.vi());
      // fault(negation_dropped_by_the_mask) instead: f.store(f.bit_and(kept, holds), f.in_scratch(k.mask), 32);
      // fault(mask_not_applied) instead: f.store(kept, f.in_scratch(k.mask), 32);
      f.store(f.bit_and(kept, f.op("xor", holds, flip)), f.in_scratch(k.mask), 32);
    });
  }
  f.ret();
  return f.finish();
}

}  // namespace

Expression expression_at(Part& f, int lanes) {
  const Kernel& k = f.kernel;
  Expression e(f, k.plan.inputs, k.target, lanes);
  e.let(Variable::b, f.tile(kB));
  e.let(Variable::h, f.tile(kH));
  e.let(Variable::n_q, f.arg(offsetof(weft_args, n_q)));
  e.let(Variable::n_k, f.arg(offsetof(weft_args, n_k)));
  e.let(Variable::heads, f.arg(offsetof(weft_args, heads)));
  e.let_offset(f.tile(kOffset));
  return e;
}

std::string emit_conditions(const Kernel& k) {
  std::string text = ";; Conditions on pairs\n";
  if (!k.plan.forms.empty()) text += form(k);
  if (k.of_pairs.empty()) return text;
  const bool on_pairs = !std::all_of(k.of_pairs.begin(), k.of_pairs.end(), [](const auto& c) { return c.on_row; });
  return text + describe(k) + (on_pairs ? ask(k) : "") + mask(k);
}

}  // namespace weft::codegen::cpu
