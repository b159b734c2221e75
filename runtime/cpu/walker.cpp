#include "runtime/cpu/walker.h"

#include "compiler/ir/philox.h"
#include "runtime/cpu/prefetch.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace weft::cpu {

using codegen::cpu::kB;
using codegen::cpu::kCount;
using codegen::cpu::kGroup;
using codegen::cpu::kH;
using codegen::cpu::kOffset;
using codegen::cpu::kRowsFrom;
using codegen::cpu::kRowsTo;
using codegen::cpu::kStatesAt;

Walker::Walker(const MicroKernels& kernels, const weft_args& args, Sums* sums)
    : y_begin(args.chunks > 0 ? args.chunk_first : 0),
      y_end(args.chunks > 0 ? std::min(args.n_k, args.chunk_first + args.chunk_keys) : args.n_k),
      kernels_(kernels),
      at_(kernels.at),
      a_(args),
      s_(args.scratch),
      sums_(sums),
      few_(args.n_q <= at_.few_queries) {
  for (int i = 0; i < 2; ++i) {
    blocks_[i] = {.keys = in_scratch<i64>(at_.key_at[i]),
                  .values = in_scratch<i64>(at_.value_at[i]),
                  .positions = in_scratch<i64>(at_.key_position[i]),
                  .sums = in_scratch<i64>(at_.key_sums[i]),
                  .weights = in_scratch<float>(at_.key_weight[i]),
                  .branches = in_scratch<std::byte>(at_.branch_kept[i])};
  }
  cuts_ = in_scratch<i64>(at_.terms + a_.most_terms * at_.term_stride);
  zone_terms_ = cuts_ + 4 * a_.most_terms;
}

i64 Walker::input(i64 number) const {
  const weft_input& of = a_.inputs[number];
  return static_cast<const std::int32_t*>(of.data)[fact(kB) * of.strides[0]];
}

/// Facts of one (batch entry, head).
void Walker::open(i64 b, i64 h) {
  fact(kB) = b;
  fact(kH) = h;
  fact(kOffset) = a_.offsets != nullptr ? a_.offsets[b] : a_.offset;
  x_begin = fact(kOffset);
  x_end = x_begin + a_.n_q;
}

void Walker::summarize() {
  const i64 head = a_.tile_end / a_.tiles_per_head, list = -1 - a_.phase;
  const bool by_head = a_.lists[list].stride_h != 0;
  open(by_head ? head / a_.heads : head, by_head ? head % a_.heads : 0);
  kernels_.summarize(&a_, s_, list, a_.tile_end % a_.tiles_per_head);
}

void Walker::tiles() {
  const i64* const phase = table(*table(1 + a_.phase));
  const i64 passes = phase[0], phases = *table(0), groups = a_.heads / a_.heads_per_tile;
  softmaxes_ = passes;
  const walk::Tiles tiles{.rows = at_.rows, .last_first = phase[1] != 0, .heads = a_.heads_per_tile};
  fact(kGroup) = a_.heads_per_tile;
  fact(kStatesAt) = at_.terms;
  if (at_.dropout != 0) seed();
  if (at_.gradient != 0) {
    std::memset(in_scratch<std::byte>(at_.zero_row), 0,
                static_cast<std::size_t>(std::max(at_.d, at_.d_v) * at_.element));
    lend_inputs();
  }
  for (i64 number = a_.tile_begin; number < a_.tile_end; ++number) {
    const i64 of_batch = number / a_.tiles_per_head, h = of_batch % groups * a_.heads_per_tile;
    open(of_batch / groups, h);
    k_ = key_rows(a_.k);
    v_ = key_rows(a_.v);
    const i64* const head = table(phase[2 + h]);
    if (!make_rows(head, tiles, a_.tile_first + number % a_.tiles_per_head)) continue;
    if (at_.gradient != 0 && !takes_part()) continue;
    if (a_.chunk_merge != 0) {
      merge_tile(head);
      continue;
    }
    if (at_.conditions > 0) describe();
    phases > 1 ? run_tile_of_phases(head, phases) : run_tile(head, passes);
  }
  if (at_.gradient != 0) take_back_inputs();
}

/// The keys of all rounds, once a call.
void Walker::seed() const {
  const u64 seed = a_.seed_at != nullptr ? *a_.seed_at : a_.seed;
  const auto keys = ir::philox_round_keys(seed);
  std::copy(keys.begin(), keys.end(), in_scratch<std::uint32_t>(at_.round_keys));
}

/// The rows of a tile, also those that the launch does not compute; none that it does: false. Lanes behind the last row
/// repeat it, so that they neither widen an interval nor need a mask.
bool Walker::make_rows(const i64* head, const walk::Tiles& tiles, i64 tile) {
  i64* const xs = in_scratch<i64>(at_.x);
  u64* const bits = in_scratch<u64>(at_.bits);
  rows_ = {.first = 0, .last = 0, .every = ~u64{0}, .any = 0};
  i64 count = 0;
  walk::rows_of_tile(*this, head, tiles, tile, [&](i64 x, u64 of_row) {
    xs[count] = x;
    bits[count++] = of_row;
    rows_.every &= of_row;
    rows_.any |= of_row;
  });
  if (count == 0) return false;
  std::fill(xs + count, xs + at_.rows, xs[count - 1]);
  std::fill(bits + count, bits + at_.rows, bits[count - 1]);
  rows_.first = xs[0];
  rows_.last = xs[count - 1];
  fact(kCount) = count;
  narrow_ = count <= at_.micro_q * at_.lanes / 2;
  if (!find_present()) return false;
  if (at_.gradient == 0) find_rows();
  return true;
}

