#pragma once

#include <weft/ring.h>

#include <string>
#include <vector>

namespace weft::test {

/// Two ranks of a ring whose rows lie on one GPU, `target`, with each of the options, both passes: what differs from
/// one launch, or goes wrong, in words; empty: nothing.
std::string wrong_with_gpu_rings(const Engine& engine, const std::string& target,
                                 const std::vector<RingOptions>& options);

/// Likewise of queries that go to the keys, and of rounds of keys: what differs by more than rounding.
std::string wrong_with_gpu_rings_that_cut(const Engine& engine, const std::string& target);

}  // namespace weft::test
