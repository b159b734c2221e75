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

/// Puts key y into the partial block that is being filled; its rows are read soon.
void put_partial_key(Part& f, const Value& at, const Value& y) {
  const Key key{key_address(f, y), value_address(f, y), y};
  put_key(f, kZero, at, key, Part::f32(1));
  f.ask_for(f.cast("inttoptr", key.k_row, "ptr"), f.kernel.d);
  f.ask_for(f.cast("inttoptr", key.v_row, "ptr"), f.kernel.d_v);
}

/// So many keys stand in the block that is being filled; `when_full` takes a whole one.
void set_filled(Part& f, const Value& count, const char* when_full) {
  f.set_tile(kFilled, count);
  f.when(f.icmp("eq", count, Part::i64(f.kernel.keys)), [&] { f.call_void(when_full, {f.a, f.s}); });
}

/// Has the tile rows for at most half of the vectors? See ir::full_block.
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
  const auto by_rows = [&] {
    f.when(
        is_narrow(f), [&] { f.call_void("narrow_block", arguments); }, [&] { f.call_void("full_block", arguments); });
  };
  when_few(
      f, [&] { f.call_void("few_block", arguments); }, by_rows);
}

/// @pad: fills the block up to a multiple of `step` with copies of its last key at weight 0; returns the
/// new count.
std::string pad(const Kernel& k) {
  Part f(k, "pad", "i64", "i64 %buffer, i64 %count, i64 %step");
  f.seldom();
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
  f.seldom();
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
  f.seldom();
  const Value now = f.tile(kBuffer);
  f.when(f.icmp("ne", f.tile(kPending), kZero), [&] { run_full(f, f.sub(kOne, now), Part::i64(k.keys)); });
  const Value filled = f.tile(kFilled);
  f.when(f.icmp("sgt", filled, kZero), [&] {
    const Value by_groups = f.bit_or(is_few(f), is_narrow(f));
    const Value step = f.select(by_groups, Part::i64(k.sub_k), Part::i64(k.micro_k));
    run_full(f, now, f.call("i64", "pad", {f.a, f.s, now, filled, step}));
  });
  when_few(f, [&] { f.call_void("end_few", {f.a, f.s}); });
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
                   set_filled(f, f.add(filled, take), "rotate");
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
  const Value y = f.slot(f.call("i64", "next", {f.a, f.s, pass, count, hi}));
  f.repeat_while([&] { return f.icmp("slt", f.get(y), hi); },
                 [&] {
                   const Value filled = f.tile(kFilled);
                   const Key key = key_of(f, y);
                   put_key(f, f.tile(kBuffer), filled, key, hit_weight(f, pass, count));
                   set_filled(f, f.add(filled, kOne), "rotate");
                   f.set(y, f.call("i64", "next", {f.a, f.s, pass, count, hi}));
                 });
}

