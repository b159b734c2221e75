#pragma once

#include "compiler/ir/schedule.h"

#include <cstdint>

/// What a plan does at given sizes, counted and not run: what `explain` and `bench` print.
namespace weft::planner {

struct Work {
  /// Kept pairs, counted with multiplicity, over batch and heads: the useful work.
  double pairs = 0;
  /// Pairs that the kernel computes, masked and idle lanes included.
  double executed = 0;
  /// Blocks of tile_q rows × tile_k streamed rows: visited without a mask, with one, or not at all.
  double full_tiles = 0, partial_tiles = 0, empty_tiles = 0;
  /// On CPUs, of `executed` those in blocks with a mask; keys that tiles list for such blocks, in runs of which each
  /// row keeps an interval, or asking about one by one.
  double masked = 0, listed_in_runs = 0, listed_singly = 0;
  /// Row tiles that hold a row.
  double row_tiles = 0;
  /// Taken from some of the tiles: there are too many of them, or conditions on pairs say which keys they keep.
  bool sampled = false;

  Work& operator+=(const Work& other);
  Work scaled(double times) const;
};

/// Counts one launch. `inputs` are needed where a bound reads one. Cost: one step per row tile, less where the
/// pattern repeats (cells whose keys lie inside the sequence are counted once a period and head), and never more than
/// some ten thousand steps a head: longer sequences are sampled.
Work count_work(const ir::Plan& plan, const ir::Tables& tables, const ir::Shape& shape,
                const std::vector<ir::Tensor>& inputs);

/// Does what is kept differ between entries of the batch?
bool differs_by_entry(const ir::Plan& plan, const ir::Shape& shape);

/// Are there keys that a kernel must look at one by one, because no bound or stride says which are kept?
bool scans(const ir::Plan& plan, const ir::Phase& phase);

/// Known without visiting: does no row of 0 … n keep anything? False negatives are possible, false positives
/// are not. Cost: one step a range.
bool keeps_nothing(const ir::Plan& plan, const ir::Shape& shape, const std::vector<ir::Tensor>& inputs);

/// Bytes of Q, K, V, O and LSE, and of a backward pass their gradients, each touched once: the floor of memory traffic.
double tensor_bytes(const ir::Plan& plan, const ir::Shape& shape);

}  // namespace weft::planner
