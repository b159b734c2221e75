#pragma once

#include <weft/weft.h>

#include <string>
#include <vector>

namespace weft::test {

/// Packed sequences, which one launch computes together, on a GPU or where its text is emulated, both passes: where
/// bits are others than those of each sequence alone, in words; empty: nowhere.
std::string wrong_with_packed_sequences(const Engine& engine, const std::string& target,
                                        const std::vector<DType>& dtypes);

}  // namespace weft::test
