#include "codegen/cpu/kernel.h"

/// Which rows keep which keys of a partial block. What of a term the walk finds out stands in its state.
namespace weft::codegen::cpu {
namespace {

using State = walk::TermState;

const Value kZero = Part::i64(0);
const Value kOne = Part::i64(1);

/// Rows of a vector that meet those conditions of a term which the tile could not turn into filters of keys.
Value pair_mask(Part& f, const Value& term, const Value& state, const Value& y, const Value& v) {
  const Kernel& k = f.kernel;
  const Value at = f.in_scratch(k.mask);
  f.store(f.splat(Part::i32(-1), k.lanes), at, 32);
  f.when(f.icmp("ne", f.member(state, offsetof(State, hit)), kZero), [&] {
    f.each_condition(term, [&](const Value& condition, const Value& number, const Value& negated) {
      const Value on_row = f.icmp("ne", f.member(condition, offsetof(Condition, said.on_row)), kZero);
      const Value differ = f.icmp("ne", f.member(condition, offsetof(Condition, said.runs)), kOne);
      f.when(f.bit_or(on_row, differ), [&] { f.call_void("mask", {f.a, f.s, number, negated, y, v}); });
    });
  });
  return f.icmp("ne", f.load(k.vi(), at, 32), f.splat(Part::i32(0), k.lanes));
}

/// Weights of one key for the rows of one vector: branches whose interval holds y, each once.
Value row_weights(Part& f, const Value& v) {
  const Kernel& k = f.kernel;
  const Value pass = Part::argument("ptr", "pass"), terms = Part::argument("ptr", "terms");
  const Value count = Part::argument("i64", "count"), y = Part::argument("i64", "y");
  const Value y32 = f.splat(f.cast("trunc", y, "i32"), k.lanes);
  const Value none = f.splat(Part::i32(0), k.lanes);
  const auto sums =
      f.fold(kZero, count, 1, {none, none, Part::i64(-1)}, [&](const Value& i, const std::vector<Value>& c) {
        const Value t = f.load("i64", f.at(terms, "i64", i), 8);
        const Value state = f.term_state(t);
        const Value lo = f.load(k.vi(), f.at(f.term_lo(state), "i32", v), 4);
        const Value hi = f.load(k.vi(), f.at(f.term_hi(state), "i32", v), 4);
        const Value kept = f.bit_and(f.icmp("sge", y32, lo), f.icmp("slt", y32, hi));
        const Value hit = f.splat(f.icmp("ne", f.member(state, offsetof(State, hit)), kZero), k.lanes);
        Value held = f.bit_and(kept, hit);
        if (!k.of_pairs.empty()) held = f.bit_and(held, pair_mask(f, f.term(pass, t), state, y, v));
        const Value now = f.cast("zext", held, k.vi());
        const Value of = f.word(f.term(pass, t), walk::kBranch);
        if (k.branches > 0) {
          const Value at = f.kept_by_branch_at(of, Part::argument("i64", "at"), v);
          f.set_mask(f.bit_or(f.mask_at(at), held), at);
        }
        const Value same = f.icmp("eq", of, c[2]);
        const Value total = f.select(same, c[0], f.add(c[0], c[1]));
        const Value group = f.bit_or(f.select(same, c[1], none), now);
        return std::vector<Value>{total, group, of};
      });
  return f.add(sums[0], sums[1]);
}

/// Bounds of the keys that rows keep, narrowed by one condition whose key is a line or one value from y on.
struct Bounds {
  Value lo, hi;  ///< of i32, a lane a row
};
Bounds narrowed(Part& f, const Value& condition, const Value& y, const Value& v, const Bounds& before) {
  const Kernel& k = f.kernel;
  const std::string longs = vector_type(k.lanes, "i64");
  const auto splat = [&](std::int64_t x) { return f.splat(Part::i64(x), k.lanes); };
  const auto clamped = [&](const Value& x, std::int64_t lo, std::int64_t hi) {
    return f.min(f.max(x, splat(lo)), splat(hi));
  };
  const Value slope = f.member(condition, offsetof(Condition, slope));
  const Value at_y = f.add(f.member(condition, offsetof(Condition, known_key)),
                           f.mul(slope, f.sub(y, f.member(condition, offsetof(Condition, known_from)))));
  const Value rows = f.at(f.in_scratch(0), "i8",
                          f.add(f.member(condition, offsetof(Condition, narrowing_at)), f.mul(v, Part::i64(8))));
  const Value lo = f.load(longs, rows, 32), hi = f.load(longs, f.at(rows, "i64", Part::i64(k.rows)), 32);
  // One value: all keys, or none.
  const auto of_value = f.fold(kZero, f.sub(kOne, slope), 1, {before.hi}, [&](const Value&, const auto& now) {
    const Value at = f.splat(at_y, k.lanes);
    // fault(one_bound_of_a_run_not_asked) value: f.icmp("sle", lo, at)
    const Value keeps = f.bit_and(f.icmp("sle", lo, at), f.icmp("sgt", hi, at));
    return std::vector<Value>{f.select(keeps, now[0], f.splat(Part::i32(INT32_MIN), k.lanes))};
  });
  // A line: so many keys from y on.
  const auto of_line = f.fold(kZero, slope, 1, {before.lo, of_value[0]}, [&](const Value&, const auto& now) {
    constexpr std::int64_t kFar = std::int64_t{1} << 40;  // keys and their values lie nearer
    const Value away = f.splat(f.sub(y, at_y), k.lanes);
    const auto moved = [&](const Value& bound) {
      return f.cast("trunc", clamped(f.add(clamped(bound, -kFar, kFar), away), INT32_MIN, INT32_MAX), k.vi());
    };
    return std::vector<Value>{f.max(now[0], moved(lo)), f.min(now[1], moved(hi))};
  });
  return {of_line[0], of_line[1]};
}

/// Keys of the run that starts at y, for the rows of one vector.
Bounds run_bounds(Part& f, const Value& term, const Value& state, const Value& y, const Value& v) {
  const Kernel& k = f.kernel;
  const Bounds of_term{f.load(k.vi(), f.at(f.term_lo(state), "i32", v), 4),
                       f.load(k.vi(), f.at(f.term_hi(state), "i32", v), 4)};
  if (k.of_pairs.empty()) return of_term;
  const Value first = f.table(f.word(term, walk::kPairAt));
  const auto bounds = f.fold(
      kZero, f.word(term, walk::kPairCount), 1, {of_term.lo, of_term.hi}, [&](const Value& i, const auto& so_far) {
        const Value condition =
            f.condition(f.word(f.at(first, "i64", f.mul(i, Part::i64(walk::kPairWords))), walk::kPairNumber));
        const Value of_pairs = f.icmp("eq", f.member(condition, offsetof(Condition, said.on_row)), kZero);
        const Value interval = f.bit_and(f.icmp("ne", f.member(condition, offsetof(Condition, narrowing_at)), kZero),
                                         f.icmp("ne", f.member(condition, offsetof(Condition, said.runs)), kOne));
        const Value applies = f.cast("zext", f.bit_and(of_pairs, interval), "i64");
        return f.fold(kZero, applies, 1, so_far, [&](const Value&, const std::vector<Value>& before) {
          const Bounds now = narrowed(f, condition, y, v, {before[0], before[1]});
          return std::vector<Value>{now.lo, now.hi};
        });
      });
  return {bounds[0], bounds[1]};
}

/// Which of `take` keys from y on, which go to places from `filled` on, the rows of one vector keep.
void put_run_masks(Part& f, const Value& term, const Value& state, const Value& y, const Value& filled,
                   const Value& take, const Value& v) {
  const Kernel& k = f.kernel;
  const Bounds bounds = run_bounds(f, term, state, y, v);
  const Value rate = f.member(state, offsetof(State, rate));
  const auto splat = [&](const Value& x) { return f.splat(f.cast("trunc", x, "i32"), k.lanes); };
  const Value end = f.min(f.add(y, f.mul(take, rate)), Part::i64(INT32_MAX));
  const Value lo = f.max(bounds.lo, splat(y)), hi = f.min(bounds.hi, splat(end));
  const Value keeps_some = f.icmp("slt", lo, hi);
  f.when(
      f.any(keeps_some),
      [&] {
        // lo <= key < hi, by one comparison.
        const Value step = splat(rate), none = f.splat(Part::i32(0), k.lanes);
        const Value length = f.select(keeps_some, f.sub(hi, lo), none);
        f.fold(kZero, take, 1, {f.sub(splat(y), lo)}, [&](const Value& i, const std::vector<Value>& from_lo) {
          const Value at = f.add(filled, i);
          // fault(one_key_behind_the_last_of_a_row) instead: f.set_kept(f.icmp("ule", from_lo[0], length), at, v);
          f.set_kept(f.icmp("ult", from_lo[0], length), at, v);
          if (k.counts) f.vstore(f.vsplat(1), f.pair_at(k.weight, at, v), kZero);
          return std::vector<Value>{f.add(from_lo[0], step)};
        });
      },
      [&] { f.for_each(kZero, take, k.sub_k, [&](const Value& i) { f.keep_none(f.add(filled, i), v); }); });
}

/// @keep_run: who keeps keys from y on, at places from `at` on, of one term of which each row keeps an interval.
std::string keep_run(const Kernel& k) {
  Part f(k, "keep_run", "void", "ptr %term, ptr %state, i64 %y, i64 %at, i64 %take");
  f.for_each(kZero, Part::i64(k.rows), k.lanes, [&](const Value& v) {
    put_run_masks(f, Part::argument("ptr", "term"), Part::argument("ptr", "state"), Part::argument("i64", "y"),
                  Part::argument("i64", "at"), Part::argument("i64", "take"), v);
  });
  f.ret();
  return f.finish();
}

/// @keep_key: who keeps key y, and how often, by the terms that hit it.
std::string keep_key(const Kernel& k) {
  Part f(k, "keep_key", "void", "ptr %pass, ptr %terms, i64 %count, i64 %at, i64 %y");
  const Value at = Part::argument("i64", "at");
  f.for_each(kZero, Part::i64(k.rows), k.lanes, [&](const Value& v) {
    const Value weights = row_weights(f, v);
    f.set_kept(f.icmp("ne", weights, f.splat(Part::i32(0), k.lanes)), at, v);
    if (k.counts) f.vstore(f.cast("sitofp", weights, k.vf()), f.pair_at(k.weight, at, v), kZero);
  });
  f.ret();
  return f.finish();
}

}  // namespace

std::string emit_masks(const Kernel& k) {
  return ";; Who keeps a key of a partial block\n" + keep_run(k) + keep_key(k);
}

}  // namespace weft::codegen::cpu
