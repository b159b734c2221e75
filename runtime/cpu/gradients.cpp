#include "runtime/cpu/sums.h"
#include "runtime/cpu/walker.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

/// What the backward pass does otherwise: rows of dO come in, scores are measured from the LSE, keys bring rows of dK
/// and dV.
namespace weft::cpu {

using codegen::cpu::kB;
using codegen::cpu::kBranchesAt;
using codegen::cpu::kGroup;
using codegen::cpu::kH;
using codegen::cpu::kRowsFrom;
using codegen::cpu::kRowsTo;
using codegen::cpu::kWildRows;

namespace {

constexpr float kNever = std::numeric_limits<float>::infinity();

/// The branch whose LSE the pass has; the pattern's own has none.
i64 branch_of(const i64* pass) { return std::max<i64>(pass[walk::kLseSlot], 0); }

double factor_of(const i64* pass) { return std::bit_cast<double>(pass[walk::kFactor]); }

}  // namespace

/// The LSE of a row of the tile, and what it adds to the loss's gradient. Direct weights are measured from 0.
Walker::OfRow Walker::of_row(const i64* pass, i64 r) const {
  if (at_.direct != 0) return {.lse = 0, .d_lse = 0};
  const i64 b = fact(kB), h = fact(kH) + r % fact(kGroup), x = in_scratch<i64>(at_.x)[r] - x_begin;
  const i64 branch = branch_of(pass);
  const bool own = pass[walk::kLseSlot] < 0;
  const float* const lse =
      own ? a_.lse + b * a_.lse_stride_b + h * a_.lse_stride_h
          : a_.branch_lse + branch * a_.branch_lse_stride + b * a_.branch_lse_stride_b + h * a_.branch_lse_stride_h;
  OfRow out{.lse = lse[x], .d_lse = 0};
  if (a_.d_lse != nullptr)
    out.d_lse = a_.d_lse[branch * a_.d_lse_stride + b * a_.d_lse_stride_b + h * a_.d_lse_stride_h + x];
  return out;
}

/// Of a part of a backward pass: has the tile any row that is there?
bool Walker::takes_part() {
  if (sums_->part == nullptr) return true;
  const Part& part = *sums_->part;
  there_ = part.rows(fact(kB), fact(kH) / (a_.heads / a_.kv_heads)).data();
  bool any = false;
  others_ = true;
  for (i64 r = fact(kRowsFrom); r < fact(kRowsTo); ++r) {
    const auto x = static_cast<std::size_t>(in_scratch<i64>(at_.x)[r]);
    any = any || there_[x] != 0;
    others_ = others_ && part.own[x] == 0;
  }
  return any;
}

/// Is the row of the tile one that the launch computes, and of a part one that is there?
bool Walker::is_there(i64 r) const {
  return r >= fact(kRowsFrom) && r < fact(kRowsTo) && (there_ == nullptr || there_[in_scratch<i64>(at_.x)[r]] != 0);
}

/// Rows of Q, dO, O and dQ. Rows that the launch does not compute, and lanes behind the last, are zeros and have no
/// place in dQ. So are rows that keep nothing, where there is one LSE: whatever stands there then reaches no product.
void Walker::find_gradient_rows(const i64* pass, bool one_pass) const {
  const QueryRows q = query_rows(a_.q), d_o = query_rows(a_.d_o), o = query_rows(a_.o), d_q = query_rows(a_.d_q);
  const i64 zeros = reinterpret_cast<i64>(in_scratch<std::byte>(at_.zero_row));
  const i64 nowhere = reinterpret_cast<i64>(in_scratch<std::byte>(at_.idle_row));
  const i64 heads = fact(kGroup);
  for (i64 r = 0; r < at_.rows; ++r) {
    const bool present = is_there(r);
    const bool read = present && !(one_pass && of_row(pass, r).lse == -kNever);
    const i64 x = in_scratch<i64>(at_.x)[r], head = r % heads;
    in_scratch<i64>(at_.q_row)[r] = read ? q.at(x, head) : zeros;
    in_scratch<i64>(at_.d_o_row)[r] = read ? d_o.at(x, head) : zeros;
    in_scratch<i64>(at_.out_row)[r] = read && a_.o.data != nullptr ? o.at(x, head) : zeros;
    const bool own = present && (sums_->part == nullptr || sums_->part->own[static_cast<std::size_t>(x)] != 0);
    in_scratch<i64>(at_.o_row)[r] = own && a_.d_q.data != nullptr ? d_q.at(x, head) : nowhere;
  }
}

void Walker::load_gradient_rows(const i64* pass, bool one_pass) const {
  find_gradient_rows(pass, one_pass);
  kernels_.load_q(&a_, s_);
  fact(kWildRows) = kernels_.load_rows(&a_, s_);
}

/// What scores are measured from, in base 2. The pass's share of O is part of it, and so of every weight. No score is
/// as large as what rows without keys are measured from: their weights are 0.
void Walker::measure_from(const i64* pass) const {
  constexpr double kLog2E = 1.4426950408889634;
  const double share = std::log2(factor_of(pass));
  for (i64 r = 0; r < at_.rows; ++r) {
    float& from = in_scratch<float>(at_.top)[r];
    from = kNever;
    if (!is_there(r)) continue;
    const float lse = of_row(pass, r).lse;
    if (lse == -kNever) continue;
    from = lse == kNever ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(lse * kLog2E - share);
  }
}

/// rowsum(dP * P) - dLSE, of weights that have no share of O in them.
void Walker::find_deltas(const i64* pass) const {
  const auto factor = static_cast<float>(factor_of(pass));
  for (i64 r = 0; r < at_.rows; ++r) {
    const bool kept = is_there(r) && in_scratch<float>(at_.top)[r] != kNever;
    in_scratch<float>(at_.delta)[r] = kept ? (in_scratch<float>(at_.row_dot)[r] - of_row(pass, r).d_lse) / factor : 0;
  }
}

/// The sink's weight has no value: what rows give to it is P (0 - delta).
void Walker::add_sinks(const i64* pass) const {
  if (at_.sink_elements == 0) return;
  const i64 heads = fact(kGroup);
  for (i64 head = 0; head < heads; ++head) {
    const i64 h = fact(kH) + head;
    const double sink = kernels_.sink_of(&a_, s_, h);
    double sum = 0;
    for (i64 r = fact(kRowsFrom); r < fact(kRowsTo); ++r) {
      if (!is_there(r)) continue;
      const float lse = of_row(pass, r).lse;
      if (r % heads == head && lse != -kNever) sum -= std::exp(sink - lse) * in_scratch<float>(at_.delta)[r];
    }
    if (sum != 0) kernels_.add_sink(&a_, s_, h, static_cast<float>(sum));
  }
}

/// One softmax over the tile's keys. With several, rowsum(dO * O) has the share of all of them, and each finds its own
/// by a walk of two products.
void Walker::run_gradient_pass(const i64* pass, bool one_pass) {
  measure_from(pass);
  if (!one_pass || at_.branches > 0) {
    std::fill_n(in_scratch<float>(at_.row_dot), at_.rows, 0.0F);
    clear_branches();
    only_delta_ = true;
    cut_count_ = walk::make_spans(*this, rows_, pass, cuts_);
    run_pass(pass);
    only_delta_ = false;
    find_branch_deltas();
  }
  find_deltas(pass);
  cut_count_ = walk::make_spans(*this, rows_, pass, cuts_);
  run_pass(pass);
}

void Walker::run_gradient_tile(const i64* head, i64 passes) {
  const auto pass = [&](i64 number) { return table(head[walk::kPassesAt + number]); };
  load_gradient_rows(pass(0), passes == 1);
  kernels_.fresh(&a_, s_);
  for (i64 p = 0; p < passes; ++p) run_gradient_pass(pass(p), passes == 1);
  add_sinks(pass(0));
  kernels_.scale_sums(&a_, s_);
  kernels_.store_rows(&a_, s_);
}

// ---------------------------------------------------------------- branches that mix with constant weights

void Walker::clear_branches() const {
  for (const i64 at : {at_.branch_dot, at_.branch_total})
    std::fill_n(in_scratch<float>(at), i64{at_.branches} * at_.rows, 0.0F);
}

/// What a branch's O gives to each of its scores is measured from: its mean of dP.
void Walker::find_branch_deltas() const {
  const float *const dot = in_scratch<float>(at_.branch_dot), *const total = in_scratch<float>(at_.branch_total);
  float* const delta = in_scratch<float>(at_.branch_delta);
  for (i64 i = 0; i < i64{at_.branches} * at_.rows; ++i)
    delta[i] = total[i] == 0 && dot[i] == 0 ? 0 : dot[i] / total[i];
}

/// The masks of one branch from place `at` on: body(first byte), vector by vector.
template <typename Body>
void Walker::each_mask(const Block& block, i64 branch, i64 at, const Body& body) const {
  const i64 vectors = at_.rows / at_.lanes;
  for (i64 v = 0; v < vectors; ++v)
    body(block.branches + (branch * vectors + v) * at_.mask_row + at * at_.mask_bytes, v);
}

void Walker::in_no_branch(const Block& block, i64 at, i64 take) const {
  for (i64 branch = 0; branch < at_.branches; ++branch) {
    each_mask(block, branch, at,
              [&](std::byte* to, i64) { std::memset(to, 0, static_cast<std::size_t>(take * at_.mask_bytes)); });
  }
}

/// Every row keeps every key at places from `at` on, in steps, in the branch.
void Walker::in_branch(const Block& block, i64 branch, i64 at, i64 step, i64 end) const {
  if (at_.branches == 0) return;
  each_mask(block, branch, 0, [&](std::byte* to, i64) {
    for (i64 i = at; i < end; i += step)
      std::memset(to + i * at_.mask_bytes, 0xFF, static_cast<std::size_t>(at_.mask_bytes));
  });
}

/// Rows keep keys in one branch alone, as the kernel has found.
void Walker::kept_in_branch(const Block& block, i64 branch, i64 at, i64 take) const {
  if (at_.branches == 0) return;
  each_mask(block, branch, at, [&](std::byte* to, i64 v) {
    std::memcpy(to, in_scratch<std::byte>(at_.kept + v * at_.mask_row + at * at_.mask_bytes),
                static_cast<std::size_t>(take * at_.mask_bytes));
  });
}

/// Where keys of a part's others get something, it is lost; where only keys of its own count, they are marked.
void Walker::put_sums(const Block& block, i64 at, i64 y, i64 rate, i64 take) const {
  const auto row_of = [&](i64 key) -> float* {
    if (sums_->part == nullptr || sums_->part->own[static_cast<std::size_t>(key)] != 0) return sums_->keys.row(key);
    return others_ ? nullptr : sums_->keys.lost_row();
  };
  for (i64 i = 0; i < take; ++i) block.sums[at + i] = reinterpret_cast<i64>(row_of(y + i * rate));
}

/// Of a block of a tile whose rows are all somebody else's: keys of others go, and those behind them come in their
/// place. What each key gets does not depend on where it stands.
i64 Walker::drop_keys_of_others(const Block& block, i64 count, bool full) const {
  i64 left = 0;
  const auto move_masks = [&](std::byte* first, i64 from) {
    std::memmove(first + left * at_.mask_bytes, first + from * at_.mask_bytes,
                 static_cast<std::size_t>(at_.mask_bytes));
  };
  for (i64 i = 0; i < count; ++i) {
    if (block.sums[i] == 0) continue;
    for (i64* const of : {block.keys, block.values, block.sums}) of[left] = of[i];
    if (at_.positions != 0) block.positions[left] = block.positions[i];
    block.weights[left] = block.weights[i];
    for (i64 branch = 0; branch < at_.branches; ++branch)
      each_mask(block, branch, 0, [&](std::byte* masks, i64) { move_masks(masks, i); });
    for (i64 v = 0; !full && v < at_.rows / at_.lanes; ++v)
      move_masks(in_scratch<std::byte>(at_.kept + v * at_.mask_row), i);
    if (!full && at_.counts != 0)
      std::copy_n(in_scratch<float>(at_.weight) + i * at_.rows, at_.rows,
                  in_scratch<float>(at_.weight) + left * at_.rows);
    ++left;
  }
  if (left == 0) return 0;
  const i64 end = pad(block, left, full && !narrow_ ? at_.micro_k : at_.sub_k);
  if (!full && left < end) keep_none(left);
  return end;
}

void Walker::run_gradient_block(int number, i64 count, bool full) {
  if (others_ && !only_delta_) count = drop_keys_of_others(blocks_[number], count, full);
  if (count == 0) return;
  const Block &now = blocks_[number], &next = blocks_[1 - number];
  const i64 only_delta = only_delta_ ? 1 : 0;
  fact(kBranchesAt) = now.branches - in_scratch<std::byte>(0);
  if (!full || narrow_) {
    kernels_.gradient_vectors(&a_, s_, now.keys, now.values, now.weights, count, next.keys, next.values, now.positions,
                              now.sums, only_delta, full ? 1 : 0);
  } else {
    kernels_.gradient_block(&a_, s_, now.keys, now.values, now.weights, count, next.keys, next.values, now.positions,
                            now.sums, next.sums, only_delta);
  }
}

/// Where the kernel adds up gradients of inputs, and how far it got.
void Walker::lend_inputs() const {
  for (i64 i = 0; i < at_.elements; ++i) {
    auto& of = in_scratch<codegen::cpu::ElementSums>(at_.input_sums)[i];
    const auto& sums = sums_->inputs[static_cast<std::size_t>(kernels_.input_of(&a_, s_, i))];
    of = {.data = sums ? sums->data() : nullptr, .first = INT64_MAX, .last = -1};
  }
}

void Walker::take_back_inputs() const {
  for (i64 i = 0; i < at_.elements; ++i) {
    const auto& of = in_scratch<codegen::cpu::ElementSums>(at_.input_sums)[i];
    const auto& sums = sums_->inputs[static_cast<std::size_t>(kernels_.input_of(&a_, s_, i))];
    if (!sums) continue;
    sums->first = std::min(sums->first, of.first);
    sums->last = std::max(sums->last, of.last);
  }
}

}  // namespace weft::cpu
