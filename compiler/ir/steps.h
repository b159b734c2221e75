#pragma once

#include "compiler/ir/few_rows.h"
#include "compiler/ir/plan.h"

#include <cstdint>
#include <string>
#include <vector>

/// What a launch of a plan runs, one kernel after another, each with its grid: who launches, who loads kernels and who
/// explains a plan read it here. It follows from the plan, whose text shows it.
namespace weft::ir {

/// Of a block that fills lists.
inline constexpr int kPrepassThreads = 128;
/// Rows of blocks of which such a block on a GPU chooses the best keys.
inline constexpr int kListedRows = 8;

/// Of a packed gradient, which a block looks at for such as no sequence has.
inline constexpr int kClearedRows = 64;

/// What a launch counts, of the batch or of the packed sequence that it computes.
struct Counts {
  std::int64_t heads = 1;        ///< batch x query heads
  std::int64_t kv_heads = 1;     ///< batch x heads of K and V
  std::int64_t head_groups = 1;  ///< heads, those whose rows stand in one tile as one
  std::int64_t tiles = 1;        ///< row tiles of a head, or of a head of K and V where keys are rows
  std::int64_t shares = 1;       ///< softmaxes x chunks of keys of a tile where keys are cut, else 1
  std::int64_t rows = 1;         ///< queries of a head
  std::int64_t packed_rows = 1;  ///< of packed queries or keys, of which there are more
  std::int64_t key_blocks = 1;   ///< of a list
  std::int64_t list_heads = 1;   ///< batch entries x heads that a list tells apart
  std::int64_t list_units = 1;   ///< of work for each of them: rows of blocks, or stretches of keys
  std::int64_t elements = 1;     ///< of an input
};

/// Blocks of threads of a step, on a CPU its units of work: the product of some counts, over what one block does.
struct Grid {
  std::vector<std::int64_t Counts::*> product;
  std::int64_t of_block = 1;
  std::int64_t blocks(const Counts& counts) const;
};

struct Step {
  enum class Kernel {
    attend,        ///< tiles of rows, of gradients dQ
    prepass,       ///< fills a list
    merge,         ///< chunks of keys, each row's from left to right
    terms,         ///< of gradients: what is known of a query before its pairs
    transposed,    ///< … dK and dV, by tiles of keys
    inputs,        ///< … what pairs add for inputs
    input_tables,  ///< … what begins and ends these sums
    sizes,         ///< finds out what each entry of the batch is
    zeros,         ///< gradients of rows that no entry has
  };
  static constexpr std::size_t kKernels = 9;
  /// What it does, where a kernel does several things. Those of inputs in the order of
  /// codegen/cuda/device/input_sums.cuh.
  enum class Part { all, pool, clear, measure, add, result };
  /// Which launches run it.
  enum class When {
    always,
    few_queries,   ///< CPUs: of at most Choices::few_q; GPUs: those that need more than the text of many has
    many_queries,  ///< others
    decoding,      ///< GPUs: of at most queries_of_decoding()
    keys_are_cut,
    d_queries,        ///< dQ is wanted, or deltas, which its pass finds
    d_keys,           ///< dK or dV is wanted
    d_inputs,         ///< the gradient of an input is wanted
    sizes_in_memory,  ///< of the GPU
  };

  Kernel kernel = Kernel::attend;
  Part part = Part::all;
  Regime text = Regime::many_queries;  ///< that the kernel stands in, and whose tables it reads
  int number = 0;                      ///< of the phase, or of the list
  When when = When::always;
  Grid grid;
  int threads = 1;  ///< of a block
  /// The query heads that share keys take turns, each by a launch of its own, because each groups keys into tiles in
  /// its own way.
  bool head_turns = false;
};

/// In the order of a launch. Those of inputs come behind all others of all packed sequences, which add to the same
/// numbers.
std::vector<Step> steps_of(const Plan& plan);

/// `attend phase 0 blocks head_groups*tiles*shares threads 128`
std::string print(const Step& step);
const char* to_string(const Step& step);  ///< what it does: `attend`, `pool`, …

}  // namespace weft::ir
