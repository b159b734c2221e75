#include "compiler/base/guarded.h"
#include "runtime/ring/launch.h"
#include "runtime/ring/ring_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

namespace weft {

namespace {

using Clock = std::chrono::steady_clock;

using Extents = std::array<std::int64_t, 4>;

/// Of what a launch does not check by itself: that these are this rank's rows of the whole. `view` of a rank with rows
/// has data.
template <typename Pointer>
Status check_tensor(const RingPlan::State& plan, const char* name, const View<Pointer>& view, const Extents& wanted) {
  const std::int64_t rows = plan.share.tokens;
  if (view.dtype != plan.dtype)
    return user_error(
        fmt::format("{} is {}; the ring was planned for {}", name, to_string(view.dtype), to_string(plan.dtype)));
  if (view.rank != 4) return user_error(fmt::format("{} has {} dimensions; expected 4", name, view.rank));
  for (std::size_t axis = 0; axis < 4; ++axis) {
    if (view.extent[axis] == wanted[axis]) continue;
    return user_error(fmt::format("{}, dimension {}: the extent is {}; expected {} of rank {}'s {} rows", name, axis,
                                  view.extent[axis], wanted[axis], plan.rank(), rows));
  }
  if (rows > 0 && view.data == nullptr) return user_error(fmt::format("{} has no data", name));
  if (view.stride[3] != 1)
    return user_error(fmt::format("{}: the last stride is {}; expected 1", name, view.stride[3]));
  return done;
}

/// Likewise, of [B, H, own rows], or where each branch has one [branches, B, H, own rows].
template <typename Pointer>
Status check_lse(const RingPlan::State& plan, const char* name, const View<Pointer>& view, bool by_branch) {
  std::vector<std::int64_t> wanted = {plan.shape.batch, plan.shape.heads, plan.share.tokens};
  if (by_branch) wanted.insert(wanted.begin(), std::ssize(plan.kernel.state().pattern.branches));
  if (view.rank == std::ssize(wanted) && view.dtype == DType::f32 &&
      std::equal(wanted.begin(), wanted.end(), view.extent.begin()) && view.stride[wanted.size() - 1] == 1)
    return done;
  return user_error(fmt::format("{} is not the f32 tensor [{}] that rank {}'s rows have, with a last stride of 1", name,
                                fmt::join(wanted, ", "), plan.rank()));
}

/// A launch of this rank's rows would say the same, but not on a rank without rows.
Status check_inputs(const RingPlan::State& plan, const RingArgs& args) {
  const auto& inputs = plan.kernel.state().pattern.inputs;
  for (const auto& wanted : args.d_inputs) {
    const auto input =
        std::find_if(inputs.begin(), inputs.end(), [&](const auto& of) { return of.name == wanted.name; });
    if (input == inputs.end()) return user_error(fmt::format("the pattern has no input '{}'", wanted.name));
    const auto given =
        std::find_if(args.inputs.begin(), args.inputs.end(), [&](const auto& of) { return of.name == wanted.name; });
    const auto& view = wanted.view;
    if (given == args.inputs.end()) return user_error(fmt::format("input '{}' is missing", wanted.name));
    if (input->type != ir::InputType::f32 || view.data == nullptr || view.dtype != DType::f32 ||
        view.rank != given->view.rank ||
        !std::equal(view.extent.begin(), view.extent.begin() + view.rank, given->view.extent.begin()))
      return user_error(fmt::format("the gradient of input '{}' is no f32 tensor of its extents", wanted.name));
  }
  return done;
}

Status check_backward(const RingPlan::State& plan, const RingArgs& args) {
  const std::int64_t rows = plan.share.tokens;
  const auto& s = plan.shape;
  const Extents of_q = {s.batch, rows, s.heads, s.d}, of_out = {s.batch, rows, s.heads, s.d_v},
                of_k = {s.batch, rows, s.kv_heads, s.d}, of_v = {s.batch, rows, s.kv_heads, s.d_v};
  WEFT_CHECK(check_tensor(plan, "q", args.q, of_q));
  WEFT_CHECK(check_tensor(plan, "k", args.k, of_k));
  WEFT_CHECK(check_tensor(plan, "v", args.v, of_v));
  WEFT_CHECK(check_tensor(plan, "d_out", args.d_out, of_out));
  if (ir::has_lse(plan.kernel.state().pattern)) {
    WEFT_CHECK(check_tensor(plan, "out", args.out, of_out));
    const bool by_branch = ir::per_branch(plan.kernel.state().pattern.combine);
    const OutputView& lse = by_branch ? args.branch_lse : args.lse;
    const char* const name = by_branch ? "branch_lse" : "lse";
    if (rows > 0 && lse.data == nullptr)
      return user_error(fmt::format("{} has no data; the backward pass reads the LSE that the forward wrote", name));
    WEFT_CHECK(check_lse(plan, name, lse, by_branch));
    if (args.d_lse.data != nullptr) WEFT_CHECK(check_lse(plan, "d_lse", args.d_lse, by_branch));
  }
  if (rows > 0 && args.dq.data == nullptr && args.dk.data == nullptr && args.dv.data == nullptr &&
      args.d_inputs.empty())
    return user_error("no gradient is wanted: give at least one of dq, dk, dv and d_inputs");
  WEFT_CHECK(check_inputs(plan, args));
  if (args.dq.data != nullptr) WEFT_CHECK(check_tensor(plan, "dq", args.dq, of_q));
  if (args.dk.data != nullptr) WEFT_CHECK(check_tensor(plan, "dk", args.dk, of_k));
  if (args.dv.data != nullptr) WEFT_CHECK(check_tensor(plan, "dv", args.dv, of_v));
  return done;
}

Status check_rows(const RingPlan::State& plan, const RingArgs& args) {
  if (plan.backward) return check_backward(plan, args);
  const std::int64_t rows = plan.share.tokens;
  const auto& s = plan.shape;
  WEFT_CHECK(check_tensor(plan, "q", args.q, {s.batch, rows, s.heads, s.d}));
  WEFT_CHECK(check_tensor(plan, "out", args.out, {s.batch, rows, s.heads, s.d_v}));
  if (args.lse.data != nullptr && (args.lse.rank != 3 || args.lse.extent[2] != rows))
    return user_error(fmt::format("lse has the extent {} in dimension 2; rank {} owns {} rows", args.lse.extent[2],
                                  plan.rank(), rows));
  if (args.branch_lse.data != nullptr) WEFT_CHECK(check_lse(plan, "branch_lse", args.branch_lse, true));
  if (args.d_out.data != nullptr || args.dq.data != nullptr || args.dk.data != nullptr || args.dv.data != nullptr)
    return user_error("gradients are asked for, but the kernel was compiled without CompileOptions::gradient");
  if ((args.k.data == nullptr) != (args.v.data == nullptr)) return user_error("k and v go together");
  if (args.k.data == nullptr) {
    if (rows == 0 || plan.lends()) return done;
    return user_error("k and v have no data, and this plan lends no memory for them: see RingPlan::own_k");
  }
  WEFT_CHECK(check_tensor(plan, "k", args.k, {s.batch, rows, s.kv_heads, s.d}));
  return check_tensor(plan, "v", args.v, {s.batch, rows, s.kv_heads, s.d_v});
}

Status launch(const RingPlan::State& plan, const RingArgs& args, std::int64_t local, std::int64_t token,
              std::int64_t count) {
  auto run = launch_of(args, *plan.arena, {token, count}, local, plan.shape.n_q);
  run.head_slice = plan.head_slice();
  return plan.kernel.run(run);
}

/// Rows that stand so far apart at most are computed with those between them, which are nobody's here and thrown away:
/// a tile holds so many rows anyway, and a launch for each row would fill as many tiles.
constexpr std::int64_t kMostApart = 32;

/// Copies rows of a tensor with heads, `step` rows apart in one of the two; `axis` counts the rows, 1 or, of LSE, 2.
void copy_rows(const TensorView& from, std::int64_t from_step, const OutputView& to, std::int64_t to_step,
               std::int64_t rows, std::size_t axis) {
  const std::size_t heads = axis == 1 ? 2 : 1, element = size_of(from.dtype);
  const auto row = axis == 1 ? static_cast<std::size_t>(from.extent[3]) * element : element;
  for (std::int64_t b = 0; b < from.extent[0]; ++b) {
    for (std::int64_t h = 0; h < from.extent[heads]; ++h) {
      for (std::int64_t i = 0; i < rows; ++i) {
        const auto at = b * from.stride[0] + h * from.stride[heads] + i * from_step * from.stride[axis];
        const auto there = b * to.stride[0] + h * to.stride[heads] + i * to_step * to.stride[axis];
        std::memcpy(static_cast<std::byte*>(to.data) + static_cast<std::size_t>(there) * element,
                    static_cast<const std::byte*>(from.data) + static_cast<std::size_t>(at) * element, row);
      }
    }
  }
}

/// One launch of tokens that are not consecutive, among others between them.
Status launch_apart(const RingPlan::State& plan, const RingArgs& args, std::int64_t local, const ring::Run& run) {
  const auto& s = plan.inner;
  const std::int64_t span = run.end() - run.first;
  const auto bytes = [&](std::int64_t dim) {
    return std::vector<std::byte>(static_cast<std::size_t>(s.batch * span * s.heads * dim) * size_of(plan.dtype));
  };
  auto q = bytes(s.d), out = bytes(s.d_v);
  const auto numbers = [&](const OutputView& wanted, std::int64_t branches) {
    return std::vector<float>(wanted.data != nullptr ? static_cast<std::size_t>(branches * s.batch * s.heads * span)
                                                     : 0);
  };
  const std::int64_t branches = std::ssize(plan.kernel.state().pattern.branches);
  auto lse = numbers(args.lse, 1), branch_lse = numbers(args.branch_lse, branches);
  RingArgs spread = args;
  spread.q = dense_view(q.data(), plan.dtype, {s.batch, span, s.heads, s.d});
  spread.out = dense_output(out.data(), plan.dtype, {s.batch, span, s.heads, s.d_v});
  if (!lse.empty()) spread.lse = dense_output(lse.data(), DType::f32, {s.batch, s.heads, span});
  if (!branch_lse.empty())
    spread.branch_lse = dense_output(branch_lse.data(), DType::f32, {branches, s.batch, s.heads, span});
  const auto to = dense_output(q.data(), plan.dtype, {s.batch, span, s.heads, s.d});
  copy_rows(rows_of(args.q, 1, local, run.count), 1, to, run.stride, run.count, 1);
  WEFT_CHECK(launch(plan, spread, 0, run.first, span));
  copy_rows(operand(spread.out), run.stride, rows_of(args.out, 1, local, run.count), 1, run.count, 1);
  if (!lse.empty()) copy_rows(operand(spread.lse), run.stride, rows_of(args.lse, 2, local, run.count), 1, run.count, 2);
  for (std::int64_t branch = 0; !branch_lse.empty() && branch < branches; ++branch) {
    copy_rows(of_branch(operand(spread.branch_lse), branch), run.stride,
              rows_of(of_branch(args.branch_lse, branch), 2, local, run.count), 1, run.count, 2);
  }
  return done;
}

/// Rows of some portions, those that follow one another in one launch.
Status compute(const RingPlan::State& plan, const RingArgs& args, std::size_t begin, std::size_t end) {
  struct Stretch {
    std::int64_t local, token, count;
  };
  std::vector<Stretch> stretches;
  for (std::size_t p = begin; p < end; ++p) {
    if (plan.portions[p].moved) continue;
    for (const auto& run : plan.portions[p].cell.rows) {
      std::int64_t before = 0;
      for (const auto& own : plan.computed()) {
        if (run.first >= own.first && run.first < own.end()) {
          const auto local = before + (run.first - own.first) / own.stride;
          if (run.stride > 1 && run.stride <= kMostApart && plan.reads_host_memory()) {
            WEFT_CHECK(launch_apart(plan, args, local, run));
          } else if (run.stride > 1) {
            for (std::int64_t i = 0; i < run.count; ++i)
              stretches.push_back({local + i, run.first + i * run.stride, 1});
          } else {
            stretches.push_back({local, run.first, run.count});
          }
        }
        before += own.count;
      }
    }
  }
  std::sort(stretches.begin(), stretches.end(), [](const auto& a, const auto& b) { return a.token < b.token; });
  for (std::size_t i = 0; i < stretches.size();) {
    Stretch together = stretches[i];
    for (++i; i < stretches.size() && stretches[i].token == together.token + together.count; ++i)
      together.count += stretches[i].count;
    WEFT_CHECK(launch(plan, args, together.local, together.token, together.count));
  }
  return done;
}

/// Portions in their order, as many at once as have their keys.
Status run_portions(RingPlan::State& plan, const RingArgs& args) {
  auto& link = plan.ring->link;
  auto& transfers = *plan.transfers;
  const std::size_t count = plan.portions.size();
  std::size_t next = 0;
  while (next < count) {
    WEFT_TRY(auto steps, link.steps_done());
    std::size_t ready = next;
    // A rank that needs nothing does not wait for steps of others, either.
    while (ready < count && (plan.portions[ready].local || transfers.step_of(ready) <= steps)) ++ready;
    if (ready == next) {
      WEFT_CHECK(link.wait(transfers.step_of(next), plan.share.wait_ms));
      continue;
    }
    for (std::size_t p = next; p < ready; ++p) WEFT_CHECK(transfers.unpack(p, *plan.arena));
    WEFT_CHECK(compute(plan, args, next, ready));
    for (std::size_t p = next; p < ready; ++p) {
      const auto& portion = plan.portions[p];
      if (portion.moved)
        WEFT_CHECK(plan.moved->compute(link, portion.cell.keys, *plan.arena, args, plan.share.wait_ms));
    }
    next = ready;
  }
  // The buffers are the next run's only then.
  WEFT_CHECK(link.wait(transfers.last_step()));
  if (plan.moved) WEFT_CHECK(plan.moved->finish(link, *plan.arena, args, plan.share.wait_ms));
  return plan.memory->settle();
}

/// The rows that a rank computes, for its heads.
Status run_computed(RingPlan::State& plan, const RingArgs& args) {
  auto& link = plan.ring->link;
  if (plan.backward) {
    auto& backward = *plan.backward;
    WEFT_CHECK(backward.run(link, plan.kernel, plan.computed(), plan.head_slice(), args, plan.share.wait_ms));
    plan.share.received_bytes = backward.received_bytes();
    plan.share.sent_bytes = backward.sent_bytes();
    return plan.memory->settle();
  }
  if (plan.rounds) {
    WEFT_CHECK(plan.rounds->run(link, args, plan.share.wait_ms));
    plan.share.received_bytes = plan.rounds->received_bytes();
    plan.share.sent_bytes = plan.rounds->sent_bytes();
    return done;
  }
  if (args.k.data != nullptr) {
    WEFT_CHECK(plan.arena->copy_in(0, plan.computed(), args.k));
    WEFT_CHECK(plan.arena->copy_in(1, plan.computed(), args.v));
  }
  if (plan.moved) WEFT_CHECK(plan.moved->post_queries(link, args.q));
  WEFT_CHECK(plan.transfers->post(link, *plan.arena));
  WEFT_CHECK(run_portions(plan, args));
  plan.share.received_bytes = plan.transfers->received_bytes() + (plan.moved ? plan.moved->needed_bytes() : 0);
  plan.share.sent_bytes = plan.transfers->sent_bytes() + (plan.moved ? plan.moved->sent_bytes() : 0);
  return done;
}

/// What changes places, and between it what is computed.
Status run_exchanged(RingPlan::State& plan, const RingArgs& args) {
  auto& link = plan.ring->link;
  auto& exchange = *plan.exchange;
  const auto& [before, behind] = plan.changes;
  const auto timed = [&](const auto& change) -> Status {
    const auto start = Clock::now();
    WEFT_CHECK(change());
    plan.share.wait_ms += std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    return done;
  };
  std::vector<TensorView> given;
  for (const auto& one : before)
    given.push_back(one.operand != nullptr ? args.*one.operand : operand(args.*one.output));
  WEFT_CHECK(timed([&] { return exchange.to_heads(link, given); }));
  RingArgs inner = args;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i].operand != nullptr)
      inner.*before[i].operand = operand(exchange.before(i));
    else
      inner.*before[i].output = exchange.before(i);
  }
  std::vector<OutputView> wanted;
  for (std::size_t i = 0; i < behind.size(); ++i) {
    wanted.push_back(args.*behind[i].output);
    inner.*behind[i].output = exchange.behind(i);
  }
  // K and V are where kernels read them.
  if (plan.arena && plan.computes_one_run()) inner.k = inner.v = {};
  WEFT_CHECK(run_computed(plan, inner));
  WEFT_CHECK(timed([&] { return exchange.to_rows(link, wanted); }));
  plan.share.received_bytes += exchange.needed_bytes();
  plan.share.sent_bytes += exchange.sent_bytes();
  return done;
}

}  // namespace

Status RingPlan::run(const RingArgs& args) {
  return guarded([&]() -> Status {
    auto& plan = *state_;
    auto& link = plan.ring->link;
    const auto run = [&]() -> Status {
      WEFT_CHECK(check_rows(plan, args));
      plan.share.wait_ms = 0;
      plan.memory->go_by(args.stream);
      return plan.exchange ? run_exchanged(plan, args) : run_computed(plan, args);
    };
    auto status = run();
    if (!status) return link.give_up(status.error());
    return status;
  });
}

}  // namespace weft
