#include "runtime/ring/ring_plan.h"

#include "compiler/base/digest.h"
#include "compiler/base/guarded.h"
#include "compiler/ir/key_chunks.h"
#include "compiler/ir/launchable.h"
#include "compiler/planner/planner.h"
#include "compiler/ring/report.h"
#include "runtime/engine/front.h"
#include "runtime/engine/reference.h"
#include "runtime/ring/agreement.h"
#include "runtime/ring/views.h"

#include <fmt/format.h>

#include <cstring>

namespace weft {

namespace {

ir::RingLayout layout_of(RingLayout layout) {
  switch (layout) {
    case RingLayout::contiguous:
      return ir::RingLayout::contiguous;
    case RingLayout::zigzag:
      return ir::RingLayout::zigzag;
    case RingLayout::striped:
      return ir::RingLayout::striped;
    case RingLayout::automatic:
      break;
  }
  return ir::RingLayout::automatic;
}

ring::Carrier carrier_of(RingCarrier carrier) { return ring::kCarriers[static_cast<int>(carrier)].second; }

/// What is compiled into the forward; the interpreter compiles nothing in, and has what the pattern is bound to.
ir::Bind bind_of(const Kernel::State& state) {
  ir::Bind bind = state.bind;
  bind.gradient = false;
  if (state.target.kind != TargetKind::interpreter) return bind;
  bind.branch_lse = false;
  bind.d = state.pattern.dim.value_or(bind.d);
  bind.d_v = state.pattern.dim_v.value_or(bind.d);
  bind.dtype = state.pattern.dtype.value_or(bind.dtype);
  return bind;
}

/// What cannot run on ranks.
Status check_kernel(const Kernel::State& state) {
  if (state.bind.paged) return user_error("a ring has its own K and V; this kernel takes them in pages");
  return done;
}

/// What the kernel, or its pass, does not know of.
Status check_choice(const Kernel::State& state, const ring::Split& split) {
  if (!split.moves_queries() && split.round_keys == 0) return done;
  if (state.target.kind == TargetKind::interpreter)
    return user_error("the interpreter cuts no keys; use the carrier 'keys', and memory without a limit");
  return ir::check_key_cuts(state.plan);
}

/// What has no gradients on ranks.
Status check_gradients(const Kernel::State& state) {
  if (!state.bind.gradient) return done;
  if (state.target.kind == TargetKind::interpreter)
    return user_error("the backward pass of a ring runs on CPUs and GPUs, not on the interpreter");
  return done;
}

/// Values of an input, which may lie on a GPU.
Result<ir::Tensor> values_of(const KernelMemory& memory, const TensorView& view) {
  WEFT_TRY(const bool on_host, memory.is_on_host(view.data));
  if (on_host) return to_f64(view);
  std::vector<std::byte> bytes(numbers_of(view) * size_of(view.dtype));
  WEFT_CHECK(to_host(memory, view, bytes.data()));
  return to_f64(dense_like<const void*>(view, bytes.data()));
}

Result<ir::InputValues> values_of(const KernelMemory& memory, const ir::Pattern& pattern, const ir::Shape& shape,
                                  std::span<const NamedInput> inputs) {
  ir::InputValues out;
  for (const auto& wanted : pattern.inputs) {
    const auto at =
        std::find_if(inputs.begin(), inputs.end(), [&](const NamedInput& input) { return input.name == wanted.name; });
    if (at == inputs.end() || at->view.data == nullptr)
      return user_error(fmt::format("input '{}' is missing: every rank needs the whole of it", wanted.name));
    WEFT_TRY(auto values, values_of(memory, at->view));
    out.push_back(std::move(values));
  }
  WEFT_CHECK(ir::check_shapes(pattern, shape, out));
  return out;
}

std::string digest_of(const ir::InputValues& inputs) {
  std::string bytes;
  for (const auto& input : inputs) {
    const auto at = bytes.size(), size = input.data.size() * sizeof(double);
    bytes.resize(at + size);
    std::memcpy(bytes.data() + at, input.data.data(), size);
  }
  return hex(sha256(bytes)).substr(0, 40);
}

std::string digest_of(const ring::Split& split) {
  std::string text;
  for (const auto* map : {&split.home, &split.groups}) {
    for (const auto& runs : map->runs) {
      for (const auto& run : runs) text += fmt::format("{} {} {},", run.first, run.count, run.stride);
      text += ';';
    }
  }
  for (const auto& heads : split.lanes) text += fmt::format("{} {};", heads.first, heads.count);
  for (const auto& run : split.moved.rows) text += fmt::format("{} {},", run.first, run.count);
  for (const auto rank : split.moved.rank_of) text += fmt::format("{},", rank);
  text += fmt::format("{} {}", split.moved.keys, split.round_keys);
  return hex(sha256(text)).substr(0, 40);
}

Status check_agreement(Link& link, const Kernel::State& state, const ir::Shape& shape, const ir::InputValues& inputs) {
  return agree(link, {{"pass", state.bind.gradient ? "backward" : "forward"},
                      {"pattern", hex(sha256(state.pattern_text())).substr(0, 40)},
                      {"target", state.target.name},
                      {"number of tokens", std::to_string(shape.n_q)},
                      {"batch", std::to_string(shape.batch)},
                      {"number of heads", fmt::format("{}, {} of K and V", shape.heads, shape.kv_heads)},
                      {"head dims", fmt::format("{} and {}", shape.d, shape.d_v)},
                      {"dtype", ir::to_string(bind_of(state).dtype)},
                      {"inputs", digest_of(inputs)}});
}

/// What changes places for a pass, where heads do.
Changes changes_of(const RingPlan::State& plan) {
  const auto& state = plan.kernel.state();
  const auto& s = plan.shape;
  const auto rows = [&](std::int64_t dim) {
    return Exchange::Tensor{.of_key_head = s.group(), .dim = dim, .dtype = plan.dtype};
  };
  const auto keys = [&](std::int64_t dim) { return Exchange::Tensor{.dim = dim, .dtype = plan.dtype}; };
  const auto numbers = [&](std::int64_t branches) {
    return Exchange::Tensor{.of_key_head = s.group(), .by_head = true, .branches = branches};
  };
  const auto branches = std::ssize(state.pattern.branches);
  const bool has_lse = ir::has_lse(state.pattern), by_branch = ir::per_branch(state.pattern.combine);
  Changes out{.before = {{rows(s.d), &RingArgs::q}, {keys(s.d), &RingArgs::k}, {keys(s.d_v), &RingArgs::v}}};
  if (plan.backward) {
    out.before.push_back({rows(s.d_v), &RingArgs::d_out});
    if (has_lse) {
      const auto lse = numbers(by_branch ? branches : 0);
      out.before.push_back({rows(s.d_v), nullptr, &RingArgs::out});
      out.before.push_back({lse, nullptr, by_branch ? &RingArgs::branch_lse : &RingArgs::lse});
      out.before.push_back({lse, &RingArgs::d_lse});
    }
    out.behind = {{rows(s.d), nullptr, &RingArgs::dq},
                  {keys(s.d), nullptr, &RingArgs::dk},
                  {keys(s.d_v), nullptr, &RingArgs::dv}};
    return out;
  }
  out.behind = {{rows(s.d_v), nullptr, &RingArgs::out}};
  if (has_lse && !by_branch) out.behind.push_back({numbers(0), nullptr, &RingArgs::lse});
  // Who asks for what is known when they run: that of branches travels where it may be asked for.
  if (state.bind.branch_lse && check_branch_lse(state.pattern).ok())
    out.behind.push_back({numbers(branches), nullptr, &RingArgs::branch_lse});
  return out;
}

/// Where heads change places.
Status add_exchange(RingPlan::State& plan) {
  if (!plan.split.changes_heads()) return done;
  plan.changes = changes_of(plan);
  const auto tensors = [](const std::vector<Changing>& changing) {
    std::vector<Exchange::Tensor> out;
    for (const auto& one : changing) out.push_back(one.tensor);
    return out;
  };
  WEFT_TRY(auto exchange, Exchange::make(plan.memory, plan.messages, plan.split, plan.rank(), plan.shape.batch,
                                         tensors(plan.changes.before), tensors(plan.changes.behind)));
  plan.exchange.emplace(std::move(exchange));
  plan.share.needed_bytes += plan.exchange->needed_bytes();
  // K and V go straight to where kernels read them.
  if (!plan.arena || !plan.computes_one_run()) return done;
  plan.exchange->place_before(1, plan.arena->rows(0, plan.computed()[0]));
  plan.exchange->place_before(2, plan.arena->rows(1, plan.computed()[0]));
  return done;
}

}  // namespace

Result<std::unique_ptr<RingPlan::State>> make_ring_plan(std::shared_ptr<Ring::State> ring, const Kernel& kernel,
                                                        const RingShape& sizes, std::span<const NamedInput> inputs) {
  const auto& state = kernel.state();
  WEFT_CHECK(check_kernel(state));
  WEFT_CHECK(check_gradients(state));
  const auto bind = bind_of(state);
  const ir::Shape shape{.batch = sizes.batch,
                        .n_q = sizes.tokens,
                        .n_k = sizes.tokens,
                        .heads = sizes.heads,
                        .kv_heads = sizes.kv_heads,
                        .d = bind.d,
                        .d_v = bind.d_v};
  if (shape.batch < 1 || shape.n_q < 1 || shape.heads < 1 || shape.kv_heads < 1)
    return user_error("the batch, the tokens and the heads of a ring are at least 1 each");
  WEFT_CHECK(check_sizes(state.pattern, shape));
  WEFT_CHECK(ir::check_meaning(state.pattern, shape));
  WEFT_TRY(auto memory, memory_of(kernel));
  WEFT_TRY(const auto values, values_of(*memory, state.pattern, shape, inputs));
  auto& link = ring->link;
  WEFT_TRY(auto messages, memory_of_messages(memory, link.device()));
  WEFT_CHECK(check_agreement(link, state, shape, values));

  // Made from the target's row, not from what was measured here: the same on every rank.
  WEFT_TRY(const auto target,
           find_target(state.target.kind == TargetKind::interpreter ? "cpu:x86-64-v3" : state.target.name));
  WEFT_TRY(const auto plan, planner::plan(state.pattern, bind, target, {.for_kernels = false}));
  WEFT_TRY(const auto tables, ir::make_tables(plan, shape.heads));
  WEFT_TRY(const auto relation, ring::Relation::make(plan, tables, shape, values));
  const auto machine = ring::machine_of(plan, target);
  WEFT_TRY(auto choice, ring::choose_within(ring->options.memory, relation, layout_of(ring->options.layout),
                                            link.ranks(), machine, carrier_of(ring->options.carrier)));
  if (state.bind.gradient) WEFT_CHECK(ring::prepare_backward(choice.split));
  WEFT_CHECK(check_choice(state, choice.split));
  WEFT_CHECK(agree(link, {{"owners of tokens", digest_of(choice.split)}}));

  auto out = std::make_unique<RingPlan::State>(
      RingPlan::State{.ring = std::move(ring), .kernel = kernel, .shape = shape, .dtype = from_ir(bind.dtype)});
  out->memory = std::move(memory);
  out->messages = std::move(messages);
  out->split = std::move(choice.split);
  ir::Plan by_key;
  ir::Tables tables_by_key;
  std::optional<ring::Relation> transposed;
  std::optional<ring::BackwardNeeds> of_backward;
  if (state.bind.gradient) {
    WEFT_TRY(by_key,
             planner::plan(state.pattern, bind, target, {.stationary = ir::Stationary::key, .for_kernels = false}));
    WEFT_TRY(tables_by_key, ir::make_tables(by_key, shape.heads));
    WEFT_TRY(transposed, ring::Relation::make(by_key, tables_by_key, shape, values));
    of_backward.emplace(relation, *transposed, out->split, state.plan.finds_deltas());
  }
  const auto report =
      of_backward ? ring::report_of(*of_backward, machine) : ring::report_of(relation, out->split, machine);
  out->inner = shape;
  out->inner.kv_heads = out->split.heads(link.rank()).count;
  out->inner.heads = out->inner.kv_heads * shape.group();
  for (const auto& runs : out->split.home.runs) {
    auto& tokens = out->owned.emplace_back();
    for (const auto& run : runs) tokens.push_back({run.first, run.count, run.stride});
  }
  out->summary = {.ranks = link.ranks(),
                  .layout = out->split.home.name,
                  .carrier = ring::carrier_of(out->split, report),
                  .bits = ring::bits_of(out->split),
                  .imbalance = report.imbalance,
                  .reasons = std::move(choice.reasons)};
  const auto& mine = report.ranks[static_cast<std::size_t>(link.rank())];
  out->share = {.tokens = mine.tokens,
                .messages = mine.messages,
                .pairs = mine.pairs,
                .needed_bytes = static_cast<std::size_t>(mine.needed_bytes)};
  if (of_backward) {
    WEFT_TRY(auto backward, Backward::make(kernel, out->memory, out->messages, out->inner, *of_backward, link.rank()));
    out->backward.emplace(std::move(backward));
    out->share.needed_bytes = out->backward->needed_bytes();
    WEFT_CHECK(add_exchange(*out));
    return out;
  }
  if (out->split.round_keys > 0) {
    WEFT_TRY(auto rounds,
             Rounds::make(kernel, out->memory, out->messages, relation, out->split, link.rank(), shape, out->dtype));
    out->rounds.emplace(std::move(rounds));
    out->share.needed_bytes = out->rounds->needed_bytes();
    return out;
  }
  const auto portions_of = [&](std::int64_t group) {
    auto portions = ring::portions_of(relation, out->split, out->split.rank_of(group, out->split.lane_of(link.rank())));
    for (auto& portion : portions) portion.news = portion.news.of_heads(out->split.heads(link.rank()));
    return portions;
  };
  const auto needs_of = [&](std::int64_t group) {
    std::vector<ring::Needs> needs;
    for (auto& portion : portions_of(group)) needs.push_back(std::move(portion.news));
    return needs;
  };
  const auto group = out->split.group_of(link.rank());
  out->portions = portions_of(group);
  Arena::Present present{.own = out->computed()};
  for (const auto& portion : out->portions) present.others.push_back(portion.news);
  const auto& inner = out->inner;
  WEFT_TRY(auto arena, Arena::make(out->memory, inner,
                                   {{.heads = inner.kv_heads, .dim = shape.d, .dtype = out->dtype},
                                    {.heads = inner.kv_heads, .dim = shape.d_v, .dtype = out->dtype}},
                                   present));
  out->arena.emplace(std::move(arena));
  WEFT_TRY(auto transfers, Transfers::make(needs_of, out->split, link.rank(), *out->arena, out->messages));
  out->transfers.emplace(std::move(transfers));
  out->share.needed_bytes = out->transfers->needed_bytes();
  if (out->split.moves_queries()) {
    WEFT_TRY(auto moved,
             MovedQueries::make(kernel, out->memory, out->messages, out->split, link.rank(), shape, out->dtype));
    out->moved.emplace(std::move(moved));
    out->share.needed_bytes += out->moved->needed_bytes();
  }
  WEFT_CHECK(add_exchange(*out));
  return out;
}

RingPlan::RingPlan(std::unique_ptr<State> state) : state_(std::move(state)) {}
RingPlan::~RingPlan() = default;
const std::vector<TokenRun>& RingPlan::owned(int rank) const { return state_->owned[static_cast<std::size_t>(rank)]; }
const RingSummary& RingPlan::summary() const { return state_->summary; }
const RingShare& RingPlan::share() const { return state_->share; }

OutputView RingPlan::own_k() const {
  return state_->lends() ? state_->arena->rows(0, state_->computed()[0]) : OutputView();
}
OutputView RingPlan::own_v() const {
  return state_->lends() ? state_->arena->rows(1, state_->computed()[0]) : OutputView();
}

}  // namespace weft
