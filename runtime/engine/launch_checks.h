#pragma once

#include "compiler/base/result.h"
#include "compiler/ir/pattern.h"
#include "compiler/ir/tensor.h"

#include <weft/weft.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace weft {

namespace cpu {
struct Part;
}

/// One of several sequences of different lengths.
struct Sequence {
  std::int64_t b = 0;
  std::int64_t n_q = 0, n_k = 0;
  std::int64_t first_q = 0, first_k = 0;  ///< rows of the tensors where it begins, if they are packed

  /// Its own sizes, in a batch of `all`.
  ir::Shape shape(const ir::Shape& all) const;
};

struct KeyCut;

/// A launch whose sizes are known to be consistent. With `sequences`, the shape has the longest of each.
struct Launch {
  ir::Shape shape;
  std::vector<Sequence> sequences;  ///< empty: all entries of the batch are alike
  bool packed_q = false, packed_k = false;
  std::int64_t packed_rows = 0;      ///< of Q where it is packed: of all sequences, and between them
  std::vector<TensorView> inputs;    ///< in the order of Pattern::inputs
  std::vector<OutputView> lists;     ///< in the order of ir::chosen_sets; empty: none is wanted
  bool gradient = false;             ///< it is the backward pass, which reads O and LSE
  std::vector<OutputView> d_inputs;  ///< of the backward pass, in the order of Pattern::inputs; no data: not wanted
  bool sizes_in_memory = false;      ///< of the GPU: sequences are as long as any may be, and begin who knows where
  const KeyCut* cut = nullptr;       ///< key_cut.h; null: all keys of a row in one go
  const cpu::Part* part = nullptr;   ///< of the backward pass: what is computed here; null: all of it
  /// GPUs, of a part: makes of the largest |dO| of each entry and head of K and V, bits of f32, that of all parts.
  std::function<Status(std::span<std::uint32_t>)> agree_on_bounds = {};

  /// Sequences that checks have to look at: the first, where all are as long as any may be.
  std::span<const Sequence> kinds() const { return std::span(sequences).first(sizes_in_memory ? 1 : sequences.size()); }
  bool wants_d_inputs() const {
    return std::any_of(d_inputs.begin(), d_inputs.end(), [](const OutputView& view) { return view.data != nullptr; });
  }
};

/// What a launch must agree with.
struct LaunchContract {
  const ir::Pattern& pattern;
  DType dtype = DType::f32;  ///< of q, k, v and out
  bool any_float = false;    ///< the interpreter: any float type, as long as q, k, v and out agree
  bool branch_lse = false;   ///< may RunArgs::branch_lse be asked for?
  bool paged = false;        ///< do K and V come in pages?
  bool on_host = true;       ///< can the host read the tensors?
  bool gradient = false;     ///< is it the backward pass?
};

/// Are there as many threads as a launch, or a request for its workspace, may ask for?
Status check_threads(int threads);

/// The sizes of a launch that is still to come. User error where one is below 1, or offsets do not fit them.
Result<ir::Shape> check_shape(const RunShape& shape, std::span<const std::int64_t> offset);

/// Do sizes fit the pattern, and the counters that count them? What a launch says of its tensors' extents.
Status check_sizes(const ir::Pattern& pattern, const ir::Shape& shape);

/// Everything that can be wrong with a launch, before anything is written. The first finding is returned; it
/// names the tensor, the dimension, what was found and what was expected.
Result<Launch> check_launch(const LaunchContract& contract, const RunArgs& args);

}  // namespace weft
