#include "codegen/cpu/kernel.h"

#include <fmt/format.h>

namespace weft::codegen::cpu {
namespace {

const Value kZero = Part::i64(0);
const Value kOne = Part::i64(1);

Value buffer_part(Part& f, const std::int64_t (&offsets)[2], const Value& which) {
  return f.at(f.s, "i8", f.select(f.icmp("eq", which, kZero), Part::i64(offsets[0]), Part::i64(offsets[1])));
}

/// Of row y, in pages or one behind the other.
Value row_address(Part& f, const Value& y, TileWord base, TileWord step, TileWord page_step) {
  if (!f.kernel.plan.bind.paged) return f.add(f.tile(base), f.mul(y, f.tile(step)));
  const Value size = f.arg(offsetof(weft_args, page_size));
  const Value number = f.op("sdiv", y, size);
  const Value row =
      f.at(f.arg(offsetof(weft_args, pages), "ptr"), "i32", f.mul(f.tile(kB), f.arg(offsetof(weft_args, page_stride))));
  const Value page = f.cast("sext", f.load("i32", f.at(row, "i32", number), 4), "i64");
  const Value start = f.add(f.tile(base), f.mul(page, f.tile(page_step)));
  return f.add(start, f.mul(f.sub(y, f.mul(number, size)), f.tile(step)));
}

Value key_address(Part& f, const Value& y) { return row_address(f, y, kKeyBase, kKeyStep, kKeyPage); }
Value value_address(Part& f, const Value& y) { return row_address(f, y, kValueBase, kValueStep, kValuePage); }

/// A key that a block takes in: addresses of its rows, and its position where that is kept.
struct Key {
  Value k_row, v_row, position;
};

/// The key whose position stands in a slot.
Key key_of(Part& f, const Value& y) {
  Key key{key_address(f, f.get(y)), value_address(f, f.get(y)), {}};
  if (f.kernel.positions) key.position = f.get(y);
  return key;
}

void put_key(Part& f, const Value& buffer, const Value& at, const Key& key, const Value& weight) {
  f.store(key.k_row, f.at(buffer_part(f, f.kernel.key_at, buffer), "i64", at), 8);
  f.store(key.v_row, f.at(buffer_part(f, f.kernel.value_at, buffer), "i64", at), 8);
  if (f.kernel.positions) f.store(key.position, f.at(buffer_part(f, f.kernel.key_position, buffer), "i64", at), 8);
  f.store(weight, f.at(buffer_part(f, f.kernel.key_weight, buffer), "float", at), 4);
}

/// Has the tile rows for at most half of the vectors? See ir::Choices::vectors_for.
Value is_narrow(Part& f) { return f.icmp("sle", f.tile(kCount), Part::i64(f.kernel.micro_q * f.kernel.lanes / 2)); }

/// Computes one buffer while the rows of the other are asked for.
void run_full(Part& f, const Value& buffer, const Value& count) {
  const Value other = f.sub(kOne, buffer);
  std::vector<Value> arguments = {f.a,
                                  f.s,
                                  buffer_part(f, f.kernel.key_at, buffer),
                                  buffer_part(f, f.kernel.value_at, buffer),
                                  buffer_part(f, f.kernel.key_weight, buffer),
                                  count,
                                  buffer_part(f, f.kernel.key_at, other),
                                  buffer_part(f, f.kernel.value_at, other)};
  if (f.kernel.positions) arguments.push_back(buffer_part(f, f.kernel.key_position, buffer));
  f.when(
      is_narrow(f), [&] { f.call_void("narrow_block", arguments); }, [&] { f.call_void("full_block", arguments); });
}

/// @pad: fills the block up to a multiple of `step` with copies of its last key at weight 0; returns the
/// new count.
std::string pad(const Kernel& k) {
  Part f(k, "pad", "i64", "i64 %buffer, i64 %count, i64 %step");
  const Value buffer = Part::argument("i64", "buffer");
  const Value count = Part::argument("i64", "count");
  const Value step = Part::argument("i64", "step");
  const Value end = f.mul(f.op("sdiv", f.add(count, f.sub(step, kOne)), step), step);
  const Value last = f.sub(count, kOne);
  const auto of_last = [&](const std::int64_t(&part)[2]) {
    return f.load("i64", f.at(buffer_part(f, part, buffer), "i64", last), 8);
  };
  Key copy{of_last(k.key_at), of_last(k.value_at), kZero};
  if (k.positions) copy.position = of_last(k.key_position);
  f.for_each(count, end, 1, [&](const Value& i) { put_key(f, buffer, i, copy, Part::f32(0)); });
  f.ret(end);
  return f.finish();
}

/// @rotate: the buffer being filled is full. The one that waited is computed now, and this one's
/// rows are asked for meanwhile.
std::string rotate(const Kernel& k) {
  Part f(k, "rotate");
  const Value now = f.tile(kBuffer);
  const Value other = f.sub(kOne, now);
  f.when(f.icmp("ne", f.tile(kPending), kZero), [&] { run_full(f, other, Part::i64(k.keys)); });
  f.set_tile(kPending, kOne);
  f.set_tile(kBuffer, other);
  f.set_tile(kFilled, kZero);
  f.ret();
  return f.finish();
}

/// @flush_full: computes what waits and what was begun.
std::string flush_full(const Kernel& k) {
  Part f(k, "flush_full");
  const Value now = f.tile(kBuffer);
  f.when(f.icmp("ne", f.tile(kPending), kZero), [&] { run_full(f, f.sub(kOne, now), Part::i64(k.keys)); });
  const Value filled = f.tile(kFilled);
  f.when(f.icmp("sgt", filled, kZero), [&] {
    const Value step = f.select(is_narrow(f), Part::i64(k.sub_k), Part::i64(k.micro_k));
    run_full(f, now, f.call("i64", "pad", {f.a, f.s, now, filled, step}));
  });
  f.set_tile(kPending, kZero);
  f.set_tile(kFilled, kZero);
  f.ret();
  return f.finish();
}

/// The zone's term of the smallest step.
Value finest(Part& f, const Value& pass, const Value& count) {
  const Value best = f.slot(kZero), rate = f.slot(Part::i64(std::int64_t{1} << 60));
  f.for_each(kZero, count, 1, [&](const Value& i) {
    const Value t = f.load("i64", f.at(f.zone_terms(), "i64", i), 8);
    const Value r = f.rate_at(f.term(pass, t), t);
    f.when(f.icmp("slt", r, f.get(rate)), [&] {
      f.set(rate, r);
      f.set(best, t);
    });
  });
  return f.get(best);
}

/// Do the rows decide all of the term's conditions on pairs? So they do for the lag that became its stream.
Value unasked(Part& f, const Value& term, const Value& state) {
  const Value out = f.slot(kOne);
  f.each_condition(term, [&](const Value& condition, const Value& number, const Value&) {
    Value decided = f.icmp("ne", f.word(condition, kOnRow), kZero);
    if (f.kernel.lags) decided = f.bit_or(decided, f.icmp("eq", f.word(state, kStreamFrom), number));
    f.set(out, f.select(decided, f.get(out), kZero));
  });
  return f.icmp("ne", f.get(out), kZero);
}

/// Is every stream of the zone one arithmetic progression inside that of term `base`? Then the keys are the
/// base's, and the others only add weight to some of them. Terms of one branch must not add up, so each other
/// term has to be alone in its branch, or in the base's.
Value progressions(Part& f, const Value& pass, const Value& count, const Value& base, const Value& hi) {
  const Value base_term = f.term(pass, base);
  const Value base_rate = f.rate_at(base_term, base);
  const Value base_at = f.word(f.term_state(base), kAt);
  const Value ok = f.slot(kOne), branch = f.slot(Part::i64(-1));
  f.for_each(kZero, count, 1, [&](const Value& i) {
    const Value t = f.load("i64", f.at(f.zone_terms(), "i64", i), 8);
    const Value term = f.term(pass, t);
    const Value state = f.term_state(t);
    const Value one_segment = f.icmp("sge", f.word(state, kSegmentEnd), hi);
    Value unfiltered = f.icmp("eq", f.word(term, kFilterCount), kZero);
    if (!f.kernel.conditions.empty()) unfiltered = f.bit_and(unfiltered, unasked(f, term, state));
    const Value of = f.word(term, kBranch);
    const Value alone = f.bit_or(f.icmp("ne", of, f.get(branch)), f.icmp("eq", of, f.word(base_term, kBranch)));
    const Value steps = f.icmp("eq", f.op("srem", f.rate(term, state), base_rate), kZero);
    const Value meets = f.icmp("eq", f.op("srem", f.sub(f.word(state, kAt), base_at), base_rate), kZero);
    const Value good = f.bit_and(f.bit_and(one_segment, unfiltered), f.bit_and(alone, f.bit_and(steps, meets)));
    f.set(branch, of);
    f.when(
        good, [] {}, [&] { f.set(ok, kZero); });
  });
  return f.get(ok);
}

/// Weight of the other branches on a stretch of the base's keys: a sieve.
void add_weights(Part& f, const Value& pass, const Value& count, const Value& base, const Value& weights,
                 const Value& first, const Value& take) {
  const Value base_term = f.term(pass, base);
  const Value rate = f.rate_at(base_term, base);
  f.for_each(kZero, count, 1, [&](const Value& i) {
    const Value t = f.load("i64", f.at(f.zone_terms(), "i64", i), 8);
    const Value term = f.term(pass, t);
    f.when(f.icmp("ne", f.word(term, kBranch), f.word(base_term, kBranch)), [&] {
      const Value at = f.at(f.term_state(t), "i64", Part::i64(kAt));
      const Value step = f.op("sdiv", f.rate_at(term, t), rate);
      const Value index = f.slot(f.op("sdiv", f.sub(f.load("i64", at, 8), first), rate));
      f.repeat_while([&] { return f.icmp("slt", f.get(index), take); },
                     [&] {
                       const Value w = f.at(weights, "float", f.get(index));
                       f.store(f.op("fadd", f.load("float", w, 4), Part::f32(1)), w, 4);
                       f.set(index, f.add(f.get(index), step));
                     });
      f.store(f.add(first, f.mul(f.get(index), rate)), at, 8);
    });
  });
}

/// Rows of `take` keys from `from` on, with weight 1.
void put_progression(Part& f, const Value& from, const Value& rate, const Value& take, const Value& ks, const Value& vs,
                     const Value& ws) {
  if (f.kernel.plan.bind.paged) {
    f.for_each(kZero, take, 1, [&](const Value& i) {
      const Value y = f.add(from, f.mul(i, rate));
      f.store(key_address(f, y), f.at(ks, "i64", i), 8);
      f.store(value_address(f, y), f.at(vs, "i64", i), 8);
      f.store(Part::f32(1), f.at(ws, "float", i), 4);
    });
    return;
  }
  const Value k_step = f.mul(f.tile(kKeyStep), rate);
  const Value v_step = f.mul(f.tile(kValueStep), rate);
  f.fold(kZero, take, 1, {key_address(f, from), value_address(f, from)},
         [&](const Value& i, const std::vector<Value>& rows) {
           f.store(rows[0], f.at(ks, "i64", i), 8);
           f.store(rows[1], f.at(vs, "i64", i), 8);
           f.store(Part::f32(1), f.at(ws, "float", i), 4);
           return std::vector<Value>{f.add(rows[0], k_step), f.add(rows[1], v_step)};
         });
}

void walk_progression(Part& f, const Value& pass, const Value& count, const Value& base, const Value& hi) {
  const Kernel& k = f.kernel;
  const Value rate = f.rate_at(f.term(pass, base), base);
  const Value first = f.word(f.term_state(base), kAt);
  const Value y = f.slot(first);
  const Value left = f.slot(f.max(kZero, f.op("sdiv", f.add(f.sub(hi, first), f.sub(rate, kOne)), rate)));
  f.repeat_while([&] { return f.icmp("sgt", f.get(left), kZero); },
                 [&] {
                   const Value buffer = f.tile(kBuffer);
                   const Value filled = f.tile(kFilled);
                   const Value take = f.min(f.get(left), f.sub(Part::i64(k.keys), filled));
                   const Value from = f.get(y);
                   const Value ks = f.at(buffer_part(f, k.key_at, buffer), "i64", filled);
                   const Value vs = f.at(buffer_part(f, k.value_at, buffer), "i64", filled);
                   const Value ws = f.at(buffer_part(f, k.key_weight, buffer), "float", filled);
                   put_progression(f, from, rate, take, ks, vs, ws);
                   if (k.positions) {
                     const Value at = f.at(buffer_part(f, k.key_position, buffer), "i64", filled);
                     f.fold(kZero, take, 1, {from}, [&](const Value& i, const std::vector<Value>& position) {
                       f.store(position[0], f.at(at, "i64", i), 8);
                       return std::vector<Value>{f.add(position[0], rate)};
                     });
                   }
                   add_weights(f, pass, count, base, ws, from, take);
                   f.set(y, f.add(from, f.mul(take, rate)));
                   f.set(left, f.sub(f.get(left), take));
                   const Value now = f.add(filled, take);
                   f.set_tile(kFilled, now);
                   f.when(f.icmp("eq", now, Part::i64(k.keys)), [&] { f.call_void("rotate", {f.a, f.s}); });
                 });
}

/// Branches with a hit at the y that @next returned, each once.
Value hit_weight(Part& f, const Value& pass, const Value& count) {
  const Value weight = f.slot(kZero), counted = f.slot(Part::i64(-1));
  f.for_each(kZero, count, 1, [&](const Value& i) {
    const Value t = f.load("i64", f.at(f.zone_terms(), "i64", i), 8);
    const Value of = f.word(f.term(pass, t), kBranch);
    const Value hit = f.icmp("ne", f.word(f.term_state(t), kHit), kZero);
    f.when(f.bit_and(hit, f.icmp("ne", of, f.get(counted))), [&] {
      f.set(counted, of);
      f.set(weight, f.add(f.get(weight), kOne));
    });
  });
  return f.cast("sitofp", f.get(weight), "float");
}

void walk_merged(Part& f, const Value& pass, const Value& count, const Value& hi) {
  const Kernel& k = f.kernel;
  const Value y = f.slot(f.call("i64", "next", {f.a, f.s, pass, count, hi}));
  f.repeat_while([&] { return f.icmp("slt", f.get(y), hi); },
                 [&] {
                   const Value filled = f.tile(kFilled);
                   const Key key = key_of(f, y);
                   put_key(f, f.tile(kBuffer), filled, key, hit_weight(f, pass, count));
                   const Value now = f.add(filled, kOne);
                   f.set_tile(kFilled, now);
                   f.when(f.icmp("eq", now, Part::i64(k.keys)), [&] { f.call_void("rotate", {f.a, f.s}); });
                   f.set(y, f.call("i64", "next", {f.a, f.s, pass, count, hi}));
                 });
}

std::string full_zone(const Kernel& k) {
  Part f(k, "full_zone", "void", "ptr %pass, i64 %count, i64 %hi");
  const Value pass = Part::argument("ptr", "pass");
  const Value count = Part::argument("i64", "count");
  const Value hi = Part::argument("i64", "hi");
  const Value base = finest(f, pass, count);
  f.when(
      f.icmp("ne", progressions(f, pass, count, base, hi), kZero), [&] { walk_progression(f, pass, count, base, hi); },
      [&] { walk_merged(f, pass, count, hi); });
  f.ret();
  return f.finish();
}

/// Rows of a vector that meet those conditions of a term which the tile could not turn into filters of keys.
Value pair_mask(Part& f, const Value& term, const Value& state, const Value& y, const Value& v) {
  const Kernel& k = f.kernel;
  const Value at = f.in_scratch(k.mask);
  f.store(f.splat(Part::i32(-1), k.lanes), at, 32);
  f.when(f.icmp("ne", f.word(state, kHit), kZero), [&] {
    f.each_condition(term, [&](const Value& condition, const Value& number, const Value& negated) {
      const Value on_row = f.icmp("ne", f.word(condition, kOnRow), kZero);
      const Value differ = f.icmp("ne", f.word(condition, kRuns), kOne);
      f.when(f.bit_or(on_row, differ), [&] { f.call_void("mask", {f.a, f.s, number, negated, y, v}); });
    });
  });
  return f.icmp("ne", f.load(k.vi(), at, 32), f.splat(Part::i32(0), k.lanes));
}

/// Weights of one key for the rows of one vector: branches whose interval holds y, each once.
Value row_weights(Part& f, const Value& pass, const Value& count, const Value& y, const Value& v) {
  const Kernel& k = f.kernel;
  const Value y32 = f.splat(f.cast("trunc", y, "i32"), k.lanes);
  const Value none = f.splat(Part::i32(0), k.lanes);
  const auto sums =
      f.fold(kZero, count, 1, {none, none, Part::i64(-1)}, [&](const Value& i, const std::vector<Value>& c) {
        const Value t = f.load("i64", f.at(f.zone_terms(), "i64", i), 8);
        const Value state = f.term_state(t);
        const Value lo = f.load(k.vi(), f.at(f.term_lo(state), "i32", v), 4);
        const Value hi = f.load(k.vi(), f.at(f.term_hi(state), "i32", v), 4);
        const Value kept = f.bit_and(f.icmp("sge", y32, lo), f.icmp("slt", y32, hi));
        const Value hit = f.splat(f.icmp("ne", f.word(state, kHit), kZero), k.lanes);
        Value held = f.bit_and(kept, hit);
        if (!k.conditions.empty()) held = f.bit_and(held, pair_mask(f, f.term(pass, t), state, y, v));
        const Value now = f.cast("zext", held, k.vi());
        const Value of = f.word(f.term(pass, t), kBranch);
        const Value same = f.icmp("eq", of, c[2]);
        const Value total = f.select(same, c[0], f.add(c[0], c[1]));
        const Value group = f.bit_or(f.select(same, c[1], none), now);
        return std::vector<Value>{total, group, of};
      });
  return f.add(sums[0], sums[1]);
}

/// The same where the zone has one term, whose next key is y.
Value weights_of_one_term(Part& f, const Value& y, const Value& v) {
  const Kernel& k = f.kernel;
  const Value y32 = f.splat(f.cast("trunc", y, "i32"), k.lanes);
  const Value state = f.term_state(f.load("i64", f.zone_terms(), 8));
  const Value above = f.icmp("sge", y32, f.load(k.vi(), f.at(f.term_lo(state), "i32", v), 4));
  const Value below = f.icmp("slt", y32, f.load(k.vi(), f.at(f.term_hi(state), "i32", v), 4));
  return f.cast("zext", f.bit_and(above, below), k.vi());
}

/// @flush_partial: computes the partial block that was begun.
std::string flush_partial(const Kernel& k) {
  Part f(k, "flush_partial");
  const Value filled = f.tile(kFilled);
  f.when(f.icmp("sgt", filled, kZero), [&] {
    const Value end = f.call("i64", "pad", {f.a, f.s, kZero, filled, Part::i64(k.sub_k)});
    const Value zero = f.vsplat(0);
    f.for_each(filled, end, 1, [&](const Value& i) {
      f.for_each(kZero, Part::i64(k.rows), k.lanes, [&](const Value& v) {
        f.vstore(zero, f.in_scratch(k.weight), f.add(f.mul(i, Part::i64(k.rows)), v));
      });
    });
    std::vector<Value> arguments = {f.a, f.s, f.in_scratch(k.key_at[0]), f.in_scratch(k.value_at[0]), end};
    if (k.positions) arguments.push_back(f.in_scratch(k.key_position[0]));
    f.call_void("partial_block", arguments);
  });
  f.set_tile(kFilled, kZero);
  f.for_each(kZero, Part::i64(k.rows / k.lanes), 1,
             [&](const Value& v) { f.store(kZero, f.at(f.in_scratch(k.active), "i64", v), 8); });
  f.ret();
  return f.finish();
}

/// @partial_zone: keys that some rows keep and others do not, with a weight per pair.
std::string partial_zone(const Kernel& k) {
  Part f(k, "partial_zone", "void", "ptr %pass, i64 %count, i64 %hi");
  const Value pass = Part::argument("ptr", "pass");
  const Value count = Part::argument("i64", "count");
  const Value hi = Part::argument("i64", "hi");
  f.when(f.icmp("eq", f.tile(kLanesReady), kZero), [&] {
    f.call_void("intervals", {f.a, f.s, pass});
    f.set_tile(kLanesReady, kOne);
  });
  const Value y = f.slot(f.call("i64", "next", {f.a, f.s, pass, count, hi}));
  f.repeat_while([&] { return f.icmp("slt", f.get(y), hi); },
                 [&] {
                   const Value filled = f.tile(kFilled);
                   const Key key = key_of(f, y);
                   put_key(f, kZero, filled, key, Part::f32(1));
                   f.ask_for(f.cast("inttoptr", key.k_row, "ptr"), k.d);
                   f.ask_for(f.cast("inttoptr", key.v_row, "ptr"), k.d_v);
                   const Value group = f.op("shl", kOne, f.op("sdiv", filled, Part::i64(k.sub_k)));
                   const auto put = [&](const std::function<Value(const Value&)>& weights_at) {
                     f.for_each(kZero, Part::i64(k.rows), k.lanes, [&](const Value& v) {
                       const Value weights = weights_at(v);
                       f.vstore(f.cast("sitofp", weights, k.vf()), f.in_scratch(k.weight),
                                f.add(f.mul(filled, Part::i64(k.rows)), v));
                       const Value some = f.any(f.icmp("ne", weights, f.splat(Part::i32(0), k.lanes)));
                       const Value bits = f.at(f.in_scratch(k.active), "i64", f.op("sdiv", v, Part::i64(k.lanes)));
                       f.store(f.bit_or(f.load("i64", bits, 8), f.select(some, group, kZero)), bits, 8);
                     });
                   };
                   const auto of_terms = [&] {
                     put([&](const Value& v) { return row_weights(f, pass, count, f.get(y), v); });
                   };
                   if (k.conditions.empty()) {
                     f.when(
                         f.icmp("eq", count, kOne),
                         [&] { put([&](const Value& v) { return weights_of_one_term(f, f.get(y), v); }); }, of_terms);
                   } else {
                     of_terms();
                   }
                   const Value now = f.add(filled, kOne);
                   f.set_tile(kFilled, now);
                   f.when(f.icmp("eq", now, Part::i64(k.keys)), [&] { f.call_void("flush_partial", {f.a, f.s}); });
                   f.set(y, f.call("i64", "next", {f.a, f.s, pass, count, hi}));
                 });
  f.ret();
  return f.finish();
}

}  // namespace

std::string emit_walk(const Kernel& k) {
  return "; From zones of keys to blocks of keys\n" + pad(k) + rotate(k) + flush_full(k) + full_zone(k) +
         flush_partial(k) + partial_zone(k);
}

}  // namespace weft::codegen::cpu