std::string full_zone(const Kernel& k) {
  Part f(k, "full_zone", "void", "ptr %pass, i64 %count, i64 %hi");
  f.seldom();
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

/// @flush_partial: computes the partial block that was begun.
std::string flush_partial(const Kernel& k) {
  Part f(k, "flush_partial");
  f.seldom();
  const Value filled = f.tile(kFilled);
  f.when(f.icmp("sgt", filled, kZero), [&] {
    const Value end = f.call("i64", "pad", {f.a, f.s, kZero, filled, Part::i64(k.sub_k)});
    f.for_each(kZero, Part::i64(k.rows), k.lanes, [&](const Value& v) { f.keep_none(filled, v); });
    std::vector<Value> arguments = {f.a, f.s, f.in_scratch(k.key_at[0]), f.in_scratch(k.value_at[0]), end};
    if (k.positions) arguments.push_back(f.in_scratch(k.key_position[0]));
    f.call_void("partial_block", arguments);
  });
  f.set_tile(kFilled, kZero);
  f.ret();
  return f.finish();
}

/// The stream stands at the key behind y: is that in y's segment?
Value stream_goes_on(Part& f, const Value& state, const Value& y, const Value& rate) {
  return f.icmp("eq", f.word(state, kAt), f.add(y, rate));
}

/// Which keys from y on, up to which one, share what is known of the term's conditions at y, so that a row keeps an
/// interval of them: y at least, and no other where some condition is of another kind. Every condition was asked about
/// y.
Value end_of_run(Part& f, const Value& term, const Value& state, const Value& y, const Value& hi) {
  const Value rate = f.rate(term, state);
  const Value alone = f.add(y, kOne);
  const Value goes_on = stream_goes_on(f, state, y, rate);
  const Value unfiltered = f.icmp("eq", f.word(term, kFilterCount), kZero);
  const Value end = f.slot(f.min(hi, f.word(state, kSegmentEnd)));
  f.when(
      f.bit_and(goes_on, unfiltered), [] {}, [&] { f.set(end, alone); });
  if (f.kernel.conditions.empty()) return f.get(end);
  f.each_condition(term, [&](const Value& condition, const Value& number, const Value&) {
    Value everywhere = f.icmp("ne", f.word(condition, kOnRow), kZero);
    if (f.kernel.lags) everywhere = f.bit_or(everywhere, f.icmp("eq", f.word(state, kStreamFrom), number));
    const Value known = f.select(everywhere, hi, f.word(condition, kKnownEnd));
    f.set(end, f.min(f.get(end), known));
  });
  return f.get(end);
}

/// Can @put_run find the rows' intervals? Not where a condition tells rows apart by something else.
Value has_intervals(Part& f, const Value& term, const Value& state) {
  const Value out = f.slot(kOne);
  f.each_condition(term, [&](const Value& condition, const Value& number, const Value& negated) {
    const Value mixed =
        f.bit_and(f.icmp("ne", f.word(condition, kSomeMeet), kZero), f.icmp("ne", f.word(condition, kSomeFail), kZero));
    const Value interval =
        f.bit_and(f.icmp("ne", f.word(condition, kBoundsAt), kZero), f.op("xor", negated, Part::i1(true)));
    Value of_pairs = f.bit_or(f.icmp("eq", f.word(condition, kRuns), kOne), interval);
    if (f.kernel.lags) of_pairs = f.bit_or(of_pairs, f.icmp("eq", f.word(state, kStreamFrom), number));
    const Value on_row = f.icmp("ne", f.word(condition, kOnRow), kZero);
    const Value good = f.select(on_row, f.op("xor", mixed, Part::i1(true)), of_pairs);
    f.set(out, f.select(good, f.get(out), kZero));
  });
  return f.icmp("ne", f.get(out), kZero);
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
  const Value slope = f.word(condition, kSlope);
  const Value at_y = f.add(f.word(condition, kKnownKey), f.mul(slope, f.sub(y, f.word(condition, kKnownFrom))));
  const Value rows = f.at(f.in_scratch(0), "i8", f.add(f.word(condition, kBoundsAt), f.mul(v, Part::i64(8))));
  const Value lo = f.load(longs, rows, 32), hi = f.load(longs, f.at(rows, "i64", Part::i64(k.rows)), 32);
  // One value: all keys, or none.
  const auto of_value = f.fold(kZero, f.sub(kOne, slope), 1, {before.hi}, [&](const Value&, const auto& now) {
    const Value at = f.splat(at_y, k.lanes);
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
  if (k.conditions.empty()) return of_term;
  const Value first = f.table(f.word(term, kPairAt));
  const auto bounds =
      f.fold(kZero, f.word(term, kPairCount), 1, {of_term.lo, of_term.hi}, [&](const Value& i, const auto& so_far) {
        const Value condition = f.condition(f.word(f.at(first, "i64", f.mul(i, Part::i64(kPairWords))), kPairNumber));
        const Value of_pairs = f.icmp("eq", f.word(condition, kOnRow), kZero);
        const Value interval =
            f.bit_and(f.icmp("ne", f.word(condition, kBoundsAt), kZero), f.icmp("ne", f.word(condition, kRuns), kOne));
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
  const Value rate = f.rate(term, state);
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
          f.set_kept(f.icmp("ult", from_lo[0], length), at, v);
          if (k.counts) f.vstore(f.vsplat(1), f.pair_at(k.weight, at, v), kZero);
          return std::vector<Value>{f.add(from_lo[0], step)};
        });
      },
      [&] { f.for_each(kZero, take, k.sub_k, [&](const Value& i) { f.keep_none(f.add(filled, i), v); }); });
}

/// @put_run: keys of the zone's only term from y to `end`, of each of which a row keeps those of an interval.
std::string put_run(const Kernel& k) {
  Part f(k, "put_run", "void", "ptr %pass, i64 %y, i64 %end");
  const Value end = Part::argument("i64", "end");
  const Value t = f.load("i64", f.zone_terms(), 8);
  const Value term = f.term(Part::argument("ptr", "pass"), t), state = f.term_state(t);
  const Value rate = f.rate(term, state);
  const Value goes_on = stream_goes_on(f, state, Part::argument("i64", "y"), rate);
  const Value y = f.slot(Part::argument("i64", "y"));
  f.repeat_while([&] { return f.icmp("slt", f.get(y), end); },
                 [&] {
                   const Value from = f.get(y), filled = f.tile(kFilled);
                   const Value left = f.op("sdiv", f.add(f.sub(end, from), f.sub(rate, kOne)), rate);
                   const Value take = f.min(left, f.sub(Part::i64(k.keys), filled));
                   f.fold(kZero, take, 1, {from}, [&](const Value& i, const std::vector<Value>& at) {
                     put_partial_key(f, f.add(filled, i), at[0]);
                     return std::vector<Value>{f.add(at[0], rate)};
                   });
                   f.for_each(kZero, Part::i64(k.rows), k.lanes,
                              [&](const Value& v) { put_run_masks(f, term, state, from, filled, take, v); });
                   set_filled(f, f.add(filled, take), "flush_partial");
                   f.set(y, f.add(from, f.mul(take, rate)));
                 });
  // Where the first key was its segment's last, the stream is in the next segment already.
  f.when(goes_on, [&] { f.move_stream(term, state, f.get(y)); });
  f.ret();
  return f.finish();
}

/// @put_one: key y with the weight that each row gives it.
std::string put_one(const Kernel& k) {
  Part f(k, "put_one", "void", "ptr %pass, i64 %count, i64 %y");
  const Value y = Part::argument("i64", "y");
  const Value filled = f.tile(kFilled);
  put_partial_key(f, filled, y);
  f.for_each(kZero, Part::i64(k.rows), k.lanes, [&](const Value& v) {
    const Value weights = row_weights(f, Part::argument("ptr", "pass"), Part::argument("i64", "count"), y, v);
    f.set_kept(f.icmp("ne", weights, f.splat(Part::i32(0), k.lanes)), filled, v);
    if (k.counts) f.vstore(f.cast("sitofp", weights, k.vf()), f.pair_at(k.weight, filled, v), kZero);
  });
  set_filled(f, f.add(filled, kOne), "flush_partial");
  f.ret();
  return f.finish();
}

/// @partial_zone: keys that some rows keep and others do not, with a weight per pair.
std::string partial_zone(const Kernel& k) {
  Part f(k, "partial_zone", "void", "ptr %pass, i64 %count, i64 %hi");
  f.seldom();
  const Value pass = Part::argument("ptr", "pass");
  const Value count = Part::argument("i64", "count");
  const Value hi = Part::argument("i64", "hi");
  f.when(f.icmp("eq", f.tile(kLanesReady), kZero), [&] {
    f.call_void("intervals", {f.a, f.s, pass});
    f.set_tile(kLanesReady, kOne);
  });
  const Value t = f.load("i64", f.zone_terms(), 8);
  const Value term = f.term(pass, t), state = f.term_state(t);
  const Value in_runs = f.slot(kZero);
  f.when(f.icmp("eq", count, kOne),
         [&] { f.set(in_runs, k.conditions.empty() ? kOne : f.cast("zext", has_intervals(f, term, state), "i64")); });
  const auto next = [&] { return f.call("i64", "next", {f.a, f.s, pass, count, hi}); };
  const Value y = f.slot(next());
  f.repeat_while([&] { return f.icmp("slt", f.get(y), hi); },
                 [&] {
                   const Value at = f.get(y);
                   f.when(
                       f.icmp("ne", f.get(in_runs), kZero),
                       [&] {
                         f.call_void("put_run", {f.a, f.s, pass, at, end_of_run(f, term, state, at, hi)});
                       },
                       [&] {
                         f.call_void("put_one", {f.a, f.s, pass, count, at});
                       });
                   f.set(y, next());
                 });
  f.ret();
  return f.finish();
}

}  // namespace

std::string emit_walk(const Kernel& k) {
  return ";; From zones of keys to blocks of keys\n" + pad(k) + rotate(k) + flush_full(k) + full_zone(k) +
         flush_partial(k) + put_run(k) + put_one(k) + partial_zone(k);
}

}  // namespace weft::codegen::cpu
