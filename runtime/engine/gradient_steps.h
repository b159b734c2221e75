#pragma once

#include "runtime/engine/steps.h"

/// The steps of a backward pass on GPUs: the terms of queries, dQ by tiles of queries, dK and dV by tiles of keys, and
/// what inputs get. See docs/how-the-gpu-gradients-work.md.
namespace weft {

/// Room for them beside that of a forward launch.
Status add_gradient_room(const ir::Plan& plan, const Launch* launch, const ir::Shape& shape, RoomSizes& sizes);

/// Of one piece, as far as somebody wants them; `run_phase` runs a phase of the tiles of queries.
Status run_gradients(const Job& job, Piece& piece, const Room& room, const Machine& machine,
                     const std::function<Status(std::size_t phase)>& run_phase);

/// Of all pieces, which add to the same numbers.
Status run_input_gradients(const Job& job, std::vector<Piece>& pieces, const Room& room, const RunStep& run);

/// User error where a launch would have more tiles or rows, `most_of_head` a head, than 32 bits count.
Status check_tiles(const Piece& piece, std::int64_t most_of_head);

}  // namespace weft
