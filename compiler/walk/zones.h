#pragma once

#include "compiler/walk/terms.h"

/// From what the terms of a pass keep to zones of keys in which the same terms matter, and to the keys that these hit.
/// Of an environment, beside what terms.h asks: `state(t)`, the state of term number t; `modulus(i)`, the step of the
/// stream that condition number i is for the tile's rows, starting from their `least`, or 0; `answers(i, y)`, what the
/// tile's rows answer condition number i at key y.
namespace weft::walk {

/// Of one term in a tile. Vectors of numbers for the rows may stand behind it.
struct alignas(64) TermState {
  Span span;
  i64 live = 0;
  i64 at = 0, segment_end = 0;  ///< the stream's next key, and where that key's segment ends
  i64 hit = 0;                  ///< does it hit the key at hand?
  i64 rate = 1, residue = 0;    ///< its stream's in this tile
  i64 stream_from = -1;         ///< the condition that the stream is
};

/// Bits of what a tile's rows answer: some keep the key, some do not.
inline constexpr i64 kSomeKeep = 1, kSomeDoNot = 2, kSomeDoSomeDoNot = kSomeKeep | kSomeDoNot;

/// To one key, and to all before `end`.
struct Answer {
  i64 of_rows = 0;
  i64 end = 0;
};

template <typename Env>
WEFT_WALK const i64* term_of(const Env&, const i64* pass, i64 t) {
  return pass + kTermsAt + t * kTermWords;
}

/// What each term keeps, into its state, and the sorted points where that changes; returns how many, 0 where no term is
/// live. There is room for four a term.
template <typename Env>
WEFT_WALK i64 make_spans(Env& e, const Rows& rows, const i64* pass, i64* cuts) {
  i64 count = 0;
  const auto cut = [&](i64 y) {  // insertion keeps them sorted; there are few
    i64 at = count++;
    for (; at > 0 && cuts[at - 1] > y; --at) cuts[at] = cuts[at - 1];
    cuts[at] = y;
  };
  for (i64 t = 0; t < e.word(pass + kTerms); ++t) {
    const i64* const term = term_of(e, pass, t);
    TermState& state = e.state(t);
    const Met met = rows_meet(e, rows, term);
    state.live = 0;
    if (met == kMetByNone) continue;
    const Span s = span_of(e, rows, term, met);
    if (s.may_lo >= s.may_hi) continue;
    state.span = s;
    state.live = 1;
    cut(s.may_lo);
    cut(s.may_hi);
    if (s.must_lo < s.must_hi) {
      cut(s.must_lo);
      cut(s.must_hi);
    }
  }
  return count;
}

/// The term's own stream, or that of a condition on which all rows agree: a lag, or one value of a key's remainder.
template <typename Env>
WEFT_WALK void choose_stream(const Env& e, const i64* term, TermState& state) {
  state.rate = e.word(term + kRate);
  // fault(stream_without_its_residue) instead: state.residue = 0;
  state.residue = e.word(term + kResidue);
  state.stream_from = -1;
  if (state.rate != 1) return;
  each_condition(e, term, [&](i64 number, bool negated) {
    if (state.stream_from >= 0 || negated || e.said(number).runs != 1) return;
    const i64 modulus = e.modulus(number);
    if (modulus <= 1) return;
    state.rate = modulus;
    state.residue = e.said(number).least;
    state.stream_from = number;
  });
}

/// Takes a term's stream to key `to`, or to the first of the next segment where that is closer.
template <typename Env>
WEFT_WALK void move_stream(const Env& e, const i64* term, TermState& state, i64 to) {
  state.at = to;
  if (to < state.segment_end) return;
  state.at = state.segment_end + state.residue;
  state.segment_end += e.word(term + kSegment);
}

/// Puts it on the first key at or behind `from` that it hits.
template <typename Env>
WEFT_WALK void start_stream(const Env& e, const i64* term, TermState& state, i64 from) {
  choose_stream(e, term, state);
  state.at = from;
  state.segment_end = kFar;
  if (state.rate == 1) return;
  const i64 segment = state.stream_from >= 0 ? 0 : e.word(term + kSegment);
  const i64 base = segment > 0 ? floor_div(from, segment) * segment : 0;
  if (segment > 0) state.segment_end = base + segment;
  move_stream(e, term, state, from + floor_mod(base + state.residue - from, state.rate));
}

/// The terms that matter in a zone, ascending.
struct Zone {
  i64 count = 0;
  bool full = true;  ///< every row keeps every key that one of them hits
};

/// Lists the terms that matter between two neighbouring cuts, with their streams started. A term that keeps all of the
/// zone for every row makes its branch's others idle.
template <typename Env>
WEFT_WALK Zone make_zone(Env& e, const i64* pass, i64 lo, i64 hi, i64* list) {
  Zone zone;
  i64 branch = -1, first_of_branch = 0;
  bool covered = false;
  for (i64 t = 0; t < e.word(pass + kTerms); ++t) {
    const i64* const term = term_of(e, pass, t);
    const TermState& state = e.state(t);
    if (e.word(term + kBranch) != branch) {
      branch = e.word(term + kBranch);
      first_of_branch = zone.count;
      covered = false;
    }
    if (covered || state.live == 0 || lo < state.span.may_lo || hi > state.span.may_hi) continue;
    covered = e.word(term + kWhole) != 0 && lo >= state.span.must_lo && hi <= state.span.must_hi;
    if (covered) zone.count = first_of_branch;
    list[zone.count++] = t;
  }
  for (i64 i = 0; i < zone.count; ++i) {
    TermState& state = e.state(list[i]);
    start_stream(e, term_of(e, pass, list[i]), state, lo);
    // fault(full_for_some_rows_alone) leaves this out
    zone.full = zone.full && lo >= state.span.must_lo && hi <= state.span.must_hi;
  }
  return zone;
}

/// Does a term's hit at y pass its filters and conditions? Where not, `skip` is moved to the first key that may.
template <typename Env>
WEFT_WALK bool passes(Env& e, const i64* term, i64 y, i64& skip) {
  bool ok = true;
  each_entry(e, term, kFilterCount, kFilterAt, kFilterWords,
             [&](const i64* filter) { ok = ok && holds(e, filter, y) != (e.word(filter + kFilterNegated) != 0); });
  each_condition(e, term, [&](i64 number, bool negated) {
    const Answer answer = e.answers(number, y);
    if ((answer.of_rows & (negated ? kSomeDoNot : kSomeKeep)) != 0) return;
    ok = false;
    skip = most(skip, answer.end);
  });
  return ok;
}

/// The next key before hi that some term of a zone hits, with each term's hit marked; hi where there is none.
template <typename Env>
WEFT_WALK i64 next_hit(Env& e, const i64* pass, const i64* list, i64 count, i64 hi) {
  while (true) {
    i64 y = hi;
    for (i64 i = 0; i < count; ++i) y = least(y, e.state(list[i]).at);
    if (y >= hi) return hi;
    bool any = false;
    for (i64 i = 0; i < count; ++i) {
      TermState& state = e.state(list[i]);
      state.hit = 0;
      if (state.at != y) continue;
      const i64* const term = term_of(e, pass, list[i]);
      i64 skip = y;
      const bool hit = passes(e, term, y, skip);
      // On by as many steps as lead to `skip` or beyond, at least by one.
      const i64 steps = (skip - y + state.rate - 1) / state.rate;
      move_stream(e, term, state, y + most(steps, 1) * state.rate);
      state.hit = hit ? 1 : 0;
      any = any || hit;
    }
    if (any) return y;
  }
}

}  // namespace weft::walk
