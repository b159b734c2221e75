#pragma once

#include "compiler/ring/choose.h"
#include "runtime/engine/kernel_state.h"
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
  std::vector<ring::Portion> portions = {};
  std::optional<Arena> arena = {};
  std::optional<Transfers> transfers = {};

  int rank() const { return ring->link.rank(); }
  const ring::Runs& own() const { return map.runs[static_cast<std::size_t>(rank())]; }
};

/// Everything of a plan on this rank. Collective.
Result<std::unique_ptr<RingPlan::State>> make_ring_plan(std::shared_ptr<Ring::State> ring, const Kernel& kernel,
                                                        const RingShape& shape, std::span<const NamedInput> inputs);

}  // namespace weft
