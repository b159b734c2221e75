#pragma once

#include "runtime/engine/steps.h"

#include <span>
#include <vector>

/// The steps of a backward pass on GPUs: the terms of queries, dQ by tiles of queries, dK and dV by tiles of keys, and
/// what inputs get. See docs/how-the-gpu-gradients-work.md.
namespace weft {

/// Room for them beside that of a forward launch.
Status add_gradient_room(const ir::Plan& plan, const Launch* launch, const ir::Shape& shape, RoomSizes& sizes);

using Steps = std::span<const ir::Step>;

/// Where in the room terms of a piece's queries stand.
void place_terms(const Job& job, const Piece& piece, const Room& room, weft_args& block);

/// Rows of packed gradients that are no sequence's, which stand before the first and behind the last: no kernel asks
/// for these what conditions read.
Status clear_rows_of_nobody(const Launch& launch, const RunArgs& args, const Machine& machine);

/// Terms of the queries of one piece.
Status run_terms(const Job& job, const ir::Step& step, Piece& piece, const Machine& machine);

/// dK and dV of one piece: all phases of its tiles of keys.
Status run_keys(const Job& job, Steps phases, Piece& piece, const Room& room, const RunTurn& run);

/// Gradients of inputs, of all pieces, which add to the same numbers.
Status run_input_gradients(const Job& job, Steps steps, std::vector<Piece>& pieces, const Room& room,
                           const RunTurn& run);

/// User error where a launch would have more tiles or rows, `most_of_head` a head, than 32 bits count.
Status check_tiles(const Piece& piece, std::int64_t most_of_head);

}  // namespace weft
