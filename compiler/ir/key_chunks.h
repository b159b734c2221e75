#pragma once

#include "compiler/ir/plan.h"
#include "compiler/ir/tensor.h"
#include "compiler/walk/chunks.h"

#include <cstdint>

/// How a launch cuts the keys of its rows. A few rows with many keys, as in decoding or a step of a ring, would keep a
/// few SMs busy and leave the others idle; so blocks of threads take a chunk of the keys each, and what they have of a
/// row is merged from left to right (semantics, section 10).
namespace weft::ir {

using KeyChunks = walk::chunks::Chunks;

/// For the rows of one batch entry. Depends on the plan, on n_q and n_k and on the entry's position: never on the batch
/// or on heads, so that they do not show in the bits of a row.
KeyChunks key_chunks(const Plan& plan, const Shape& shape, std::int64_t b);

/// Do kernels know of launches that compute some chunks of a row's keys alone, which others compute the rest of? Those
/// of CPUs do. User error that says why not.
Status check_key_cuts(const Plan& plan);

/// The most chunks that launches with so many rows and keys have, wherever the rows are.
std::int64_t most_key_chunks(const Plan& plan, std::int64_t n_q, std::int64_t n_k);

/// … of launches with so many rows or fewer.
std::int64_t most_key_chunks_up_to(const Plan& plan, std::int64_t n_q, std::int64_t n_k);

/// Blocks of threads for a tile of rows: one for each softmax of a chunk, where keys are cut.
std::int64_t shares_of_tile(const Plan& plan, std::int64_t chunks);

}  // namespace weft::ir
