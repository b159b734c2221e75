#pragma once

#include "codegen/args.h"
#include "compiler/ir/plan.h"
#include "compiler/ir/tensor.h"
#include "runtime/engine/arguments.h"
#include "runtime/engine/workers.h"

#include <cstdint>
#include <vector>

/// What is found out before the attention: the lists of chosen key blocks that `random` and `top` make (semantics
/// sections 7 and 8), and the summaries by which tiles pass over keys.
namespace weft {

/// The shape of one list for one launch: `[batches, heads, rows, count]`, i32. Of `meets` a number is two bits, of a
/// block of rows and one of keys; of `spans` there is one row, of two numbers a block of keys and then two a block of
/// those. Of `choosers` a row is 32 times rows_of_bit rows of blocks that chose, and each block of keys has a bit for
/// rows_of_bit of them: some chose it.
struct ListShape {
  std::int64_t batches = 1, heads = 1;  ///< 1 where all have the same
  std::int64_t first_row = 0;           ///< number of the first block of rows
  std::int64_t rows = 0;
  std::int64_t most_rows = 1;    ///< wherever positions begin: a workspace is asked for before offsets are known
  std::int64_t blocks = 0;       ///< of keys
  std::int64_t count = 0;        ///< places for each row
  std::int64_t units = 0;        ///< of work for each (batch entry, head)
  std::int64_t rows_of_bit = 0;  ///< of choosers, a power of two; 0 for others

  std::int64_t elements() const { return batches * heads * rows * count; }
  std::int64_t most_elements() const { return batches * heads * most_rows * count; }
};
ListShape list_shape(const ir::Plan& plan, const ir::List& list, const ir::Shape& shape);
/// The same of a list of chosen keys, which depends on no plan.
ListShape chosen_shape(const ir::List& list, const ir::Shape& shape);

/// Bytes that the lists of a launch take. User error where that overflows.
Result<std::size_t> list_bytes(const ir::Plan& plan, const ir::Shape& shape);

/// Points `block.lists` into `memory`, which has `list_bytes`.
void place_lists(const ir::Plan& plan, const ir::Shape& shape, std::int32_t* memory, weft_args& block);

/// Bytes of scratch that the prepass on a GPU takes beside the lists: means of key blocks, scores of what was chosen.
std::size_t list_scratch_bytes(const ir::Plan& plan, const ir::Shape& shape);

/// Runs a step that fills a list of a piece, whose lists are placed, or pools keys for it: the prepass of
/// codegen/cuda/lists.h on a GPU. User error where that would have more blocks of threads than a launch can.
Status run_list(const ir::Plan& plan, const ir::Step& step, const Piece& piece, void* scratch, const RunTurn& run);

/// Fills list number `list`, of chosen keys, on the host.
void fill_list(const ir::Plan& plan, std::size_t list, const Piece& piece, const Workers& workers, int threads);

}  // namespace weft
