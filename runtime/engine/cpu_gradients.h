#pragma once

#include "compiler/base/result.h"
#include "runtime/cpu/sums.h"
#include "runtime/engine/arguments.h"
#include "runtime/engine/workers.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

/// Who adds up dK, dV and the gradients of inputs on CPUs, and in which order. The rows of a (batch entry, head) are
/// cut into chunks of consecutive tiles, by the pattern and the sequence's length alone. A *unit* of work, the tiles of
/// one chunk, has sums of its own (runtime/cpu/sums.h), which join those of the units before it from the first to the
/// last: so bits do not depend on threads. A thread whose turn has not come leaves its sums and goes on.
namespace weft {

/// Tiles of one unit: enough that joining its sums costs little, few enough that threads find work.
std::int64_t tiles_of_unit(std::int64_t tiles_of_sequence);

/// What all units of a launch share.
struct BackwardJob {
  const ir::Plan& plan;
  const codegen::cpu::MicroKernels& kernels;
  const HeadTables& tables;
  const Workers& workers;
  cpu::PagePool& pool;
  const Threads& threads;
  const cpu::Part* part = nullptr;  ///< null: all of it is computed here
};

/// Gradients of inputs, summed up over the pieces of a launch; by the input's number, null where not wanted.
using InputGradients = std::vector<std::unique_ptr<cpu::InputSums>>;
InputGradients make_input_gradients(const Launch& launch);
void store_input_gradients(const Launch& launch, const InputGradients& sums);

/// Of each key/value head of a piece, from its first phase to its last.
using KeyGradients = std::vector<std::optional<cpu::KeySums>>;

/// One phase of a piece: writes dQ, and with the last one dK and dV, as far as they are wanted. Throws std::bad_alloc.
void run_backward(const BackwardJob& job, const Turn& turn, KeyGradients& owners, InputGradients& inputs);

/// Where packed sequences leave rows between them: these have no gradient.
void clear_gradients(const RunArgs& args);

}  // namespace weft
