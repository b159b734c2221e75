#include "codegen/cpu/expression.h"
#include "codegen/cpu/kernel.h"
#include "compiler/ir/schedule.h"

#include <algorithm>

/// Conditions on pairs: what the rows of a tile say to each (compiler/ir/schedule.h), which keys it lets through, and
/// the mask of the pairs that it leaves.
namespace weft::codegen::cpu {
namespace {

using ir::Variable;

const Value kZero = Part::i64(0);
const Value kOne = Part::i64(1);
constexpr auto kStationary = ir::Stationary::query;

/// Address of what a row part of a condition is for the tile's rows: i64, f32 bits or 0 and 1.
Value part_at(Part& f, std::size_t condition, std::size_t part, const Value& v) {
  const Kernel& k = f.kernel;
  const std::int64_t at = k.conditions[condition].parts_at + static_cast<std::int64_t>(part) * k.rows * 8;
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
        const Value meets = e.vector(*k.conditions[number].holds);
        const Value all = f.splat(Part::i1(true), k.lanes);
        return std::vector<Value>{f.bit_or(seen[0], f.any(meets)), f.bit_or(seen[1], f.any(f.op("xor", meets, all)))};
      });
  f.store(f.cast("zext", found[0], "i64"), f.at(state, "i64", Part::i64(kSomeMeet)), 8);
  f.store(f.cast("zext", found[1], "i64"), f.at(state, "i64", Part::i64(kSomeFail)), 8);
}

/// A condition on pairs: its row parts for all rows, the runs of rows that agree on them, and an interval's reach.
void describe_pairs(Part& f, std::size_t number) {
  const Kernel& k = f.kernel;
  const ir::Predicate& p = k.plan.predicates[number];
  const Kernel::Condition& c = k.conditions[number];
  const Value state = f.condition(Part::i64(static_cast<std::int64_t>(number)));
  f.for_each(kZero, Part::i64(k.rows), k.lanes, [&](const Value& v) {
    Expression e = rows_of(f, v);
    std::vector<ir::ExprPtr> stored = c.parts;
    if (p.key) stored.insert(stored.end(), {p.lo, p.hi});
    for (std::size_t i = 0; i < stored.size(); ++i) {
      f.store(as_words(f, *stored[i], e.vector(*stored[i])), part_at(f, number, i, v), 32);
    }
  });
  const auto parts = static_cast<std::int64_t>(c.parts.size());
  f.call_void("runs", {f.a, f.s, state, part_at(f, number, 0, kZero), Part::i64(parts)});
  f.store(Part::i64(c.unit), f.at(state, "i64", Part::i64(kUnit)), 8);
  f.store(kZero, f.at(state, "i64", Part::i64(kKnownFrom)), 8);
  f.store(kZero, f.at(state, "i64", Part::i64(kKnownEnd)), 8);
  f.store(kZero, f.at(state, "i64", Part::i64(kSlope)), 8);
  if (!p.key) return;
  const auto reach = f.fold(kZero, Part::i64(k.rows), 1, {Part::i64(INT64_MAX), Part::i64(INT64_MIN)},
                            [&](const Value& r, const std::vector<Value>& seen) {
                              const Value bounds = f.at(f.in_scratch(c.bounds_at), "i64", r);
                              const Value lo = f.load("i64", bounds, 8);
                              const Value hi = f.load("i64", f.at(bounds, "i64", Part::i64(k.rows)), 8);
                              return std::vector<Value>{f.min(seen[0], lo), f.max(seen[1], hi)};
                            });
  f.store(reach[0], f.at(state, "i64", Part::i64(kLeast)), 8);
  f.store(reach[1], f.at(state, "i64", Part::i64(kMost)), 8);
}

