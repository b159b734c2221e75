#include "runtime/ring/backward.h"

#include "runtime/engine/front.h"
#include "runtime/engine/reference.h"
#include "runtime/ring/agreement.h"
#include "runtime/ring/reduce.h"
#include "runtime/ring/views.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <numeric>

namespace weft {

namespace {

enum KeysAt : std::size_t { kK, kV };
enum RowsAt : std::size_t { kQ, kDOut, kOut, kLse, kDLse };
enum ResultsAt : std::size_t { kDQ, kDK, kDV };

std::vector<std::uint8_t> marks_of(const ring::Runs& runs, std::vector<std::uint8_t> marks) {
  for (const auto& run : runs) {
    for (std::int64_t i = 0; i < run.count; ++i) marks[static_cast<std::size_t>(run.first + i * run.stride)] = 1;
  }
  return marks;
}

cpu::Part part_of(const ring::Needs& rows, const ring::Runs& own, std::int64_t tokens) {
  cpu::Part out{.own = marks_of(own, std::vector<std::uint8_t>(static_cast<std::size_t>(tokens))),
                .there = {},
                .of = rows.of,
                .kv_heads = rows.kv_heads};
  for (const auto& set : rows.sets) out.there.push_back(marks_of(set, out.own));
  // Of a rank without tokens nothing was asked.
  if (out.there.empty()) {
    out.there.push_back(out.own);
    out.of.assign(static_cast<std::size_t>(out.kv_heads), 0);
  }
  return out;
}

/// Collective: the largest that any rank has.
Status agree_on_bounds(Link& link, std::span<std::uint32_t> bounds) {
  WEFT_TRY(const auto said, said_by_all(link, {reinterpret_cast<const char*>(bounds.data()), bounds.size_bytes()}));
  std::vector<std::uint32_t> all(said.size() / sizeof(std::uint32_t));
  std::memcpy(all.data(), said.data(), said.size());
  for (std::size_t i = 0; i < all.size(); ++i) bounds[i % bounds.size()] = std::max(bounds[i % bounds.size()], all[i]);
  return done;
}

}  // namespace

Result<Backward> Backward::make(const Kernel& kernel, const std::shared_ptr<KernelMemory>& memory,
                                const std::shared_ptr<KernelMemory>& messages, const ir::Shape& shape,
                                const ring::BackwardNeeds& needs, int rank) {
  const auto& pattern = kernel.state().pattern;
  const auto dtype = from_ir(kernel.state().bind.dtype);
  const auto& split = needs.split();
  const std::int64_t branches = ir::per_branch(pattern.combine) ? std::ssize(pattern.branches) : 0;
  const auto of_heads = [&](std::vector<ring::Needs> of_all) {
    for (auto& of : of_all) of = of.of_heads(split.heads(rank));
    return of_all;
  };
  const auto rows_of = [&](std::int64_t group) { return of_heads(needs.rows_of(group)); };
  const auto keys_of = [&](std::int64_t group) { return of_heads(needs.keys_of(group)); };
  std::vector<Arena::Tensor> row_tensors = {{.heads = shape.heads, .dim = shape.d, .dtype = dtype},
                                            {.heads = shape.heads, .dim = shape.d_v, .dtype = dtype}};
  if (ir::has_lse(pattern)) {
    row_tensors.push_back({.heads = shape.heads, .dim = shape.d_v, .dtype = dtype});
    row_tensors.resize(5, {.heads = shape.heads, .dim = 1, .dtype = DType::f32, .by_head = true, .branches = branches});
  }
  const Arena::Tensor k{.heads = shape.kv_heads, .dim = shape.d, .dtype = dtype},
      v{.heads = shape.kv_heads, .dim = shape.d_v, .dtype = dtype};
  const auto& own = split.computed(rank);
  const auto group = split.group_of(rank);
  WEFT_TRY(auto keys, Arena::make(memory, shape, {k, v}, {own, keys_of(group)}));
  const auto needed = needs.rows_of(group);
  WEFT_TRY(auto rows, Arena::make(memory, shape, row_tensors, {own, of_heads(needed)}));
  WEFT_TRY(auto results, Arena::make(memory, shape, {row_tensors[kQ], k, v}, {own}));
  WEFT_TRY(auto of_keys, Transfers::make(keys_of, split, rank, keys, messages));
  WEFT_TRY(auto of_rows, Transfers::make(rows_of, split, rank, rows, messages));
  // Kernels know heads by their numbers among all.
  const ring::Needs none{.sets = {}, .of = {}, .kv_heads = needs.forward().shape().kv_heads};
  auto part = part_of(needed.empty() ? none : needed[0], own, shape.n_q);
  Backward out(std::move(keys), std::move(rows), std::move(results), std::move(of_keys), std::move(of_rows),
               std::move(part));
  out.memory_ = memory;
  if (kernel.state().target.kind == TargetKind::cuda && kernel.state().plan.scales_gradients()) {
    out.bounds_ = shape.batch * needs.forward().shape().kv_heads;
    // A launch of some heads takes the entries of the batch one after another.
    out.agreements_ = split.changes_heads() ? shape.batch : 1;
  }
  return out;
}

Status Backward::run(Link& link, const Kernel& kernel, const ring::Runs& own, const HeadSlice& heads,
                     const RingArgs& args, double& wait_ms) {
  const auto& pattern = kernel.state().pattern;
  const bool has_lse = ir::has_lse(pattern), by_branch = ir::per_branch(pattern.combine);
  const auto fill = [&](Arena& arena, std::size_t number, const TensorView& from) -> Status {
    return from.data != nullptr ? arena.copy_in(number, own, from) : done;
  };
  WEFT_CHECK(fill(keys_, kK, args.k));
  WEFT_CHECK(fill(keys_, kV, args.v));
  WEFT_CHECK(fill(rows_, kQ, args.q));
  WEFT_CHECK(fill(rows_, kDOut, args.d_out));
  if (has_lse) {
    WEFT_CHECK(fill(rows_, kOut, operand(args.out)));
    WEFT_CHECK(fill(rows_, kLse, operand(by_branch ? args.branch_lse : args.lse)));
    WEFT_CHECK(fill(rows_, kDLse, args.d_lse));
  }
  WEFT_CHECK(of_keys_.post(link, keys_));
  WEFT_CHECK(of_rows_.post(link, rows_));
  WEFT_CHECK(link.wait(of_rows_.last_step(), wait_ms));
  std::vector<std::uint32_t> bounds(static_cast<std::size_t>(bounds_));
  if (own.empty()) {
    // Others are not to wait for what it would say.
    for (std::int64_t times = 0; times < agreements_; ++times) WEFT_CHECK(agree_on_bounds(link, bounds));
    return run_inputs(link, kernel, own, {}, args);
  }
  WEFT_CHECK(of_keys_.unpack(0, keys_));
  WEFT_CHECK(of_rows_.unpack(0, rows_));

  RunArgs run{.q = rows_.read(kQ), .k = keys_.read(kK), .v = keys_.read(kV), .inputs = args.inputs};
  run.head_slice = heads;
  run.d_out = rows_.read(kDOut);
  if (has_lse) {
    run.out = rows_.whole(kOut);
    (by_branch ? run.branch_lse : run.lse) = rows_.whole(kLse);
    run.d_lse = rows_.read(kDLse);
  }
  const std::array wanted = {std::pair{&run.dq, &args.dq}, std::pair{&run.dk, &args.dk}, std::pair{&run.dv, &args.dv}};
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].second->data != nullptr) *wanted[i].first = results_.whole(i);
  }
  run.dropout_seed = args.dropout_seed;
  run.threads = args.threads;
  run.stream = args.stream;
  const bool any = std::any_of(wanted.begin(), wanted.end(), [](const auto& of) { return of.second->data != nullptr; });
  std::int64_t agreed = 0;
  if (any) {
    WEFT_TRY(auto launch, check_launch(contract_of(kernel.state()), run));
    launch.part = &part_;
    launch.agree_on_bounds = [&](std::span<std::uint32_t> found) {
      ++agreed;
      return agree_on_bounds(link, found);
    };
    WEFT_CHECK(kernel.state().executor->run(launch, run));
  }
  for (; agreed < agreements_; ++agreed) WEFT_CHECK(agree_on_bounds(link, bounds));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].second->data != nullptr) WEFT_CHECK(results_.copy_out(i, own, *wanted[i].second));
  }
  return run_inputs(link, kernel, own, run, args);
}

