#pragma once

#include "compiler/ring/choose.h"
#include "compiler/ring/portions.h"
#include "runtime/engine/kernel_state.h"
#include "runtime/ring/backward.h"
#include "runtime/ring/transfers.h"

#include <optional>

namespace weft {

struct Ring::State {
  State(std::unique_ptr<Transport> transport, const RingOptions& options_of)
      : link(std::move(transport), options_of.timeout_ms), options(options_of) {}
  Link link;
  RingOptions options;
};

struct RingPlan::State {
  std::shared_ptr<Ring::State> ring;
  Kernel kernel;
  ir::Shape shape;
  DType dtype = DType::f32;
  ring::OwnerMap map = {};
  std::vector<std::vector<TokenRun>> owned = {};
  RingSummary summary = {};
  RingShare share = {};
  // Of a forward pass.
  std::vector<ring::Portion> portions = {};
  std::optional<Arena> arena = {};  ///< K, V
  std::optional<Transfers> transfers = {};
  std::optional<Backward> backward = {};  ///< of a backward pass

  int rank() const { return ring->link.rank(); }
  const ring::Runs& own() const { return map.runs[static_cast<std::size_t>(rank())]; }
  bool owns_one_run() const { return own().size() == 1 && own()[0].stride == 1; }
};

/// Everything of a plan on this rank. Collective.
Result<std::unique_ptr<RingPlan::State>> make_ring_plan(std::shared_ptr<Ring::State> ring, const Kernel& kernel,
                                                        const RingShape& shape, std::span<const NamedInput> inputs);

}  // namespace weft
