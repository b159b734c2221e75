#pragma once

#include <weft/ring.h>

#include <cstddef>
#include <string>
#include <vector>

namespace weft::test {

/// Of a rank so much memory that keys come in rounds of 64.
inline constexpr std::size_t kMemoryOfRounds = 4 * 64 * 2 * 2 * (32 + 32) * 2;

/// Two ranks of a ring whose rows lie on one GPU, `target`, with each of the options, both passes: what differs from
/// one launch, of rings that cut keys by more than rounding, or goes wrong, in words; empty: nothing.
std::string wrong_with_gpu_rings(const Engine& engine, const std::string& target,
                                 const std::vector<RingOptions>& options);

}  // namespace weft::test
