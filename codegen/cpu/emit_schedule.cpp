#include "codegen/cpu/expression.h"
#include "codegen/cpu/kernel.h"

#include <functional>

namespace weft::codegen::cpu {
namespace {

/// @bound: value of one closed form at position x. Mirrors ir::value_of.
std::string bound(const Kernel& k) {
  Part f(k, "bound", "i64", "ptr %e, i64 %x");
  const Value e = Part::argument("ptr", "e");
  const Value x = Part::argument("i64", "x");
  const Value kind = f.word(e, kBoundKind);
  const Value add = f.word(e, kBoundAdd);
  const Value base = f.slot(Part::i64(0));
  f.when(f.icmp("eq", kind, Part::i64(static_cast<int>(ir::Bound::Kind::row))), [&] { f.set(base, x); });
  f.when(f.icmp("eq", kind, Part::i64(static_cast<int>(ir::Bound::Kind::segment))), [&] {
    const Value w = f.word(e, kBoundA);
    f.set(base, f.mul(f.floor_div(x, w), w));
  });
  f.when(f.icmp("eq", kind, Part::i64(static_cast<int>(ir::Bound::Kind::input))), [&] {
    const Value input = f.at(f.at(f.a, "i8", Part::i64(offsetof(weft_args, inputs))), "i8",
                             f.mul(f.word(e, kBoundA), Part::i64(sizeof(weft_input))));
    const Value data = f.load("ptr", input, 8);
    const Value stride = f.word(input, 1);
    f.set(base, f.cast("sext", f.load("i32", f.at(data, "i32", f.mul(f.tile(kB), stride)), 4), "i64"));
  });
  f.when(f.icmp("eq", kind, Part::i64(static_cast<int>(ir::Bound::Kind::part))), [&] {
    const Value n = f.arg(offsetof(weft_args, n_k));
    f.set(base, f.op("sdiv", f.mul(f.word(e, kBoundB), n), f.word(e, kBoundA)));
  });
  for (std::size_t i = 0; i < k.plan.forms.size(); ++i) {
    const Value is_form = f.icmp("eq", kind, Part::i64(kBoundForm));
    const Value number = f.icmp("eq", f.word(e, kBoundA), Part::i64(static_cast<std::int64_t>(i)));
    f.when(f.bit_and(is_form, number), [&] {
      Expression form = expression_at(f, 1);
      form.let(ir::Variable::q, x);
      f.set(base, form.value(*k.plan.forms[i]));
    });
  }
  f.ret(f.add(f.get(base), add));
  return f.finish();
}

/// Bounds of a term, one after the other: fold(bound pointer).
void each_bound(Part& f, const Value& term, TermWord count, TermWord at, const std::function<void(Value)>& use) {
  const Value first = f.table(f.word(term, at));
  f.for_each(Part::i64(0), f.word(term, count), 1,
             [&](const Value& i) { use(f.at(first, "i64", f.mul(i, Part::i64(kBoundWords)))); });
}

/// By how much a bound may fall from one row of a tile to a later one; with no forms, by nothing.
Value slack(Part& f, const Value& e) {
  const Value is_form = f.icmp("eq", f.word(e, kBoundKind), Part::i64(kBoundForm));
  return f.select(is_form, f.word(e, kBoundB), Part::i64(0));
}

/// What is left of `met` by what the rows say to the term's conditions on pairs.
void meet_conditions(Part& f, const Value& term, const Value& met) {
  f.each_condition(term, [&](const Value& state, const Value&, const Value& negated) {
    const auto is = [&](ConditionWord w) { return f.icmp("ne", f.word(state, w), Part::i64(0)); };
    const Value some = is(kSomeMeet), others = is(kSomeFail);
    const Value of_rows = f.select(f.bit_and(some, others), Part::i64(1),
                                   f.select(f.select(negated, others, some), Part::i64(2), Part::i64(0)));
    const Value agree = f.icmp("eq", f.word(state, kRuns), Part::i64(1));
    const Value of_pairs = f.select(agree, Part::i64(2), Part::i64(1));
    f.set(met, f.min(f.get(met), f.select(is(kOnRow), of_rows, of_pairs)));
  });
}

/// Do the tile's rows meet the term's conditions? 0 no, 1 some, 2 all.
Value rows_meet(Part& f, const Value& term) {
  const Value need = f.word(term, kNeed);
  const Value miss = f.word(term, kMiss);
  const Value every = f.tile(kEvery);
  const Value any = f.tile(kAny);
  const auto none = [&](const Value& v) { return f.icmp("eq", v, Part::i64(0)); };
  const auto lacks = [&](const Value& wanted, const Value& have) {
    return f.bit_and(wanted, f.op("xor", have, Part::i64(-1)));
  };
  const Value never =
      f.bit_or(f.icmp("ne", lacks(need, any), Part::i64(0)), f.icmp("ne", f.bit_and(miss, every), Part::i64(0)));
  const Value always = f.bit_and(none(lacks(need, every)), none(f.bit_and(miss, any)));
  const Value met = f.slot(f.select(never, Part::i64(0), f.select(always, Part::i64(2), Part::i64(1))));
  const Value x0 = f.tile(kFirst);
  const Value x1 = f.tile(kLast);
  each_bound(f, term, kRowCount, kRowAt, [&](const Value& e) {
    const Value at = f.call("i64", "bound", {f.a, f.s, e, x0});
    const Value below = f.icmp("ne", f.word(e, kBoundBelow), Part::i64(0));
    const Value all_below = f.icmp("slt", x1, at);
    const Value none_below = f.icmp("sge", x0, at);
    const Value all = f.select(below, all_below, none_below);
    const Value no = f.select(below, none_below, all_below);
    f.set(met, f.min(f.get(met), f.select(all, Part::i64(2), f.select(no, Part::i64(0), Part::i64(1)))));
  });
  if (!f.kernel.conditions.empty()) meet_conditions(f, term, met);
  return f.get(met);
}

/// @spans: what each term keeps for any and for every row of the tile, and the sorted cut points.
std::string spans(const Kernel& k) {
  Part f(k, "spans", "void", "ptr %pass");
  f.seldom();
  const Value pass = Part::argument("ptr", "pass");
  const Value x0 = f.tile(kFirst);
  const Value x1 = f.tile(kLast);
  const Value n_k = f.arg(offsetof(weft_args, n_k));
  const Value cuts = f.cuts();
  const Value count = f.slot(Part::i64(0));
  const auto push = [&](const Value& v) {  // insertion keeps them sorted; there are few
    const Value at = f.slot(f.get(count));
    f.repeat_while(
        [&] {
          const Value i = f.get(at);
          const Value before = f.load("i64", f.at(cuts, "i64", f.max(f.sub(i, Part::i64(1)), Part::i64(0))), 8);
          return f.bit_and(f.icmp("sgt", i, Part::i64(0)), f.icmp("sgt", before, v));
        },
        [&] {
          const Value i = f.get(at);
          f.store(f.load("i64", f.at(cuts, "i64", f.sub(i, Part::i64(1))), 8), f.at(cuts, "i64", i), 8);
          f.set(at, f.sub(i, Part::i64(1)));
        });
    f.store(v, f.at(cuts, "i64", f.get(at)), 8);
    f.set(count, f.add(f.get(count), Part::i64(1)));
  };
  f.for_each(Part::i64(0), f.word(pass, kTerms), 1, [&](const Value& t) {
    const Value term = f.term(pass, t);
    const Value state = f.term_state(t);
    const Value met = rows_meet(f, term);
    const Value may_lo = f.slot(Part::i64(0)), must_lo = f.slot(Part::i64(0));
    const Value may_hi = f.slot(n_k), must_hi = f.slot(n_k);
    const bool exact = k.plan.forms.empty();
    const auto lower = [&](const Value& e, const Value& v) { return exact ? v : f.sub(v, slack(f, e)); };
    const auto higher = [&](const Value& e, const Value& v) { return exact ? v : f.add(v, slack(f, e)); };
    each_bound(f, term, kLoCount, kLoAt, [&](const Value& e) {
      f.set(may_lo, f.max(f.get(may_lo), lower(e, f.call("i64", "bound", {f.a, f.s, e, x0}))));
      f.set(must_lo, f.max(f.get(must_lo), higher(e, f.call("i64", "bound", {f.a, f.s, e, x1}))));
    });
    each_bound(f, term, kHiCount, kHiAt, [&](const Value& e) {
      f.set(may_hi, f.min(f.get(may_hi), higher(e, f.call("i64", "bound", {f.a, f.s, e, x1}))));
      f.set(must_hi, f.min(f.get(must_hi), lower(e, f.call("i64", "bound", {f.a, f.s, e, x0}))));
    });
    const Value live = f.bit_and(f.icmp("ne", met, Part::i64(0)), f.icmp("slt", f.get(may_lo), f.get(may_hi)));
    const Value must = f.bit_and(f.icmp("eq", met, Part::i64(2)), f.icmp("slt", f.get(must_lo), f.get(must_hi)));
    const Value end = f.get(may_hi);
    f.store(f.get(may_lo), f.at(state, "i64", Part::i64(kMayLo)), 8);
    f.store(end, f.at(state, "i64", Part::i64(kMayHi)), 8);
    f.store(f.select(must, f.get(must_lo), end), f.at(state, "i64", Part::i64(kMustLo)), 8);
    f.store(f.select(must, f.get(must_hi), end), f.at(state, "i64", Part::i64(kMustHi)), 8);
    f.store(f.cast("zext", live, "i64"), f.at(state, "i64", Part::i64(kLive)), 8);
    f.when(live, [&] {
      push(f.get(may_lo));
      push(end);
      f.when(must, [&] {
        push(f.get(must_lo));
        push(f.get(must_hi));
      });
    });
  });
  f.set_tile(kCuts, f.get(count));
  f.ret();
  return f.finish();
}

/// @intervals: per row, the interval of each live term, for the masks of partial blocks.
std::string intervals(const Kernel& k) {
  Part f(k, "intervals", "void", "ptr %pass");
  const Value pass = Part::argument("ptr", "pass");
  const Value n_k = f.arg(offsetof(weft_args, n_k));
  const auto to_i32 = [&](const Value& v) {
    return f.cast("trunc", f.min(f.max(v, Part::i64(-2147483648LL)), Part::i64(2147483647LL)), "i32");
  };
  f.for_each(Part::i64(0), f.word(pass, kTerms), 1, [&](const Value& t) {
    const Value state = f.term_state(t);
    f.when(f.icmp("ne", f.word(state, kLive), Part::i64(0)), [&] {
      const Value term = f.term(pass, t);
      const Value need = f.word(term, kNeed);
      const Value miss = f.word(term, kMiss);
      f.for_each(Part::i64(0), Part::i64(k.rows), 1, [&](const Value& r) {
        const Value x = f.load("i64", f.at(f.in_scratch(k.x), "i64", r), 8);
        const Value bits = f.load("i64", f.at(f.in_scratch(k.bits), "i64", r), 8);
        const Value lo = f.slot(Part::i64(0)), hi = f.slot(n_k);
        each_bound(f, term, kLoCount, kLoAt, [&](const Value& e) {
          f.set(lo, f.max(f.get(lo), f.call("i64", "bound", {f.a, f.s, e, x})));
        });
        each_bound(f, term, kHiCount, kHiAt, [&](const Value& e) {
          f.set(hi, f.min(f.get(hi), f.call("i64", "bound", {f.a, f.s, e, x})));
        });
        each_bound(f, term, kRowCount, kRowAt, [&](const Value& e) {
          const Value below = f.icmp("slt", x, f.call("i64", "bound", {f.a, f.s, e, x}));
          const Value wanted = f.icmp("ne", f.word(e, kBoundBelow), Part::i64(0));
          f.set(hi, f.select(f.icmp("eq", below, wanted), f.get(hi), Part::i64(-1)));
        });
        const Value missing = f.bit_and(need, f.op("xor", bits, Part::i64(-1)));
        const Value fails = f.icmp("ne", f.bit_or(missing, f.bit_and(miss, bits)), Part::i64(0));
        f.store(to_i32(f.get(lo)), f.at(f.term_lo(state), "i32", r), 4);
        f.store(to_i32(f.select(fails, Part::i64(-1), f.get(hi))), f.at(f.term_hi(state), "i32", r), 4);
      });
    });
  });
  f.ret();
  return f.finish();
}

/// Of a term whose stream a lag gives: none. Streams of step 1 have no use for theirs.
Value segment_of(Part& f, const Value& term) {
  const Value w = f.word(term, kSegment);
  if (!f.kernel.lags) return w;
  return f.select(f.icmp("eq", f.word(term, kRate), Part::i64(1)), Part::i64(0), w);
}

/// The term's own stream, or that of a condition on which all rows agree: a lag, or one value of a key's remainder.
void choose_stream(Part& f, const Value& term, const Value& state) {
  f.store(f.word(term, kRate), f.at(state, "i64", Part::i64(kRateNow)), 8);
  f.store(f.word(term, kResidue), f.at(state, "i64", Part::i64(kResidueNow)), 8);
  f.store(Part::i64(-1), f.at(state, "i64", Part::i64(kStreamFrom)), 8);
  f.each_condition(term, [&](const Value& condition, const Value& number, const Value& negated) {
    const Value modulus = f.slot(Part::i64(0));
    const Value least = f.word(condition, kLeast);
    for (std::size_t i = 0; i < f.kernel.conditions.size(); ++i) {
      const Kernel::Condition& c = f.kernel.conditions[i];
      if (c.modulus <= 1) continue;
      Value is = f.icmp("eq", number, Part::i64(static_cast<std::int64_t>(i)));
      if (c.periodic) {
        const Value one = f.icmp("eq", f.sub(f.word(condition, kMost), least), Part::i64(1));
        is = f.bit_and(f.bit_and(is, one), f.icmp("ult", least, Part::i64(c.modulus)));
      }
      f.set(modulus, f.select(is, Part::i64(c.modulus), f.get(modulus)));
    }
    const Value agree = f.icmp("eq", f.word(condition, kRuns), Part::i64(1));
    const Value free = f.icmp("eq", f.word(state, kRateNow), Part::i64(1));
    const Value affirmed = f.op("xor", negated, Part::i1(true));
    const Value found = f.icmp("sgt", f.get(modulus), Part::i64(1));
    f.when(f.bit_and(f.bit_and(agree, free), f.bit_and(affirmed, found)), [&] {
      f.store(f.get(modulus), f.at(state, "i64", Part::i64(kRateNow)), 8);
      f.store(least, f.at(state, "i64", Part::i64(kResidueNow)), 8);
      f.store(number, f.at(state, "i64", Part::i64(kStreamFrom)), 8);
    });
  });
}

/// Starts a term's stream: the first y >= from that it hits, and the end of that y's segment.
void start_stream(Part& f, const Value& term, const Value& state, const Value& from) {
  if (f.kernel.lags) choose_stream(f, term, state);
  const Value w = segment_of(f, term);
  const Value rate = f.rate(term, state);
  const Value residue = f.residue(term, state);
  const Value first = f.slot(from);
  const Value end = f.slot(Part::i64(std::int64_t{1} << 60));
  f.when(f.icmp("sgt", rate, Part::i64(1)), [&] {
    const Value base = f.slot(Part::i64(0));
    f.when(f.icmp("sgt", w, Part::i64(0)), [&] {
      f.set(base, f.mul(f.floor_div(from, w), w));
      f.set(end, f.add(f.get(base), w));
    });
    f.set(first, f.add(from, f.floor_mod(f.sub(f.add(f.get(base), residue), from), rate)));
    f.when(f.icmp("sge", f.get(first), f.get(end)), [&] {
      f.set(first, f.add(f.get(end), residue));
      f.set(end, f.add(f.get(end), w));
    });
  });
  f.store(f.get(first), f.at(state, "i64", Part::i64(kAt)), 8);
  f.store(f.get(end), f.at(state, "i64", Part::i64(kSegmentEnd)), 8);
}

/// @zone: terms that matter in [lo, hi), their streams started. Returns 2 * terms + full.
std::string zone(const Kernel& k) {
  Part f(k, "zone", "i64", "ptr %pass, i64 %lo, i64 %hi");
  f.seldom();
  const Value pass = Part::argument("ptr", "pass");
  const Value lo = Part::argument("i64", "lo");
  const Value hi = Part::argument("i64", "hi");
  const Value list = f.zone_terms();
  const Value count = f.slot(Part::i64(0));
  const Value branch = f.slot(Part::i64(-1)), branch_at = f.slot(Part::i64(0)), covered = f.slot(Part::i64(0));
  const auto inside = [&](const Value& state, TermState from, TermState to) {
    return f.bit_and(f.icmp("sge", lo, f.word(state, from)), f.icmp("sle", hi, f.word(state, to)));
  };
  f.for_each(Part::i64(0), f.word(pass, kTerms), 1, [&](const Value& t) {
    const Value term = f.term(pass, t);
    const Value state = f.term_state(t);
    const Value of = f.word(term, kBranch);
    f.when(f.icmp("ne", of, f.get(branch)), [&] {
      f.set(branch, of);
      f.set(branch_at, f.get(count));
      f.set(covered, Part::i64(0));
    });
    const Value live = f.bit_and(f.icmp("ne", f.word(state, kLive), Part::i64(0)), inside(state, kMayLo, kMayHi));
    f.when(f.bit_and(live, f.icmp("eq", f.get(covered), Part::i64(0))), [&] {
      // A term that keeps all of the zone for every row makes its branch's other terms idle.
      const Value covers = f.bit_and(f.icmp("ne", f.word(term, kWhole), Part::i64(0)), inside(state, kMustLo, kMustHi));
      f.when(covers, [&] {
        f.set(count, f.get(branch_at));
        f.set(covered, Part::i64(1));
      });
      f.store(t, f.at(list, "i64", f.get(count)), 8);
      f.set(count, f.add(f.get(count), Part::i64(1)));
    });
  });
  const Value full = f.slot(Part::i64(1));
  f.for_each(Part::i64(0), f.get(count), 1, [&](const Value& i) {
    const Value t = f.load("i64", f.at(list, "i64", i), 8);
    const Value state = f.term_state(t);
    start_stream(f, f.term(pass, t), state, lo);
    f.when(
        inside(state, kMustLo, kMustHi), [] {}, [&] { f.set(full, Part::i64(0)); });
  });
  f.ret(f.add(f.mul(f.get(count), Part::i64(2)), f.get(full)));
  return f.finish();
}

/// Do the term's conditions let y through? Where not, `skip` is moved to the first key that may differ.
void ask_conditions(Part& f, const Value& term, const Value& y, const Value& ok, const Value& skip) {
  f.each_condition(term, [&](const Value& state, const Value& number, const Value& negated) {
    const Value answer = f.call("i64", "answers", {f.a, f.s, number, y});
    const Value wanted = f.select(negated, Part::i64(2), Part::i64(1));
    f.when(f.icmp("eq", f.bit_and(answer, wanted), Part::i64(0)), [&] {
      f.set(ok, Part::i64(0));
      f.set(skip, f.max(f.get(skip), f.word(state, kKnownEnd)));
    });
  });
}

/// Does y pass the term's filters?
Value passes_filters(Part& f, const Value& term, const Value& y, const Value& skip) {
  const Value ok = f.slot(Part::i64(1));
  const Value first = f.table(f.word(term, kFilterAt));
  f.for_each(Part::i64(0), f.word(term, kFilterCount), 1, [&](const Value& i) {
    const Value c = f.at(first, "i64", f.mul(i, Part::i64(kFilterWords)));
    const Value w = f.word(c, kFilterSegment);
    const Value in_segment = f.slot(y);
    f.when(f.icmp("sgt", w, Part::i64(0)), [&] { f.set(in_segment, f.floor_mod(y, w)); });
    const Value holds = f.icmp("eq", f.floor_mod(f.get(in_segment), f.word(c, kFilterRate)), f.word(c, kFilterResidue));
    const Value negated = f.icmp("ne", f.word(c, kFilterNegated), Part::i64(0));
    f.when(f.icmp("eq", holds, negated), [&] { f.set(ok, Part::i64(0)); });
  });
  if (!f.kernel.conditions.empty()) ask_conditions(f, term, y, ok, skip);
  return f.get(ok);
}

/// The least multiple of the rate, not 0, that leads from `at` to `skip` or beyond.
Value stride_past(Part& f, const Value& at, const Value& rate, const Value& skip) {
  const Value steps = f.op("sdiv", f.add(f.sub(skip, at), f.sub(rate, Part::i64(1))), rate);
  return f.mul(f.max(steps, Part::i64(1)), rate);
}

/// @next: the next y of the zone that some term hits, with every term's hit marked; y >= hi at the end.
std::string next(const Kernel& k) {
  Part f(k, "next", "i64", "ptr %pass, i64 %count, i64 %hi");
  const Value pass = Part::argument("ptr", "pass");
  const Value count = Part::argument("i64", "count");
  const Value hi = Part::argument("i64", "hi");
  const Value list = f.zone_terms();
  const Value y = f.slot(Part::i64(-1)), hits = f.slot(Part::i64(0));
  f.repeat_while([&] { return f.bit_and(f.icmp("eq", f.get(hits), Part::i64(0)), f.icmp("slt", f.get(y), hi)); },
                 [&] {
                   f.set(y, hi);
                   const auto each = [&](const std::function<void(const Value&, const Value&)>& use) {
                     f.for_each(Part::i64(0), count, 1, [&](const Value& i) {
                       const Value t = f.load("i64", f.at(list, "i64", i), 8);
                       use(f.term(pass, t), f.term_state(t));
                     });
                   };
                   each([&](const Value&, const Value& state) { f.set(y, f.min(f.get(y), f.word(state, kAt))); });
                   each([&](const Value& term, const Value& state) {
                     const Value at = f.word(state, kAt);
                     const Value is_here = f.bit_and(f.icmp("eq", at, f.get(y)), f.icmp("slt", at, hi));
                     const Value hit = f.slot(Part::i64(0));
                     f.when(is_here, [&] {
                       Value skip, step;
                       if (!k.conditions.empty()) skip = f.slot(at);
                       f.set(hit, passes_filters(f, term, at, skip));
                       if (k.conditions.empty()) {
                         step = f.add(at, f.rate(term, state));
                       } else {
                         step = f.add(at, stride_past(f, at, f.rate(term, state), f.get(skip)));
                       }
                       f.move_stream(term, state, step);
                     });
                     f.store(f.get(hit), f.at(state, "i64", Part::i64(kHit)), 8);
                     f.set(hits, f.add(f.get(hits), f.get(hit)));
                   });
                 });
  f.ret(f.select(f.icmp("eq", f.get(hits), Part::i64(0)), hi, f.get(y)));
  return f.finish();
}

}  // namespace

std::string emit_schedule(const Kernel& k) {
  return ";; Which keys a tile visits: see compiler/ir/schedule.h\n" + bound(k) + spans(k) + intervals(k) + zone(k) +
         next(k);
}

}  // namespace weft::codegen::cpu
