#include "compiler/ir/plan.h"
#include "runtime/cpu/walker.h"

#include <algorithm>
#include <limits>

/// What the tile's rows say to conditions on pairs, and which keys these let through.
namespace weft::cpu {

using walk::kSomeDoNot;

namespace {

constexpr i64 kBoth = walk::kSomeDoSomeDoNot;

constexpr i64 kBlock = ir::kSummaryBlock;
/// Rows of a tile that lie further apart say too little together.
constexpr i64 kMostRowBlocks = 8;

}  // namespace

void Walker::describe() const {
  kernels_.describe(&a_, s_);
  for (i64 i = 0; i < at_.conditions; ++i) {
    if (condition(i).said.on_row == 0) describe_pairs(condition(i));
  }
}

/// One row of each run of neighbours that agree on all parts, none where there are more than ir::kMostRuns, and the
/// reach of an interval.
void Walker::describe_pairs(Condition& c) const {
  const i64* const xs = in_scratch<i64>(at_.x);
  const i64* const parts = in_scratch<i64>(c.parts_at);
  constexpr auto kMost = static_cast<i64>(ir::kMostRuns);
  i64 runs = 0;
  for (i64 r = 0; r < at_.rows; ++r) {
    bool differs = r == 0;
    // fault(boundary_missed_where_a_part_falls) instead:
    //   for (i64 i = 0; i < c.parts && !differs; ++i) differs = parts[i * at_.rows + r] > parts[i * at_.rows + r - 1];
    for (i64 i = 0; i < c.parts && !differs; ++i) differs = parts[i * at_.rows + r] != parts[i * at_.rows + r - 1];
    // fault(no_boundary_of_runs_walked) also: differs = r == 0;
    if (!differs) continue;
    if (runs < kMost) {
      c.run_rows[runs] = xs[r];
      if (c.parts > 0) c.run_parts[runs] = parts[r];
    }
    ++runs;
  }
  // fault(more_runs_than_are_kept) instead: c.said.runs = runs;
  c.said.runs = runs <= kMost ? runs : 0;
  c.known_from = c.known_end = c.slope = 0;
  if (c.bounds_at == 0) return;
  const i64* const bounds = in_scratch<i64>(c.bounds_at);
  c.said.least = *std::min_element(bounds, bounds + at_.rows);
  c.said.most = *std::max_element(bounds + at_.rows, bounds + 2 * at_.rows);
}

/// The rows agree on one value of the key's remainder, or on a lag.
i64 Walker::modulus(i64 number) const {
  const Condition& c = condition(number);
  // Where there is no modulus there may be no reach either, and nobody has written one.
  if (c.grid_unit == 0 || c.modulus == 0) return c.modulus;
  const bool one = c.said.most - c.said.least == 1 && c.said.least >= 0 && c.said.least < c.modulus;
  return one ? c.modulus : 0;
}

walk::Answer Walker::answers(i64 number, i64 y) {
  Condition& c = condition(number);
  if (c.said.on_row != 0) return {.of_rows = kBoth, .end = c.known_end};
  if (y < c.known_from || y >= c.known_end) answer(number, c, y);
  return {.of_rows = c.known, .end = c.known_end};
}

/// The answer to y and those behind it that share it: the keys of one unit or of a line of a grid, or those a summary
/// speaks of.
void Walker::answer(i64 number, Condition& c, i64 y) const {
  walk::Answer to{.of_rows = -1, .end = y / c.unit * c.unit + c.unit};
  // fault(answer_outlives_its_block_of_keys) also: to.end = y + 64;
  if (c.summary >= 0) ask_summary(c, y, to);
  if (to.of_rows < 0) {
    to.of_rows = kernels_.ask(&a_, s_, number, y);
    // Rows too different to ask each: all that an interval's reach leaves may be kept or not.
    bool inside = true;
    if (c.bounds_at != 0) {
      inside = c.known_key >= c.said.least && c.known_key < c.said.most;
      // fault(end_of_what_rows_reach_too_near) also: inside = inside && c.known_key + 1 < c.said.most;
      // fault(begin_of_what_rows_reach_too_far) also: inside = inside && c.known_key > c.said.least;
      c.slope = 0;
      if (c.grid_unit > 0) know_line(c, y, inside, to.end);
    }
    // fault(many_runs_keep_nothing) instead: if (c.said.runs == 0) to.of_rows = kSomeDoNot;
    if (c.said.runs == 0) to.of_rows = inside ? kBoth : kSomeDoNot;
    if (c.list >= 0 && to.of_rows == kSomeDoNot) to.end = std::max(to.end, next_listed(c, y));
  }
  c.known_from = y;
  c.known_end = to.end;
  c.known = to.of_rows;
}

/// Of rows for which a list chose none of key y's block: the first key behind it of a block that it chose for one of
/// them.
i64 Walker::next_listed(const Condition& c, i64 y) const {
  const weft_list& list = a_.lists[c.list];
  i64 next = a_.n_k;
  for (i64 run = 0; run < c.said.runs; ++run) {
    // fault(next_of_the_first_run_for_all) also: if (run > 0) break;
    const std::int32_t* const row = list.data + fact(codegen::cpu::kB) * list.stride_b +
                                    fact(codegen::cpu::kH) * list.stride_h + c.run_parts[run] * list.stride_row;
    const std::int32_t* const found = std::lower_bound(row, row + list.count, y / c.of_list);
    if (found < row + list.count) next = std::min(next, *found * c.of_list);
  }
  return next;
}

/// Where a key's line of a grid enters or leaves what the rows reach: the first key behind y of which that can be said
/// anew. Inside, one line of keys of unit 1 is known to its end; other units one by one.
void Walker::know_line(Condition& c, i64 y, bool inside, i64& end) const {
  if (inside) {
    // Rows that all agree keep the rest of the line; of many, who keeps what is asked run by run of keys.
    if (c.grid_unit > 1 || c.said.runs > 1) return;
    const i64 last = c.grid_modulus > 0 ? std::min(c.said.most, c.grid_modulus) : c.said.most;
    // fault(run_beyond_its_line) instead: end = y + last - c.known_key + 1;
    end = y + last - c.known_key;
    // fault(keys_of_a_line_taken_for_one) leaves this out
    c.slope = 1;
    return;
  }
  i64 away = std::max<i64>(c.said.least, 0) - c.known_key;
  if (c.grid_modulus > 0) away = walk::floor_mod(away, c.grid_modulus);
  end = std::max(end, (y / c.grid_unit + std::max<i64>(away, 1)) * c.grid_unit);
}

/// What the summary of a condition says of key y: the answer to all keys before an end, or that those before an end
/// have one key value. Of what is said the last counts.
void Walker::ask_summary(const Condition& c, i64 y, walk::Answer& to) const {
  const weft_list& list = a_.lists[c.summary];
  const std::int32_t* const data =
      list.data + fact(codegen::cpu::kB) * list.stride_b + fact(codegen::cpu::kH) * list.stride_h;
  const i64 block = y / kBlock;
  if (c.summarizes_blocks != 0) {
    const i64 first = walk::floor_div(rows_.first, kBlock), last = walk::floor_div(rows_.last, kBlock);
    i64 bits = last - first <= kMostRowBlocks ? 0 : kBoth;
    for (i64 row = first; row <= last && bits != kBoth; ++row) bits |= data[row * list.stride_row + block];
    if (bits != kBoth) to = {.of_rows = bits, .end = (block + 1) * kBlock};
    return;
  }
  using Limits = std::numeric_limits<std::int32_t>;
  const auto clamped = [](i64 v) { return std::clamp<i64>(v, Limits::min(), Limits::max()); };
  const i64 lo = clamped(c.said.least), hi = clamped(c.said.most - 1);
  const auto ask = [&](i64 at, i64 end) {
    const i64 least = data[2 * at], most = data[2 * at + 1];
    if (most < lo || least > hi) to = {.of_rows = kSomeDoNot, .end = end};
    if (least == most && least > Limits::min() && most < Limits::max()) to.end = end;
  };
  const i64 blocks = (a_.n_k + kBlock - 1) / kBlock, wide = block / kBlock;
  ask(block, (block + 1) * kBlock);
  ask(blocks + wide, (wide + 1) * kBlock * kBlock);
}

}  // namespace weft::cpu
