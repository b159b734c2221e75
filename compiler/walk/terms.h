#pragma once

#include "compiler/walk/portable.h"
#include "compiler/walk/words.h"

/// What a term keeps: of one row, and of any and of every row of a tile. Bounds never fall as rows grow, so the first
/// and the last row tell. Of an environment, beside words: `y_begin`, `y_end`, the positions that have keys;
/// `input(i)`, `part(b, a)` and `form(i, x)`, the values of bounds; `said(i)`, what the tile's rows say to condition
/// number i.
namespace weft::walk {

/// Rows of a tile, as far as terms ask.
struct Rows {
  i64 first = 0, last = 0;  ///< positions
  u64 every = 0, any = 0;   ///< AND and OR of their bits
};

/// What the rows of a tile say to a condition on pairs: see ir::TilePredicate.
struct Said {
  i64 on_row = 0, some_meet = 0, some_fail = 0;
  i64 runs = 0;             ///< of rows that agree; 0: more than anyone asks
  i64 least = 0, most = 0;  ///< of an interval, over the rows
};

template <typename Env>
WEFT_WALK i64 value_of(const Env& e, const i64* bound, i64 x) {
  const i64 a = e.word(bound + kBoundA), add = e.word(bound + kBoundAdd);
  switch (e.word(bound + kBoundKind)) {
    case kBoundRow:
      return x + add;
    case kBoundSegment:
      return floor_div(x, a) * a + add;
    case kBoundInput:
      return e.input(a) + add;
    case kBoundPart:
      return e.part(e.word(bound + kBoundB), a) + add;
    case kBoundForm:
      return e.form(a, x) + add;
    default:
      return add;
  }
}

/// By how much a bound may fall from one row of a tile to a later one; but for forms by nothing.
template <typename Env>
WEFT_WALK i64 slack(const Env& e, const i64* bound) {
  return e.word(bound + kBoundKind) == kBoundForm ? e.word(bound + kBoundB) : 0;
}

/// Entries of a term, such as its bounds: use(entry).
template <typename Env, typename Use>
WEFT_WALK void each_entry(const Env& e, const i64* term, TermWord count, TermWord at, i64 words, const Use& use) {
  const i64* entry = e.table(e.word(term + at));
  for (i64 left = e.word(term + count); left > 0; --left, entry += words) use(entry);
}
template <typename Env, typename Use>
WEFT_WALK void each_bound(const Env& e, const i64* term, TermWord count, TermWord at, const Use& use) {
  each_entry(e, term, count, at, kBoundWords, use);
}
/// use(number, is negated) for its conditions on pairs.
template <typename Env, typename Use>
WEFT_WALK void each_condition(const Env& e, const i64* term, const Use& use) {
  each_entry(e, term, kPairCount, kPairAt, kPairWords,
             [&](const i64* pair) { use(e.word(pair + kPairNumber), e.word(pair + kPairNegated) != 0); });
}

/// Does a set of rows meet a term's conditions?
enum Met { kMetByNone, kMetBySome, kMetByAll };

template <typename Env>
WEFT_WALK Met rows_meet(const Env& e, const Rows& rows, const i64* term) {
  const u64 need = static_cast<u64>(e.word(term + kNeed)), miss = static_cast<u64>(e.word(term + kMiss));
  bool some = (need & ~rows.any) == 0 && (miss & rows.every) == 0;
  bool all = (need & ~rows.every) == 0 && (miss & rows.any) == 0;
  each_bound(e, term, kRowCount, kRowAt, [&](const i64* bound) {
    const i64 at = value_of(e, bound, rows.first);
    const bool below = e.word(bound + kBoundBelow) != 0, all_below = rows.last < at, none_below = rows.first >= at;
    some = some && !(below ? none_below : all_below);
    all = all && (below ? all_below : none_below);
  });
  each_condition(e, term, [&](i64 number, bool negated) {
    const auto& said = e.said(number);
    // Rows that disagree leave each pair to the mask.
    if (said.on_row != 0) {
      some = some && (negated ? said.some_fail : said.some_meet) != 0;
      all = all && (said.some_meet == 0 || said.some_fail == 0);
    } else {
      all = all && said.runs == 1;
    }
  });
  return !some ? kMetByNone : all ? kMetByAll : kMetBySome;
}

/// What a term keeps for any and for every row. Empty intervals have lo >= hi.
struct Span {
  i64 may_lo = 0, may_hi = 0, must_lo = 0, must_hi = 0;
};

template <typename Env>
WEFT_WALK Span span_of(const Env& e, const Rows& rows, const i64* term, Met met) {
  Span s{e.y_begin, e.y_end, e.y_begin, e.y_end};
  each_bound(e, term, kLoCount, kLoAt, [&](const i64* bound) {
    s.may_lo = most(s.may_lo, value_of(e, bound, rows.first) - slack(e, bound));
    s.must_lo = most(s.must_lo, value_of(e, bound, rows.last) + slack(e, bound));
  });
  each_bound(e, term, kHiCount, kHiAt, [&](const i64* bound) {
    // fault(end_of_the_first_row_alone) instead: s.may_hi = least(s.may_hi, value_of(e, bound, rows.first));
    s.may_hi = least(s.may_hi, value_of(e, bound, rows.last) + slack(e, bound));
    s.must_hi = least(s.must_hi, value_of(e, bound, rows.first) - slack(e, bound));
  });
  if (met != kMetByAll || s.must_lo >= s.must_hi) s.must_lo = s.must_hi = s.may_hi;
  return s;
}

/// Keys of one row, empty (lo >= hi) where it fails the term's conditions on rows.
struct Interval {
  i64 lo = 0, hi = 0;
};

template <typename Env>
WEFT_WALK Interval interval_of_row(const Env& e, const i64* term, i64 x, u64 bits) {
  const u64 need = static_cast<u64>(e.word(term + kNeed)), miss = static_cast<u64>(e.word(term + kMiss));
  bool meets = (need & ~bits) == 0 && (miss & bits) == 0;
  each_bound(e, term, kRowCount, kRowAt, [&](const i64* bound) {
    meets = meets && (x < value_of(e, bound, x)) == (e.word(bound + kBoundBelow) != 0);
  });
  if (!meets) return {};
  Interval out{e.y_begin, e.y_end};
  each_bound(e, term, kLoCount, kLoAt, [&](const i64* bound) { out.lo = most(out.lo, value_of(e, bound, x)); });
  each_bound(e, term, kHiCount, kHiAt, [&](const i64* bound) { out.hi = least(out.hi, value_of(e, bound, x)); });
  // fault(a_row_begins_one_too_late) also: ++out.lo;
  return out;
}

}  // namespace weft::walk
