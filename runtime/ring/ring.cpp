#include "compiler/base/guarded.h"
#include "runtime/ring/agreement.h"
#include "runtime/ring/ring_plan.h"

#include <fmt/format.h>

namespace weft {

namespace {

const char* word_of(RingLayout layout) {
  constexpr std::array kWords = {"auto", "contiguous", "zigzag", "striped"};
  return kWords[static_cast<std::size_t>(layout)];
}

const char* word_of(RingCarrier carrier) { return ring::kCarriers[static_cast<std::size_t>(carrier)].first; }

}  // namespace

Ring::Ring(std::shared_ptr<State> state) : state_(std::move(state)) {}
Ring::~Ring() = default;
int Ring::rank() const { return state_->link.rank(); }
int Ring::ranks() const { return state_->link.ranks(); }

Result<std::unique_ptr<Ring>> Ring::join(std::unique_ptr<Transport> transport, const RingOptions& options) {
  return guarded([&]() -> Result<std::unique_ptr<Ring>> {
    if (transport->ranks() > ring::kMostRanks)
      return user_error(fmt::format("a ring has at most {} ranks, not {}", ring::kMostRanks, transport->ranks()));
    auto state = std::make_shared<State>(std::move(transport), options);
    WEFT_CHECK(agree(state->link, {{"version of Weft", version()},
                                   {"number of ranks", std::to_string(state->link.ranks())},
                                   {"layout", word_of(options.layout)},
                                   {"carrier", word_of(options.carrier)},
                                   {"memory of a rank", std::to_string(options.memory)}}));
    return std::make_unique<Ring>(std::move(state));
  });
}

Result<std::unique_ptr<RingPlan>> Ring::plan(const Kernel& kernel, const RingShape& shape,
                                             std::span<const NamedInput> inputs) {
  return guarded([&]() -> Result<std::unique_ptr<RingPlan>> {
    auto made = make_ring_plan(state_, kernel, shape, inputs);
    // What only this rank finds wrong must not leave the others waiting.
    if (!made) return state_->link.give_up(made.error());
    return std::make_unique<RingPlan>(std::move(*made));
  });
}

Status Ring::barrier() {
  return guarded([&] { return agree(state_->link, {{"place where they wait", "barrier"}}); });
}

}  // namespace weft