/// @runs: one row of each run of neighbours that agree on all parts, into the condition's state; none where there are
/// more than ir::kMostRuns.
std::string runs(const Kernel& k) {
  Part f(k, "runs", "void", "ptr %state, ptr %parts, i64 %count");
  f.seldom();
  const Value state = Part::argument("ptr", "state");
  const Value most = Part::i64(static_cast<std::int64_t>(ir::kMostRuns));
  const auto found = f.fold(kZero, Part::i64(k.rows), 1, {kZero}, [&](const Value& r, const std::vector<Value>& n) {
    const Value before = f.max(f.sub(r, kOne), kZero);
    const auto differs = f.fold(kZero, Part::argument("i64", "count"), 1, {f.icmp("eq", r, kZero)},
                                [&](const Value& i, const std::vector<Value>& so_far) {
                                  const Value part =
                                      f.at(Part::argument("ptr", "parts"), "i64", f.mul(i, Part::i64(k.rows)));
                                  const Value now = f.load("i64", f.at(part, "i64", r), 8);
                                  const Value then = f.load("i64", f.at(part, "i64", before), 8);
                                  return std::vector<Value>{f.bit_or(so_far[0], f.icmp("ne", now, then))};
                                });
    f.when(f.bit_and(differs[0], f.icmp("slt", n[0], most)), [&] {
      const Value x = f.load("i64", f.at(f.in_scratch(k.x), "i64", r), 8);
      f.store(x, f.at(f.at(state, "i64", Part::i64(kRunRows)), "i64", n[0]), 8);
    });
    return std::vector<Value>{f.add(n[0], f.cast("zext", differs[0], "i64"))};
  });
  const Value few = f.icmp("sle", found[0], most);
  f.store(f.select(few, found[0], kZero), f.at(state, "i64", Part::i64(kRuns)), 8);
  f.ret();
  return f.finish();
}

/// @describe: what the rows of the tile say to every condition.
std::string describe(const Kernel& k) {
  Part f(k, "describe");
  f.seldom();
  for (std::size_t i = 0; i < k.conditions.size(); ++i) {
    const Value state = f.condition(Part::i64(static_cast<std::int64_t>(i)));
    const ir::Predicate& p = k.plan.predicates[i];
    f.store(Part::i64(k.conditions[i].on_row ? 1 : 0), f.at(state, "i64", Part::i64(kOnRow)), 8);
    // Asked of every condition: only a plain interval narrows the keys of a run.
    const bool narrows = !k.conditions[i].on_row && p.key && p.modulus == 0;
    f.store(Part::i64(narrows ? k.conditions[i].bounds_at : 0), f.at(state, "i64", Part::i64(kBoundsAt)), 8);
    k.conditions[i].on_row ? describe_rows(f, i) : describe_pairs(f, i);
  }
  f.ret();
  return f.finish();
}

/// Of an interval's key: its value at the key that is asked about, and what the rows' reach makes of it.
struct Reach {
  Value at, inside;
};
Reach reach_of(Part& f, const Value& state, Expression& key, const ir::Predicate& p) {
  const Value at = key.value(*p.key);
  return {at, f.bit_and(f.icmp("sge", at, f.word(state, kLeast)), f.icmp("slt", at, f.word(state, kMost)))};
}

/// Answers of the tile's runs to one key: bit 0, some run keeps it; bit 1, some run does not.
Value answers_of_runs(Part& f, const Value& state, const Expression& key, const ir::Expr& holds) {
  const Value rows = f.at(state, "i64", Part::i64(kRunRows));
  return f.fold(kZero, f.word(state, kRuns), 1, {kZero}, [&](const Value& r, const std::vector<Value>& so_far) {
    Expression pair = key;
    pair.let(Variable::q, f.load("i64", f.at(rows, "i64", r), 8));
    return std::vector<Value>{f.bit_or(so_far[0], f.select(pair.value(holds), kOne, Part::i64(2)))};
  })[0];
}

/// Where a key's line of a grid enters or leaves what the rows reach: the first key behind y of which that can be said
/// anew. Inside, one line of keys of unit 1 is known to its end; other units one by one.
void know_line(Part& f, const Kernel::Condition& c, const Value& state, const Reach& reach, const Value& y,
               const Value& end) {
  const Value units = f.op("sdiv", y, Part::i64(c.periodic->unit));
  const Value modulus = Part::i64(c.periodic->modulus);
  const Value least = f.max(f.word(state, kLeast), kZero);
  f.when(
      reach.inside,
      [&] {
        if (c.periodic->unit > 1) return;
        const Value last = c.periodic->modulus > 0 ? f.min(f.word(state, kMost), modulus) : f.word(state, kMost);
        // Rows that all agree keep the rest of the line; of many, who keeps what is asked run by run of keys.
        f.when(f.icmp("ule", f.word(state, kRuns), kOne), [&] {
          f.set(end, f.add(y, f.sub(last, reach.at)));
          f.store(kOne, f.at(state, "i64", Part::i64(kSlope)), 8);
        });
      },
      [&] {
        Value away = f.sub(least, reach.at);
        if (c.periodic->modulus > 0) away = f.floor_mod(away, modulus);
        const Value next = f.mul(f.add(units, f.max(away, kOne)), Part::i64(c.periodic->unit));
        f.set(end, f.max(f.get(end), next));
      });
}

