#pragma once

/// What a block of threads keeps in shared memory of a GPU, in bytes. Hosts ask before they choose tiles and launch;
/// device headers lay their structures out by the same numbers, and assert the sums.
namespace weft::walk {

constexpr int round_up(int n, int step) { return (n + step - 1) / step * step; }
constexpr int larger(int a, int b) { return a > b ? a : b; }

/// A row of 16-bit elements as matrix instructions want it: see codegen/cuda/device/mma_rows.cuh.
constexpr int bytes_apart(int columns, bool by_groups) { return round_up(columns, 16) * 2 + (by_groups ? 0 : 16); }

/// Of a row tile and the keys that stand beside it. A kernel's class sets what it alone has: see on_plain_lanes and
/// by_matrices.
struct BlockShape {
  int rows = 0, keys = 0, threads = 0;  ///< of a tile; computed at a time; of the block
  int dim = 0, dim_v = 0;               ///< columns of Q and K, of V …
  int summed = 0;                       ///< … and of what a row sums up: O, dQ, or the wider of dK and dV
  bool gradient = false, transposed = false;
  int depth = 0, staged = 0;  ///< plain lanes: columns of Q and K, and rows of V, of a chunk
  int stages = 0;             ///< matrix instructions: blocks of keys that there is room for
  bool by_groups = false;     ///< they are those of four warps
  int tries = 1, ahead = 0;   ///< keys that a thread tries at once; blocks of keys known ahead
  bool lists_pages = false;   ///< the list of keys says in which page each lies
  bool counts = false;        ///< several branches may keep a pair
  bool shares_tiles = false;  ///< heads that share K and V may stand in one tile
  int units = 0;              ///< of keys in a block that may be passed over; 0 where none are
  bool by_spans = false;      ///< the keys that rows keep by a value may follow each other
  bool by_values = false;     ///< rows compare a value of the key
  int conditions = 0, inputs = 0;

  constexpr int warps() const { return threads / 32; }
  /// Matrix instructions: of a block of keys, one for each of the warps that share a tile of 16 rows.
  constexpr int key_parts() const { return larger(1, 16 * warps() / rows); }
  constexpr bool matrices() const { return stages > 0; }
  /// Gradients read two numbers of each query: see codegen/cuda/device/query_terms.cuh.
  constexpr int query_bytes() const { return 8 * (transposed ? larger(1, stages) * keys : rows); }

  // ---- plain lanes

  /// Of values as staged: warps that share rows have as many each.
  constexpr int columns() const { return round_up(summed, 8 * (threads / rows)); }
  /// Floats of one of two chunks: columns of rows and keys, or rows of values.
  constexpr int chunk_floats() const { return larger(depth * (rows + keys), staged * columns()); }

  // ---- matrix instructions

  constexpr int row_bytes() const { return bytes_apart(dim, by_groups); }
  constexpr int value_bytes() const { return bytes_apart(dim_v, by_groups); }
  constexpr int tile_bytes() const { return rows * (row_bytes() + (gradient ? value_bytes() : 0)); }
  constexpr int stage_bytes() const { return keys * (row_bytes() + value_bytes()); }
  constexpr int staged_bytes() const { return tile_bytes() + stages * stage_bytes(); }
  /// Results on their way out stand where operands did, 8 floats farther apart than they are wide, so that a half
  /// warp's pairs meet all banks. What would take more room than everything else goes in two parts.
  constexpr int result_parts() const { return rows * (round_up(summed, 16) + 8) * 4 > staged_bytes() ? 2 : 1; }
  constexpr int result_floats() const { return round_up(summed, 16) / result_parts() + 8; }
  /// Where warps share rows, each hands on what it found: 16 bytes a lane for each 8 columns, and as many of
  /// maxima and sums. See codegen/cuda/device/mma_results.cuh.
  constexpr int handed_bytes() const {
    return key_parts() > 1 ? key_parts() * (round_up(summed, 16) / 8 + 1) * 32 * 16 : 0;
  }
  constexpr int operand_bytes() const {
    return larger(larger(staged_bytes(), handed_bytes()), rows * result_floats() * 4);
  }

  /// Of struct Meets, with groups of 16 rows.
  constexpr int meets_bytes() const {
    const bool asks = conditions > 0;
    const int groups = rows / 16, key_warps = (keys + 31) / 32;
    const int of_groups = 16 * (groups + (by_values ? groups : 1)) + 4 * (asks ? larger(groups, 4) : 4);
    const int of_warps = 16 * (key_warps + (asks ? key_warps : 1));
    const int of_runs = asks ? rows + keys : 2 * 4, of_values = by_values ? 2 * rows + keys : 3 * 4;
    return of_groups + of_warps + 4 * (2 * rows + keys + of_runs + of_values);
  }

  // ---- both

  /// Of struct WorkingMemory, which each class has its own of: simt_memory.cuh, mma_memory.cuh and those of gradients.
  constexpr int working_bytes() const {
    constexpr int kSources = 2 * 32, kView = 16, kPointer = 8;
    if (matrices() && gradient) return kSources + round_up(meets_bytes(), 16) + query_bytes() + 16 + operand_bytes();
    if (matrices()) return kSources + meets_bytes() + operand_bytes();
    const int floats = 32 * threads + 2 * chunk_floats() + warps();
    if (gradient) return round_up(4 * floats + query_bytes() + 2 * kPointer * keys + 4 * kView + 4 * 4, 16);
    return 4 * (floats + keys + rows + 8 * threads) + kPointer * keys + 3 * kView + 16;
  }

  /// Places on the list of keys, a ring of whole blocks: the one at hand, those known ahead, and what is tried at once.
  constexpr int listed_keys() const { return ((tries * threads + keys - 1) / keys + 1 + ahead) * keys; }

  /// Of struct Shared: codegen/cuda/device/block.cuh. Behind it stand terms, kTermBytes each.
  constexpr int shared_bytes() const {
    constexpr int kTile = 48 + 64 + 8 + 8;  // struct Walk, struct Tile, the pass and two numbers
    const int list = 4 * (listed_keys() * (1 + (counts ? 1 : 0) + (lists_pages ? 2 : 0)) +
                          4 * ((counts ? 0 : 1) + (lists_pages ? 0 : 2)));
    const int of_rows = rows * (8 + 4) + (shares_tiles ? rows : 4);
    const int of_warps = 4 * warps() + 4 * larger(1, units * warps());
    return round_up(working_bytes() + kTile + of_rows + list + 4 * larger(1, inputs) + of_warps +
                        (by_spans ? 128 : 64) * larger(1, conditions),
                    16);
  }
};

/// Of struct Term and its share of struct Lists.
constexpr int kTermBytes = 144;

constexpr BlockShape on_plain_lanes(BlockShape shape, int depth, int staged) {
  shape.depth = depth;
  shape.staged = staged;
  return shape;
}

constexpr BlockShape by_matrices(BlockShape shape, int stages, bool by_groups) {
  shape.stages = stages;
  shape.by_groups = by_groups;
  return shape;
}

}  // namespace weft::walk