/// Which of the tile's rows the launch computes; none: false.
bool Walker::find_present() {
  const i64* const xs = in_scratch<i64>(at_.x);
  const i64 count = fact(kCount), begin = x_begin + a_.row_begin, end = x_begin + a_.row_end;
  const i64 from = std::lower_bound(xs, xs + count, begin) - xs, to = std::lower_bound(xs, xs + count, end) - xs;
  if (from == to) return false;
  fact(kRowsFrom) = from;
  fact(kRowsTo) = to;
  return true;
}

/// The position of lane r, or where the launch does not compute that the nearest which it does.
i64 Walker::row_in_memory(i64 r) const {
  return in_scratch<i64>(at_.x)[std::clamp(r, fact(kRowsFrom), fact(kRowsTo) - 1)];
}

Walker::QueryRows Walker::query_rows(const weft_view& view) const {
  const u64 first = times(fact(kB), view.stride_b) + times(fact(kH), view.stride_h) - times(x_begin, view.stride_n);
  return {.first = reinterpret_cast<u64>(view.data) + first * static_cast<u64>(at_.element),
          .row = times(view.stride_n, at_.element),
          .head = times(view.stride_h, at_.element)};
}

/// Where the tile's rows of Q and O stand.
void Walker::find_rows() const {
  const QueryRows q = query_rows(a_.q), o = query_rows(a_.o);
  // Rows that the launch does not compute, and lanes behind the last, have no place in O; another row's Q stands in.
  const i64 nowhere = reinterpret_cast<i64>(in_scratch<std::byte>(at_.idle_row));
  const i64 from = fact(kRowsFrom), to = fact(kRowsTo), heads = fact(kGroup), rows = at_.rows,
            bytes = i64{at_.d} * at_.element;
  i64 *const q_row = in_scratch<i64>(at_.q_row), *const o_row = in_scratch<i64>(at_.o_row);
  for (i64 r = 0, head = 0; r < rows; ++r, head = head + 1 < heads ? head + 1 : 0) {
    const i64 x = row_in_memory(r), at = q.at(x, head);
    q_row[r] = at;
    ask_for(at, bytes);
    o_row[r] = r >= from && r < to ? o.at(x, head) : nowhere;
  }
}

void Walker::run_tile(const i64* head, i64 passes) {
  if (at_.gradient != 0) return run_gradient_tile(head, passes);
  load_queries();
  if (passes > 1)
    std::memset(in_scratch<float>(at_.out), 0, sizeof(float) * static_cast<std::size_t>(at_.v_pad * at_.rows));
  for (i64 p = 0; p < passes; ++p) {
    const i64* const pass = table(head[walk::kPassesAt + p]);
    cut_count_ = walk::make_spans(*this, rows_, pass, cuts_);
    kernels_.fresh(&a_, s_);
    run_pass(pass);
    a_.chunks > 0 ? carry(false, p) : finish_pass(pass);
  }
  if (a_.chunks == 0) kernels_.store_rows(&a_, s_);
}

void Walker::load_queries() const {
  kernels_.load_q(&a_, s_);
  if (few_) kernels_.load_few(&a_, s_);
}

/// Of plans of several phases: one pass, with state taken from the phase before and handed on.
void Walker::run_tile_of_phases(const i64* head, i64 phases) {
  const i64* const pass = table(head[walk::kPassesAt]);
  // What a chunk of keys keeps goes on, also behind the last.
  const bool first = a_.phase == 0, last = a_.phase == phases - 1 && a_.chunks == 0;
  cut_count_ = walk::make_spans(*this, rows_, pass, cuts_);
  const bool idle = cut_count_ == 0;
  // Rows that this phase adds nothing to keep their state where it is.
  if (idle && !first && !last) return;
  first ? kernels_.fresh(&a_, s_) : carry(true);
  if (!idle || (last && at_.gradient != 0)) {
    at_.gradient != 0 ? load_gradient_rows(pass, true) : load_queries();
    at_.gradient != 0 ? run_gradient_pass(pass, true) : run_pass(pass);
  }
  if (!last) return carry(false);
  if (at_.gradient != 0) add_sinks(pass);
  at_.gradient != 0 ? kernels_.scale_sums(&a_, s_) : finish_pass(pass);
  kernels_.store_rows(&a_, s_);
}

/// One softmax over the tile's keys.
void Walker::run_pass(const i64* pass) {
  intervals_found_ = pending_ = settled_ = false;
  filling_ = 0;
  filled_ = additions_ = 0;
  if (few_) kernels_.clear_few(&a_, s_);
  sweep(pass, true);
  flush_full();
  sweep(pass, false);
  flush_partial();
  if (settled_) kernels_.collect(&a_, s_);
}

