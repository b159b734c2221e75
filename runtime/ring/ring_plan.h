#pragma once

#include "compiler/ring/portions.h"
#include "compiler/ring/rounds.h"
#include "runtime/engine/kernel_state.h"
#include "runtime/ring/backward.h"
#include "runtime/ring/exchange.h"
#include "runtime/ring/moved_queries.h"
#include "runtime/ring/rounds.h"
#include "runtime/ring/transfers.h"

#include <optional>

namespace weft {

struct Ring::State {
  State(std::unique_ptr<Transport> transport, const RingOptions& options_of)
      : link(std::move(transport), options_of.timeout_ms), options(options_of) {}
  Link link;
  RingOptions options;
};

/// What changes places, and where the arguments have it: read, or written by this pass or the forward.
struct Changing {
  Exchange::Tensor tensor;
  TensorView RingArgs::*operand = nullptr;
  OutputView RingArgs::*output = nullptr;
};
struct Changes {
  std::vector<Changing> before = {}, behind = {};
};

struct RingPlan::State {
  std::shared_ptr<Ring::State> ring;
  Kernel kernel;
  ir::Shape shape;
  DType dtype = DType::f32;
  ring::Split split = {};
  ir::Shape inner = {};  ///< the shape with the heads that this rank computes
  std::vector<std::vector<TokenRun>> owned = {};
  RingSummary summary = {};
  RingShare share = {};
  std::shared_ptr<KernelMemory> memory = {}, messages = {};  ///< of tensors, and of what travels
  // Of a forward pass.
  std::vector<ring::Portion> portions = {};
  std::optional<Arena> arena = {};  ///< K, V
  std::optional<Transfers> transfers = {};
  std::optional<MovedQueries> moved = {};  ///< where queries go to the keys
  std::optional<Rounds> rounds = {};       ///< instead of all three, where not all keys fit the memory
  std::optional<Backward> backward = {};   ///< of a backward pass
  std::optional<Exchange> exchange = {};   ///< where heads change places …
  Changes changes = {};                    ///< … and of what

  int rank() const { return ring->link.rank(); }
  /// The rows that it computes; where heads change places, those of its group.
  const ring::Runs& computed() const { return split.computed(rank()); }
  bool computes_one_run() const { return computed().size() == 1 && computed()[0].stride == 1; }
  /// May K and V be written into the ring's memory?
  bool lends() const { return arena && !exchange && computes_one_run(); }
  bool reads_host_memory() const { return kernel.state().executor->reads_host_memory(); }
  HeadSlice head_slice() const {
    if (!split.changes_heads()) return {};
    return {.first = split.heads(rank()).first * shape.group(), .of = shape.heads};
  }
};

/// Everything of a plan on this rank. Collective.
Result<std::unique_ptr<RingPlan::State>> make_ring_plan(std::shared_ptr<Ring::State> ring, const Kernel& kernel,
                                                        const RingShape& shape, std::span<const NamedInput> inputs);

}  // namespace weft