/// The answer to y and those behind it that share it: the keys of one unit or of a line of a grid, or those a summary
/// speaks of.
void answer(Part& f, std::size_t number, const Value& y) {
  const Kernel::Condition& c = f.kernel.conditions[number];
  const ir::Predicate& p = f.kernel.plan.predicates[number];
  const Value state = f.condition(Part::i64(static_cast<std::int64_t>(number)));
  const Value unit = f.word(state, kUnit);
  const Value begin = f.mul(f.op("sdiv", y, unit), unit);
  const Value out = f.slot(Part::i64(-1)), end = f.slot(f.add(begin, unit));
  ask_summary(f, number, y,
              {.answer =
                   [&](const Value& answer, const Value& to) {
                     f.set(out, answer);
                     f.set(end, to);
                   },
               .one_key = [&](const Value& to) { f.set(end, to); }});
  f.when(f.icmp("slt", f.get(out), kZero), [&] {
    Expression key = expression_at(f, 1);
    key.let(Variable::k, y);
    key.prepare(*c.holds);
    // Rows too different to ask each: all that an interval's reach leaves may be kept or not.
    Value reachable = Part::i64(3);
    if (p.key) {
      const Reach reach = reach_of(f, state, key, p);
      reachable = f.select(reach.inside, reachable, Part::i64(2));
      f.store(reach.at, f.at(state, "i64", Part::i64(kKnownKey)), 8);
      f.store(kZero, f.at(state, "i64", Part::i64(kSlope)), 8);
      if (c.periodic) know_line(f, c, state, reach, y, end);
    }
    const Value few = f.icmp("ne", f.word(state, kRuns), kZero);
    f.set(out, f.select(few, answers_of_runs(f, state, key, *c.holds), reachable));
  });
  f.store(y, f.at(state, "i64", Part::i64(kKnownFrom)), 8);
  f.store(f.get(end), f.at(state, "i64", Part::i64(kKnownEnd)), 8);
  f.store(f.get(out), f.at(state, "i64", Part::i64(kKnown)), 8);
}

/// @answers: of a condition's number to a key.
std::string answers(const Kernel& k) {
  Part f(k, "answers", "i64", "i64 %number, i64 %y");
  const Value number = Part::argument("i64", "number");
  const Value y = Part::argument("i64", "y");
  const Value state = f.condition(number);
  const Value on_row = f.icmp("ne", f.word(state, kOnRow), kZero);
  const Value both = Part::i64(3);
  f.ret_if(on_row, &both);
  const Value known = f.word(state, kKnown);
  f.ret_if(f.bit_and(f.icmp("sge", y, f.word(state, kKnownFrom)), f.icmp("slt", y, f.word(state, kKnownEnd))), &known);
  for (std::size_t i = 0; i < k.conditions.size(); ++i) {
    if (k.conditions[i].on_row) continue;
    f.when(f.icmp("eq", number, Part::i64(static_cast<std::int64_t>(i))), [&] { answer(f, i, y); });
  }
  f.ret(f.word(state, kKnown));
  return f.finish();
}

/// @mask: takes from `mask` the rows of a vector that do not meet a condition, or its opposite, at key y.
std::string mask(const Kernel& k) {
  Part f(k, "mask", "void", "i64 %number, i1 %negated, i64 %y, i64 %v");
  const Value number = Part::argument("i64", "number");
  const Value v = Part::argument("i64", "v");
  const Value kept = f.load(k.vi(), f.in_scratch(k.mask), 32);
  const Value flip = f.cast("sext", f.splat(Part::argument("i1", "negated"), k.lanes), k.vi());
  for (std::size_t i = 0; i < k.conditions.size(); ++i) {
    const Kernel::Condition& c = k.conditions[i];
    f.when(f.icmp("eq", number, Part::i64(static_cast<std::int64_t>(i))), [&] {
      Expression e = rows_of(f, v);
      if (!c.on_row) {
        for (std::size_t part = 0; part < c.parts.size(); ++part) {
          e.know(*c.parts[part], from_words(f, *c.parts[part], load_words(f, part_at(f, i, part, v))));
        }
      }
      e.let(Variable::k, Part::argument("i64", "y"));
      const Value holds = f.cast("sext", e.vector(*c.holds), k.vi());
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
  if (k.conditions.empty()) return "";
  const bool of_pairs = !std::all_of(k.conditions.begin(), k.conditions.end(), [](const auto& c) { return c.on_row; });
  return ";; Conditions on pairs\n" + (of_pairs ? runs(k) : "") + describe(k) + answers(k) + mask(k);
}

}  // namespace weft::codegen::cpu