/// The zones between cut points that are full, or partial.
void Walker::sweep(const i64* pass, bool full) {
  for (i64 i = 1; i < cut_count_; ++i) {
    const i64 lo = cuts_[i - 1], hi = cuts_[i];
    if (lo >= hi) continue;
    const walk::Zone zone = walk::make_zone(*this, pass, lo, hi, zone_terms_);
    if (zone.count == 0 || zone.full != full) continue;
    full ? full_zone(pass, zone.count, hi) : partial_zone(pass, zone.count, hi);
  }
}

/// The sink of each row's head is a last term of its sum.
void Walker::join_sink() const {
  constexpr double kLog2E = 1.4426950408889634;
  const i64 heads = fact(kGroup);
  for (i64 head = 0; head < heads; ++head) {
    const auto sink = static_cast<float>(kernels_.sink_of(&a_, s_, fact(kH) + head) * kLog2E);
    for (i64 r = head; r < at_.rows; r += heads) in_scratch<float>(at_.top)[r] = sink;
  }
  kernels_.join_sink(&a_, s_);
}

/// LSE of the pass where it is wanted, and its share of O.
void Walker::finish_pass(const i64* pass) const {
  if (at_.sink != 0) join_sink();
  const i64 slot = pass[walk::kLseSlot];
  float* const lse = slot < 0 ? a_.lse : a_.branch_lse;
  if (lse != nullptr && pass[walk::kWritesLse] != 0) {
    slot < 0 ? kernels_.store_lse(&a_, s_, lse, a_.lse_stride_b, a_.lse_stride_h)
             : kernels_.store_lse(&a_, s_, lse + slot * a_.branch_lse_stride, a_.branch_lse_stride_b,
                                  a_.branch_lse_stride_h);
  }
  if (pass[walk::kOut] != 0) kernels_.finish_pass(&a_, s_, std::bit_cast<double>(pass[walk::kFactor]));
}

float* Walker::carried(i64 r, i64 pass, i64 chunk) const {
  const i64 heads = fact(kGroup), head = fact(kB) * a_.heads + fact(kH) + r % heads;
  const i64 words = at_.sum_columns + (at_.gradient != 0 ? 0 : 2);
  const i64 row = head * (a_.row_end - a_.row_begin) + row_in_memory(r) - x_begin - a_.row_begin;
  const i64 states = a_.chunks > 0 ? a_.chunk_slots * softmaxes_ : 1;
  return a_.carry + (row * states + chunk * softmaxes_ + pass) * words;
}

/// The f32 state of each row between phases, or of a chunk of its keys: [d_v] acc, m, l, or dQ. Coming in, other lanes
/// get the state of a row as well: it is never stored.
void Walker::carry(bool in, i64 pass) const {
  for (i64 r = in ? 0 : fact(kRowsFrom); r < (in ? at_.rows : fact(kRowsTo)); ++r) {
    float* const there = carried(r, pass);
    const auto copy = [&](i64 c, float& here) { in ? void(here = there[c]) : void(there[c] = here); };
    for (i64 c = 0; c < at_.sum_columns; ++c) copy(c, in_scratch<float>(at_.acc)[c * at_.rows + r]);
    if (at_.gradient != 0) continue;
    copy(at_.d_v, in_scratch<float>(at_.m)[r]);
    copy(at_.d_v + 1, in_scratch<float>(at_.l)[r]);
  }
}

/// A chunk's states join those at hand.
void Walker::fold(i64 pass, i64 chunk) const {
  float *const acc = in_scratch<float>(at_.acc), *const m = in_scratch<float>(at_.m),
               *const l = in_scratch<float>(at_.l);
  for (i64 r = 0; r < at_.rows; ++r) {
    const float* const its = carried(r, pass, chunk);
    const float its_m = its[at_.d_v], top = std::max(m[r], its_m);
    // Of rows without keys both are minus infinity.
    const float keep = m[r] == top ? 1 : std::exp2(m[r] - top), add = its_m == top ? 1 : std::exp2(its_m - top);
    m[r] = top;
    l[r] = its[at_.d_v + 1] * add + l[r] * keep;
    for (i64 c = 0; c < at_.d_v; ++c) {
      float& sum = acc[c * at_.rows + r];
      sum = its[c] * add + sum * keep;
    }
  }
}

/// What chunks of keys kept of the tile's rows, from left to right: O and LSE, or where there is no O the first's
/// state.
void Walker::merge_tile(const i64* head) const {
  if (softmaxes_ > 1)
    std::memset(in_scratch<float>(at_.out), 0, sizeof(float) * static_cast<std::size_t>(at_.v_pad * at_.rows));
  for (i64 p = 0; p < softmaxes_; ++p) {
    kernels_.fresh(&a_, s_);
    for (i64 chunk = 0; chunk < a_.chunks; ++chunk) fold(p, chunk);
    a_.o.data == nullptr ? carry(false, p) : finish_pass(table(head[walk::kPassesAt + p]));
  }
  if (a_.o.data != nullptr) kernels_.store_rows(&a_, s_);
}

}  // namespace weft::cpu
