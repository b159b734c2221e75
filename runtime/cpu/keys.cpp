#include "runtime/cpu/prefetch.h"
#include "runtime/cpu/walker.h"

#include <algorithm>
#include <cstring>
#include <limits>

/// From zones of keys to blocks of keys.
namespace weft::cpu {

using walk::term_of;
using walk::TermState;

namespace {

/// Additions to the tile's sums between two settlements, and what a block counts that is summed up key by key in place
/// of the tile's sums: so few of them that their rounding is small, and too few in short rows to settle anything.
constexpr i64 kMostAdditions = 128, kAdditionsOfPartial = 16;

i64 round_up(i64 x, i64 step) { return (x + step - 1) / step * step; }

void count_up(i64* to, i64 count, u64 first, u64 step) {
  for (i64 i = 0; i < count; ++i, first += step) to[i] = static_cast<i64>(first);
}

}  // namespace

Walker::KeyRows Walker::key_rows(const weft_view& view) const {
  const i64 hk = fact(codegen::cpu::kH) / (a_.heads / a_.kv_heads);
  const u64 start = times(hk, view.stride_h) + (at_.paged != 0 ? 0 : times(fact(codegen::cpu::kB), view.stride_b));
  return {.first = reinterpret_cast<u64>(view.data) + start * static_cast<u64>(at_.element),
          .step = times(view.stride_n, at_.element),
          .page = times(view.stride_b, at_.element)};
}

i64 Walker::address(const KeyRows& rows, i64 y) const {
  if (at_.paged == 0) return static_cast<i64>(rows.first + static_cast<u64>(y) * rows.step);
  const i64 number = y / a_.page_size;
  const i64 page = a_.pages[fact(codegen::cpu::kB) * a_.page_stride + number];
  const auto in_page = static_cast<u64>(y - number * a_.page_size);
  return static_cast<i64>(rows.first + static_cast<u64>(page) * rows.page + in_page * rows.step);
}

/// Keys from y on in steps of `rate`, with weight 1, at places from `at` on.
void Walker::put_keys(const Block& block, i64 at, i64 y, i64 rate, i64 take) const {
  std::fill_n(block.weights + at, take, 1.0F);
  if (at_.positions != 0) count_up(block.positions + at, take, static_cast<u64>(y), static_cast<u64>(rate));
  const auto put_rows = [&](i64* to, const KeyRows& rows) {
    if (at_.paged == 0) {
      return count_up(to, take, static_cast<u64>(address(rows, y)), static_cast<u64>(rate) * rows.step);
    }
    for (i64 i = 0; i < take; ++i) to[i] = address(rows, y + i * rate);
  };
  put_rows(block.keys + at, k_);
  put_rows(block.values + at, v_);
  if (at_.gradient != 0) put_sums(block, at, y, rate, take);
  in_no_branch(block, at, take);
}

/// Fills the block up to a multiple of `step` with copies of its last key at weight 0; returns the new count. They add
/// zeros to its row of dK and dV, one key after the other.
i64 Walker::pad(const Block& block, i64 count, i64 step) const {
  const i64 end = round_up(count, step);
  in_no_branch(block, count, end - count);
  for (i64 i = count; i < end; ++i) {
    block.keys[i] = block.keys[count - 1];
    block.values[i] = block.values[count - 1];
    if (at_.positions != 0) block.positions[i] = block.positions[count - 1];
    block.weights[i] = 0;
    if (at_.gradient != 0) block.sums[i] = block.sums[count - 1];
  }
  return end;
}

void Walker::count_additions(i64 additions) {
  additions_ += additions;
  if (additions_ < kMostAdditions || only_delta_) return;
  if (few_) kernels_.end_few(&a_, s_);
  kernels_.settle(&a_, s_, settled_ ? 1 : 0);
  settled_ = true;
  additions_ = 0;
}

// ---------------------------------------------------------------- keys that every row keeps

/// Computes one block while the rows of the other are asked for.
void Walker::run_full(int number, i64 count) {
  if (at_.gradient != 0) {
    run_gradient_block(number, count, true);
    return count_additions(1);
  }
  const auto block = few_ ? kernels_.few_block : narrow_ ? kernels_.narrow_block : kernels_.full_block;
  const Block &now = blocks_[number], &next = blocks_[1 - number];
  block(&a_, s_, now.keys, now.values, now.weights, count, next.keys, next.values, now.positions);
  count_additions(1);
}

/// The block being filled is full. The one that waited is computed now, and this one's rows are asked for meanwhile.
void Walker::rotate() {
  if (pending_) run_full(1 - filling_, at_.keys);
  pending_ = true;
  filling_ = 1 - filling_;
  filled_ = 0;
}

/// Computes what waits and what was begun.
void Walker::flush_full() {
  if (pending_) run_full(1 - filling_, at_.keys);
  if (filled_ > 0) run_full(filling_, pad(blocks_[filling_], filled_, few_ || narrow_ ? at_.sub_k : at_.micro_k));
  if (few_) kernels_.end_few(&a_, s_);
  pending_ = false;
  filled_ = 0;
}

/// Do the rows decide all of the term's conditions on pairs? So they do for the lag that became its stream.
bool Walker::rows_decide(const i64* term, const TermState& state) const {
  bool all = true;
  walk::each_condition(
      *this, term, [&](i64 number, bool) { all = all && (said(number).on_row != 0 || state.stream_from == number); });
  return all;
}

/// Is every stream of the zone one arithmetic progression inside that of term `base`? Then the keys are the base's, and
/// the others only add weight to some of them. Terms of one branch must not add up, so each other term has to be alone
/// in its branch, or in the base's.
bool Walker::progressions(const i64* pass, i64 count, i64 base, i64 hi) {
  const TermState& of_base = state(base);
  const i64 base_branch = term_of(*this, pass, base)[walk::kBranch];
  i64 before = -1;
  for (i64 i = 0; i < count; ++i) {
    const i64* const term = term_of(*this, pass, zone_terms_[i]);
    const TermState& s = state(zone_terms_[i]);
    const i64 branch = term[walk::kBranch];
    const bool alone = branch != before || branch == base_branch;
    const bool inside = s.rate % of_base.rate == 0 && (s.at - of_base.at) % of_base.rate == 0;
    const bool one_segment = s.segment_end >= hi, unfiltered = term[walk::kFilterCount] == 0;
    if (!alone || !inside || !one_segment || !unfiltered || !rows_decide(term, s)) return false;
    before = branch;
  }
  return true;
}

/// Weight of the other branches on a stretch of the base's keys: a sieve.
void Walker::add_weights(const i64* pass, i64 count, i64 base, float* weights, i64 first, i64 take) {
  const i64 rate = state(base).rate, base_branch = term_of(*this, pass, base)[walk::kBranch];
  for (i64 i = 0; i < count; ++i) {
    if (term_of(*this, pass, zone_terms_[i])[walk::kBranch] == base_branch) continue;
    TermState& s = state(zone_terms_[i]);
    const i64 step = s.rate / rate;
    i64 at = (s.at - first) / rate;
    in_branch(blocks_[filling_], term_of(*this, pass, zone_terms_[i])[walk::kBranch], filled_ + at, step,
              filled_ + take);
    // fault(weight_of_other_branches_forgotten) instead: for (; at < take; at += step) weights[at] += 0;
    for (; at < take; at += step) weights[at] += 1;
    s.at = first + at * rate;
  }
}

/// Keys from y to `end` by steps of `rate`: calls put(key, how many) for as many as the block at hand has room for, …
template <typename Put>
i64 Walker::by_blocks(i64 y, i64 end, i64 rate, const Put& put) {
  while (y < end) {
    const i64 take = std::min(round_up(end - y, rate) / rate, at_.keys - filled_);
    put(y, take);
    y += take * rate;
  }
  return y;
}

void Walker::walk_progression(const i64* pass, i64 count, i64 base, i64 hi) {
  const i64 rate = state(base).rate;
  by_blocks(state(base).at, hi, rate, [&](i64 y, i64 take) {
    const Block& block = blocks_[filling_];
    put_keys(block, filled_, y, rate, take);
    in_branch(block, term_of(*this, pass, base)[walk::kBranch], filled_, 1, filled_ + take);
    if (count > 1) add_weights(pass, count, base, block.weights + filled_, y, take);
    filled_ += take;
    if (filled_ == at_.keys) rotate();
  });
}

/// One key after the other, with the number of branches that hit it, each once.
void Walker::walk_merged(const i64* pass, i64 count, i64 hi) {
  for (i64 y; (y = walk::next_hit(*this, pass, zone_terms_, count, hi)) < hi;) {
    i64 weight = 0, counted = -1;
    put_keys(blocks_[filling_], filled_, y, 1, 1);
    for (i64 i = 0; i < count; ++i) {
      const i64 branch = term_of(*this, pass, zone_terms_[i])[walk::kBranch];
      if (state(zone_terms_[i]).hit == 0 || branch == counted) continue;
      counted = branch;
      ++weight;
      in_branch(blocks_[filling_], branch, filled_, 1, filled_ + 1);
    }
    blocks_[filling_].weights[filled_] = static_cast<float>(weight);
    if (++filled_ == at_.keys) rotate();
  }
}

/// Which keys from y on, up to which one, share what is known of the term's conditions at y, so that a row keeps an
/// interval of them: y at least, and no other where some condition is of another kind. Every condition was asked about
/// y, and the stream has moved on.
i64 Walker::end_of_run(const i64* term, const TermState& state, i64 y, i64 hi) const {
  const bool goes_on = state.at == y + state.rate && term[walk::kFilterCount] == 0;
  i64 end = goes_on ? std::min(hi, state.segment_end) : y + 1;
  walk::each_condition(*this, term, [&](i64 number, bool) {
    const Condition& c = condition(number);
    if (c.said.on_row == 0 && state.stream_from != number) end = std::min(end, c.known_end);
  });
  return end;
}

/// Of a zone with one term, runs of keys that share what is known: put(term, state, key, how many), by blocks.
template <typename Put>
void Walker::walk_runs(const i64* pass, i64 hi, const Put& put) {
  const i64* const term = term_of(*this, pass, zone_terms_[0]);
  TermState& only = state(zone_terms_[0]);
  for (i64 y; (y = walk::next_hit(*this, pass, zone_terms_, 1, hi)) < hi;) {
    const bool goes_on = only.at == y + only.rate;
    const i64 end = by_blocks(y, end_of_run(term, only, y, hi), only.rate,
                              [&](i64 from, i64 take) { put(term, only, from, take); });
    // Where the first key was its segment's last, the stream is in the next segment already.
    // fault(stream_not_moved_behind_a_run) instead: if (!goes_on) walk::move_stream(*this, term, only, end);
    if (goes_on) walk::move_stream(*this, term, only, end);
  }
}

void Walker::full_zone(const i64* pass, i64 count, i64 hi) {
  const i64 base =
      *std::min_element(zone_terms_, zone_terms_ + count, [&](i64 a, i64 b) { return state(a).rate < state(b).rate; });
  if (progressions(pass, count, base, hi)) return walk_progression(pass, count, base, hi);
  if (count > 1) return walk_merged(pass, count, hi);
  walk_runs(pass, hi, [&](const i64* term, TermState& only, i64 y, i64 take) {
    put_keys(blocks_[filling_], filled_, y, only.rate, take);
    in_branch(blocks_[filling_], term[walk::kBranch], filled_, 1, filled_ + take);
    filled_ += take;
    if (filled_ == at_.keys) rotate();
  });
}

// ---------------------------------------------------------------- keys that some rows keep and others do not

/// No row keeps any of the group of keys from place `at` on, which may pass the block's end.
void Walker::keep_none(i64 at) const {
  for (i64 v = 0; v < at_.rows / at_.lanes; ++v) {
    std::memset(in_scratch<std::byte>(at_.kept + v * at_.mask_row + at * at_.mask_bytes), 0,
                static_cast<std::size_t>(at_.sub_k * at_.mask_bytes));
  }
}

/// Computes the partial block that was begun.
void Walker::flush_partial() {
  if (filled_ > 0) {
    const Block& block = blocks_[0];
    const i64 end = pad(block, filled_, at_.sub_k);
    // fault(masks_left_behind_the_last_key) leaves this out
    keep_none(filled_);
    at_.gradient != 0 ? run_gradient_block(0, end, false)
                      : kernels_.partial_block(&a_, s_, block.keys, block.values, end, block.positions);
    count_additions(kAdditionsOfPartial);
  }
  filled_ = 0;
}

void Walker::put_partial_keys(i64 y, i64 rate, i64 take) const {
  const Block& block = blocks_[0];
  put_keys(block, filled_, y, rate, take);
  const i64 of_key = i64{at_.d} * at_.element, of_value = i64{at_.d_v} * at_.element, end = filled_ + take;
  for (i64 i = filled_; i < end; ++i) {
    ask_for(block.keys[i], of_key);
    ask_for(block.values[i], of_value);
  }
}

/// Per row, the interval of each live term.
void Walker::find_intervals(const i64* pass) {
  const auto narrowed = [](i64 v) {
    using Limits = std::numeric_limits<std::int32_t>;
    return static_cast<std::int32_t>(std::clamp<i64>(v, Limits::min(), Limits::max()));
  };
  for (i64 t = 0; t < pass[walk::kTerms]; ++t) {
    if (state(t).live == 0) continue;
    const i64* const term = term_of(*this, pass, t);
    auto* const lo = reinterpret_cast<std::int32_t*>(&state(t) + 1);
    for (i64 r = 0; r < at_.rows; ++r) {
      const auto kept = walk::interval_of_row(*this, term, in_scratch<i64>(at_.x)[r], in_scratch<u64>(at_.bits)[r]);
      lo[r] = narrowed(kept.lo);
      lo[at_.rows + r] = narrowed(kept.hi);
    }
  }
}

/// Can @keep_run find the rows' intervals? Not where a condition tells rows apart by something else.
bool Walker::has_intervals(const i64* term, const TermState& state) const {
  bool all = true;
  walk::each_condition(*this, term, [&](i64 number, bool negated) {
    const Condition& c = condition(number);
    const bool mixed = c.said.some_meet != 0 && c.said.some_fail != 0;
    const bool of_pairs = c.said.runs == 1 || (c.narrowing_at != 0 && !negated) || state.stream_from == number;
    all = all && (c.said.on_row != 0 ? !mixed : of_pairs);
  });
  return all;
}

void Walker::partial_zone(const i64* pass, i64 count, i64 hi) {
  if (!intervals_found_) find_intervals(pass);
  intervals_found_ = true;
  if (at_.branches > 0) fact(codegen::cpu::kBranchesAt) = blocks_[0].branches - in_scratch<std::byte>(0);
  const auto put = [&](i64 y, i64 rate, i64 take, const auto& keep) {
    put_partial_keys(y, rate, take);
    keep();
    filled_ += take;
    if (filled_ == at_.keys) flush_partial();
  };
  if (count == 1 && has_intervals(term_of(*this, pass, zone_terms_[0]), state(zone_terms_[0]))) {
    return walk_runs(pass, hi, [&](const i64* term, const TermState& only, i64 y, i64 take) {
      put(y, only.rate, take, [&] {
        kernels_.keep_run(&a_, s_, term, &only, y, filled_, take);
        kept_in_branch(blocks_[0], term[walk::kBranch], filled_, take);
      });
    });
  }
  for (i64 y; (y = walk::next_hit(*this, pass, zone_terms_, count, hi)) < hi;)
    put(y, 1, 1, [&] { kernels_.keep_key(&a_, s_, pass, zone_terms_, count, filled_, y); });
}

}  // namespace weft::cpu