Status Backward::run_inputs(Link& link, const Kernel& kernel, const ring::Runs& own, RunArgs run,
                            const RingArgs& args) const {
  const auto& inputs = kernel.state().pattern.inputs;
  if (std::none_of(inputs.begin(), inputs.end(), [](const auto& input) { return input.type == ir::InputType::f32; }))
    return done;
  // A rank that asks for others than the rest would wait for ever.
  std::string names;
  for (const auto& wanted : args.d_inputs) names += fmt::format("{} ", wanted.name);
  WEFT_CHECK(agree(link, {{"inputs whose gradients are wanted", names.empty() ? "none" : names}}));
  if (args.d_inputs.empty()) return done;

  std::vector<std::size_t> sizes;
  std::vector<float> sums;
  for (const auto& wanted : args.d_inputs) sizes.push_back(numbers_of(wanted.view));
  sums.resize(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}));
  WEFT_TRY(const auto of_rows, KernelBytes::make(memory_, sums.size() * sizeof(float)));
  std::vector<float> found(sums.size());
  std::vector<NamedOutput> places;
  auto* place = of_rows.data();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto& wanted = args.d_inputs[i];
    places.push_back({.name = wanted.name, .view = dense_like<void*>(wanted.view, place)});
    place += sizes[i] * sizeof(float);
  }
  run.dq = run.dk = run.dv = {};
  run.d_inputs = places;
  const auto tokens = run.k.extent[1];
  for (const auto& rows : own) {
    const std::int64_t together = rows.stride == 1 ? rows.count : 1;
    for (std::int64_t i = 0; i < rows.count; i += together) {
      const ring::Run some{rows.first + i * rows.stride, together};
      run.q = operand(rows_.rows(kQ, some));
      run.d_out = operand(rows_.rows(kDOut, some));
      if (ir::has_lse(kernel.state().pattern)) {
        run.out = rows_.rows(kOut, some);
        (ir::per_branch(kernel.state().pattern.combine) ? run.branch_lse : run.lse) = rows_.rows(kLse, some);
        run.d_lse = operand(rows_.rows(kDLse, some));
      }
      // Those that pool all rows have no slices, and here they have all rows.
      run.slice = together < tokens ? RowSlice{.first = some.first, .of = tokens} : RowSlice{};
      WEFT_CHECK(kernel.run(run));
      const Lines to{.data = reinterpret_cast<std::byte*>(found.data()), .on_host = true};
      WEFT_CHECK(memory_->copy(to, of_rows.whole(), of_rows.size(), 1));
      WEFT_CHECK(memory_->settle());
      for (std::size_t at = 0; at < sums.size(); ++at) sums[at] += found[at];
    }
  }
  WEFT_CHECK(add_over_ranks(link, sums));
  const auto* sum = reinterpret_cast<const std::byte*>(sums.data());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    WEFT_CHECK(from_host(*memory_, sum, args.d_inputs[i].view));
    sum += sizes[i] * sizeof(float);
  }
  return memory_->settle();
}

}  // namespace weft
