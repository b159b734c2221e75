#pragma once

#include <array>
#include <cstdint>
#include <vector>

/// The counter-based random numbers of semantics section 7: a value depends on what it is for, never
/// on the order of evaluation.
namespace weft::ir {

/// What the ten rounds of Philox4x32-10 take from the key, two words each.
std::array<std::uint32_t, 20> philox_round_keys(std::uint64_t seed);

/// Philox4x32-10: four words from a counter and a 64-bit key (low word first).
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::uint64_t seed);

/// A weight is dropped when its word is below this.
std::uint64_t dropout_threshold(double p);
bool dropped(std::uint64_t seed, std::uint64_t threshold, std::int64_t b, std::int64_t h, std::int64_t q,
             std::int64_t k);

/// The keys of `random(count, seed)` for one row: distinct, ascending, all `n` of them where there
/// are not more than `count`.
std::vector<std::int64_t> sample_keys(std::int64_t count, std::int64_t n, std::uint64_t seed, std::int64_t h,
                                      std::int64_t q);

}  // namespace weft::ir
