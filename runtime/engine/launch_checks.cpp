#include "runtime/engine/launch_checks.h"

#include "compiler/ir/chosen_keys.h"
#include "compiler/ir/launchable.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <string>

#include "runtime/engine/chosen_lists.h"
#include "runtime/engine/front.h"
#include "runtime/engine/gradient_checks.h"
#include "runtime/engine/memory_checks.h"
#include "runtime/engine/sizes_at.h"
#include "runtime/engine/view_checks.h"

namespace weft {

namespace {

constexpr Names kPageAxes = {"pages", "page size", "heads", "dim"};
constexpr Names kListAxes = {"batch", "heads", "rows", "places"};
constexpr Names kTableAxes = {"batch", "pages", "", ""};

constexpr std::int64_t kMaxTokens = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxHeads = 65535;  // counters of the random numbers hold sixteen bits of each

}  // namespace

Status check_sizes(const ir::Pattern& pattern, const ir::Shape& shape) {
  const auto fixed = [](const char* what, const std::optional<std::int64_t>& wanted, std::int64_t found) -> Status {
    if (!wanted || *wanted == found) return done;
    return user_error(fmt::format("the tensors have {} {}; the pattern is bound to {}", what, found, *wanted));
  };
  WEFT_CHECK(fixed("heads", pattern.heads, shape.heads));
  WEFT_CHECK(fixed("kv heads", pattern.kv_heads, shape.kv_heads));
  WEFT_CHECK(fixed("dim", pattern.dim, shape.d));
  WEFT_CHECK(fixed("value dim", pattern.dim_v, shape.d_v));
  if (shape.heads % shape.kv_heads != 0) {
    return user_error(fmt::format("q has {} heads, which is no multiple of the {} of k", shape.heads, shape.kv_heads));
  }
  if (shape.n_q > kMaxTokens || shape.n_k > kMaxTokens) {
    return user_error(
        fmt::format("{} tokens are more than the {} of one sequence", std::max(shape.n_q, shape.n_k), kMaxTokens));
  }
  if (shape.heads > kMaxHeads || shape.batch > kMaxHeads) {
    return user_error(fmt::format("batch {} and heads {} must be below 65536", shape.batch, shape.heads));
  }
  const auto& tokens = pattern.tokens;
  if (tokens.kind == ir::Tokens::Kind::exact && tokens.count != shape.n_k) {
    return user_error(fmt::format("k has {} tokens; the pattern says tokens {}", shape.n_k, tokens.count));
  }
  if (tokens.kind == ir::Tokens::Kind::multiple_of && shape.n_k % tokens.count != 0) {
    return user_error(fmt::format("k has {} tokens; the pattern says tokens multiple_of {}", shape.n_k, tokens.count));
  }
  if (!pattern.grid.empty()) {
    std::int64_t cells = 1;
    for (auto extent : pattern.grid) cells *= extent;
    if (cells != shape.n_k) {
      return user_error(fmt::format("k has {} tokens; the pattern's grid has {} cells", shape.n_k, cells));
    }
  }
  return done;
}

namespace {

/// The tensors themselves, and the sizes that they alone tell: of packed and paged ones not yet the lengths.
Result<ir::Shape> check_tensors(const LaunchContract& contract, const RunArgs& args) {
  const auto dtype = contract.any_float ? args.q.dtype : contract.dtype;
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16 && dtype != DType::f64) {
    return user_error(fmt::format("q is {}; expected a float type", to_string(dtype)));
  }
  const Names& key_axes = contract.paged ? kPageAxes : kRowAxes;
  WEFT_CHECK(check_view("q", args.q, dtype, 4, kRowAxes));
  WEFT_CHECK(check_view("k", args.k, dtype, 4, key_axes));
  WEFT_CHECK(check_view("v", args.v, dtype, 4, key_axes));
  const auto& q = args.q.extent;
  const auto& k = args.k.extent;
  if (!contract.paged) WEFT_CHECK(expect_extent("k", args.k, 0, kRowAxes, q[0], "as in q"));
  WEFT_CHECK(expect_extent("k", args.k, 3, key_axes, q[3], "as in q"));
  WEFT_CHECK(expect_extent("v", args.v, 0, key_axes, k[0], "as in k"));
  WEFT_CHECK(expect_extent("v", args.v, 1, key_axes, k[1], "as in k"));
  WEFT_CHECK(expect_extent("v", args.v, 2, key_axes, k[2], "as in k"));
  if (!contract.gradient) {
    WEFT_CHECK(check_rows_of_o("out", args.out, args));
    WEFT_CHECK(check_distinct("out", args.out, kRowAxes));
  }
  return ir::Shape{
      .batch = q[0], .n_q = q[1], .n_k = k[1], .heads = q[2], .kv_heads = k[2], .d = q[3], .d_v = args.v.extent[3]};
}

/// Cumulative lengths that ascend from 0 or more to no more than there is.
Status check_cumulative(const char* name, std::span<const std::int64_t> cu, const char* tensor,
                        const TensorView& view) {
  if (cu.size() < 2) return user_error(fmt::format("{} has {} entries; one sequence has two", name, cu.size()));
  if (view.extent[0] != 1) {
    return user_error(
        fmt::format("{}, dimension 0 (batch): the extent is {}; packed sequences have 1", tensor, view.extent[0]));
  }
  if (cu.front() < 0) return user_error(fmt::format("{}[0] is {}; it must be 0 or more", name, cu.front()));
  for (std::size_t i = 1; i < cu.size(); ++i) {
    if (cu[i] < cu[i - 1]) {
      return user_error(fmt::format("{}[{}] is {}, less than the {} before it", name, i, cu[i], cu[i - 1]));
    }
  }
  if (cu.back() <= view.extent[1]) return done;
  return user_error(fmt::format("{} ends at {}; {} has {} tokens", name, cu.back(), tensor, view.extent[1]));
}

Status check_table(const RunArgs& args, std::int64_t batch) {
  WEFT_CHECK(check_view("pages", args.pages, DType::i32, 2, kTableAxes));
  WEFT_CHECK(expect_extent("pages", args.pages, 0, kTableAxes, batch, "one row per sequence"));
  if (args.k.extent[0] > kMaxTokens || args.k.extent[1] > kMaxTokens) {
    return user_error(fmt::format("{} pages of {} tokens are more than the {} that can be numbered", args.k.extent[0],
                                  args.k.extent[1], kMaxTokens));
  }
  return done;
}

Status check_pages(const RunArgs& args, std::int64_t batch) {
  const auto lengths = static_cast<std::int64_t>(args.kv_lengths.size());
  if (lengths != batch) {
    return user_error(fmt::format("{} kv_lengths are given; expected one per sequence ({})", lengths, batch));
  }
  WEFT_CHECK(check_table(args, batch));
  std::int64_t room = 0;
  if (__builtin_mul_overflow(args.pages.extent[1], args.k.extent[1], &room)) room = kMaxTokens;
  for (std::int64_t b = 0; b < batch; ++b) {
    const auto tokens = args.kv_lengths[static_cast<std::size_t>(b)];
    if (tokens >= 0 && tokens <= room) continue;
    return user_error(fmt::format("kv_lengths[{}] is {}; {} pages of {} tokens hold 0 to {}", b, tokens,
                                  args.pages.extent[1], args.k.extent[1], room));
  }
  return done;
}

/// Sequences whose sizes stand in the GPU's memory: each may be as long as any.
Status take_sizes_at(const LaunchContract& contract, const RunArgs& args, Launch& launch) {
  WEFT_CHECK(check_sizes_at(contract, args));
  const SizesAt& at = args.sizes_at;
  launch.packed_q = at.cu_q != nullptr;
  launch.packed_k = at.cu_k != nullptr;
  WEFT_CHECK(expect_extent("q", args.q, 0, kRowAxes, launch.packed_q ? 1 : at.sequences, "as sizes_at says"));
  if (launch.packed_k) WEFT_CHECK(expect_extent("k", args.k, 0, kRowAxes, 1, "as sizes_at says"));
  if (contract.paged) WEFT_CHECK(check_table(args, at.sequences));
  ir::Shape& shape = launch.shape;
  shape.batch = at.sequences;
  if (launch.packed_q) shape.n_q = at.most_q;
  if (at.most_k != 0) shape.n_k = at.most_k;
  launch.packed_rows = launch.packed_q ? args.q.extent[1] : 0;
  launch.sizes_in_memory = true;
  for (std::int64_t b = 0; b < shape.batch; ++b)
    launch.sequences.push_back({.b = b, .n_q = shape.n_q, .n_k = shape.n_k});
  return done;
}

/// Sequences of different lengths, where the launch has any.
Status find_sequences(const LaunchContract& contract, const RunArgs& args, Launch& launch) {
  const bool packed_q = !args.cu_q.empty(), packed_k = !args.cu_k.empty();
  if (contract.paged != (args.pages.data != nullptr)) {
    return user_error(contract.paged ? "pages has no data, but the kernel was compiled for K and V in pages"
                                     : "pages are given, but the kernel was compiled without CompileOptions::paged");
  }
  if (args.sizes_at.sequences != 0) return take_sizes_at(contract, args, launch);
  if (!packed_q && !packed_k && !contract.paged) return done;
  if (contract.any_float) return user_error("the interpreter takes tensors of one length: no cu_q, cu_k or pages");
  if (packed_q == contract.paged ? packed_k : packed_k != packed_q) {
    return user_error(contract.paged ? "K and V in pages have kv_lengths, not cu_k" : "cu_q and cu_k go together");
  }
  if (packed_q) WEFT_CHECK(check_cumulative("cu_q", args.cu_q, "q", args.q));
  if (packed_k) WEFT_CHECK(check_cumulative("cu_k", args.cu_k, "k", args.k));
  if (packed_k && args.cu_k.size() != args.cu_q.size()) {
    return user_error(fmt::format("cu_q has {} entries and cu_k {}", args.cu_q.size(), args.cu_k.size()));
  }
  ir::Shape& shape = launch.shape;
  if (packed_q) shape.batch = static_cast<std::int64_t>(args.cu_q.size()) - 1;
  if (contract.paged) WEFT_CHECK(check_pages(args, shape.batch));
  std::int64_t most_q = 0, most_k = 0;
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    const auto at = static_cast<std::size_t>(b);
    Sequence s{.b = b, .n_q = shape.n_q};
    if (packed_q) s.first_q = args.cu_q[at], s.n_q = args.cu_q[at + 1] - s.first_q;
    if (packed_k) s.first_k = args.cu_k[at];
    s.n_k = packed_k ? args.cu_k[at + 1] - s.first_k : args.kv_lengths[at];
    most_q = std::max(most_q, s.n_q);
    most_k = std::max(most_k, s.n_k);
    launch.sequences.push_back(s);
  }
  shape.n_q = most_q;
  shape.n_k = most_k;
  launch.packed_q = packed_q;
  launch.packed_rows = packed_q ? args.q.extent[1] : 0;
  launch.packed_k = packed_k;
  return done;
}

/// As far as they are given: a backward pass reads what its forward was given to write.
Status check_lse(const LaunchContract& contract, const RunArgs& args) {
  const bool any = args.lse.data != nullptr || args.branch_lse.data != nullptr;
  if (any && !ir::has_lse(contract.pattern)) {
    return user_error("an LSE is asked for, and 'weights sigmoid' divides by no sum: it has none");
  }
  if (args.lse.data != nullptr) {
    const auto combine = contract.pattern.combine;
    if (ir::per_branch(combine)) {
      return user_error(
          fmt::format("combine {} has an LSE per branch only: ask for branch_lse", ir::to_string(combine)));
    }
    WEFT_CHECK(check_rows_of_lse("lse", args.lse, std::nullopt, args));
    WEFT_CHECK(check_distinct("lse", args.lse, kLseAxes));
  }
  if (args.branch_lse.data != nullptr) {
    if (!contract.branch_lse && !contract.gradient) {
      return user_error("branch_lse was not asked for when the pattern was compiled (CompileOptions::branch_lse)");
    }
    WEFT_CHECK(check_branch_lse(contract.pattern));
    WEFT_CHECK(check_rows_of_lse("branch_lse", args.branch_lse, std::ssize(contract.pattern.branches), args));
    WEFT_CHECK(check_distinct("branch_lse", args.branch_lse, kBranchLseAxes));
  }
  return done;
}

const char* name_of(ir::Axis::Kind kind) {
  constexpr const char* kNames[] = {"batch", "heads", "queries", "keys", "tokens", "blocks", "extent"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(ir::Axis::Kind::extent) + 1);
  return kNames[static_cast<std::size_t>(kind)];
}

Status check_input(const ir::Input& input, const TensorView& view, const ir::Shape& shape) {
  const auto name = fmt::format("input '{}'", input.name);
  const auto rank = static_cast<int>(input.axes.size());
  if (rank > kMaxRank) return user_error(fmt::format("{} has {} axes; at most {} can be given", name, rank, kMaxRank));
  Names axes = {};
  for (std::size_t i = 0; i < input.axes.size(); ++i) axes[i] = name_of(input.axes[i].kind);
  WEFT_CHECK(check_view(name, view, from_ir(input.type), rank, axes));
  for (int i = 0; i < rank; ++i) {
    const auto extent = ir::extent_of(input.axes[static_cast<std::size_t>(i)], input, shape);
    WEFT_CHECK(expect_extent(name, view, i, axes, extent, "from the sizes of q and k"));
  }
  return done;
}

Result<std::vector<TensorView>> check_inputs(const ir::Pattern& pattern, const RunArgs& args, const ir::Shape& shape) {
  std::vector<TensorView> ordered(pattern.inputs.size());
  std::vector<bool> given(pattern.inputs.size(), false);
  for (const auto& named : args.inputs) {
    std::size_t at = 0;
    while (at < pattern.inputs.size() && pattern.inputs[at].name != named.name) ++at;
    if (at == pattern.inputs.size()) return user_error(fmt::format("the pattern has no input '{}'", named.name));
    if (given[at]) return user_error(fmt::format("input '{}' is given twice", named.name));
    WEFT_CHECK(check_input(pattern.inputs[at], named.view, shape));
    ordered[at] = named.view;
    given[at] = true;
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!given[i]) return user_error(fmt::format("input '{}' is missing", pattern.inputs[i].name));
  }
  return ordered;
}

Status check_offsets(std::span<const std::int64_t> given, std::int64_t batch) {
  const auto offsets = static_cast<std::int64_t>(given.size());
  if (offsets > 1 && offsets != batch) {
    return user_error(fmt::format("{} offsets are given; expected one, or one per batch entry ({})", offsets, batch));
  }
  for (auto offset : given) {
    if (offset < -kMaxTokens || offset > kMaxTokens) {
      return user_error(fmt::format("offset {} is beyond the {} tokens of one sequence", offset, kMaxTokens));
    }
  }
  return done;
}

/// Rows `n_q` of a shape become those of the whole sequence, of which the launch has so many.
Status take_slice(const RowSlice& slice, ir::Shape& shape) {
  if (slice.of == 0 && slice.first == 0) return done;
  if (slice.first < 0 || slice.of < 1 || slice.of > kMaxTokens || slice.first > slice.of - shape.n_q) {
    return user_error(
        fmt::format("the slice has {} rows from row {} on, of a sequence of {}; it must lie in one of 1 to {}",
                    shape.n_q, slice.first, slice.of, kMaxTokens));
  }
  shape.row_begin = slice.first;
  shape.rows = shape.n_q;
  shape.n_q = slice.of;
  return done;
}

/// Heads of a shape become all heads, of which the launch has so many.
Status take_head_slice(const HeadSlice& slice, ir::Shape& shape) {
  if (slice.of == 0 && slice.first == 0) return done;
  if (slice.first < 0 || slice.of < 1 || slice.of > kMaxHeads || slice.first > slice.of - shape.heads) {
    return user_error(fmt::format("the slice has {} heads from head {} on, of {}; it must lie in one of 1 to {}",
                                  shape.heads, slice.first, slice.of, kMaxHeads));
  }
  if (shape.heads % shape.kv_heads != 0) return done;  // check_sizes says so
  const auto group = shape.group();
  if (slice.first % group != 0 || slice.of % group != 0) {
    return user_error(
        fmt::format("the slice has heads {} to {} of {}, and {} heads share one of k and v: it must begin "
                    "and end between such groups",
                    slice.first, slice.first + shape.heads - 1, slice.of, group));
  }
  shape.head_begin = slice.first;
  shape.head_count = shape.heads;
  shape.heads = slice.of;
  shape.kv_heads = slice.of / group;
  return done;
}

/// What a slice of a sequence cannot be computed of.
Status check_slice(const ir::Pattern& pattern, const Launch& launch) {
  if (!launch.shape.is_slice()) return done;
  if (launch.packed_q) return user_error("packed sequences (cu_q) have no slice: leave out sequences or rows of them");
  for (const auto& chosen : ir::chosen_sets(pattern)) {
    if (chosen.set->kind != ir::SetKind::top || chosen.set->input >= 0) continue;
    return user_error(
        fmt::format("{} scores blocks by the mean of their queries: a slice of the rows has not all of them",
                    ir::print(chosen, pattern)));
  }
  return done;
}

/// Sizes as one of several sequences has them.
ir::Shape shape_of(const Launch& launch, const Sequence& s) {
  ir::Shape one = launch.shape;
  one.batch = 1;
  one.n_q = s.n_q;
  one.n_k = s.n_k;
  if (one.offset.size() > 1) one.offset = {one.offset[static_cast<std::size_t>(s.b)]};
  return one;
}

/// A sequence without queries asks for nothing; what indices leave the longest will do for all.
Status check_meaning(const ir::Pattern& pattern, const Launch& launch) {
  const auto sequences = launch.kinds();
  if (sequences.empty()) {
    WEFT_CHECK(ir::check_meaning(pattern, launch.shape));
    return ir::check_indices(pattern, launch.shape);
  }
  for (const auto& s : sequences) {
    if (s.n_q > 0) WEFT_CHECK(ir::check_meaning(pattern, shape_of(launch, s)));
  }
  const auto longest = std::max_element(sequences.begin(), sequences.end(),
                                        [](const Sequence& a, const Sequence& b) { return a.n_k < b.n_k; });
  return longest->n_q > 0 && longest->n_k > 0 ? ir::check_indices(pattern, shape_of(launch, *longest)) : done;
}

Status check_lists(const ir::Pattern& pattern, const RunArgs& args, Launch& launch) {
  if (args.lists.empty()) return done;
  const auto lists = chosen_lists(pattern, launch.shape);
  if (args.lists.size() != lists.size()) {
    return user_error(
        fmt::format("{} lists are given; the pattern has {} (Kernel::lists)", args.lists.size(), lists.size()));
  }
  if (!launch.sequences.empty()) {
    return user_error("lists cannot be had of packed sequences and pages: each sequence has lists of its own");
  }
  for (std::size_t i = 0; i < lists.size(); ++i) {
    const auto& view = args.lists[i];
    if (view.data == nullptr) continue;
    const auto name = fmt::format("list {}, {}", i, lists[i].set);
    WEFT_CHECK(check_view(name, view, DType::i32, 4, kListAxes));
    WEFT_CHECK(check_distinct(name, view, kListAxes));
    for (int axis = 0; axis < kMaxRank; ++axis) {
      WEFT_CHECK(expect_extent(name, view, axis, kListAxes, lists[i].extent[static_cast<std::size_t>(axis)],
                               "as Kernel::lists says"));
    }
  }
  launch.lists.assign(args.lists.begin(), args.lists.end());
  return done;
}

/// As the host knows it.
Result<std::uint64_t> check_seed(const LaunchContract& contract, const RunArgs& args) {
  if (args.dropout_seed_at == nullptr) return args.dropout_seed;
  if (reinterpret_cast<std::uintptr_t>(args.dropout_seed_at) % alignof(std::uint64_t) != 0)
    return user_error("dropout_seed_at is misaligned; expected a multiple of 8 bytes");
  return contract.on_host ? *args.dropout_seed_at : args.dropout_seed;
}

}  // namespace

Status check_threads(int threads) {
  if (threads >= 0 && threads <= kMostThreads) return done;
  return user_error(fmt::format("threads is {}; it must be 0 to {}", threads, kMostThreads));
}

Result<ir::Shape> check_shape(const RunShape& shape, std::span<const std::int64_t> offset) {
  struct {
    const char* what;
    std::int64_t size, most;
  } const sizes[] = {{"batch", shape.batch, kMaxHeads},
                     {"n_q", shape.n_q, kMaxTokens},
                     {"n_k", shape.n_k, kMaxTokens},
                     {"heads", shape.heads, kMaxHeads},
                     {"kv_heads", shape.kv_heads, kMaxHeads}};
  for (const auto& [what, size, most] : sizes) {
    if (size < 1 || size > most) return user_error(fmt::format("{} is {}; it must be 1 to {}", what, size, most));
  }
  if (shape.heads % shape.kv_heads != 0)
    return user_error(fmt::format("heads is {}, which is no multiple of kv_heads, {}", shape.heads, shape.kv_heads));
  WEFT_CHECK(check_offsets(offset, shape.batch));
  ir::Shape out{.batch = shape.batch,
                .n_q = shape.n_q,
                .n_k = shape.n_k,
                .heads = shape.heads,
                .kv_heads = shape.kv_heads,
                .offset = {offset.begin(), offset.end()}};
  WEFT_CHECK(take_slice(shape.slice, out));
  WEFT_CHECK(take_head_slice(shape.head_slice, out));
  return out;
}

Result<Launch> check_launch(const LaunchContract& contract, const RunArgs& args) {
  Launch launch;
  WEFT_CHECK(check_spans(args));
  WEFT_TRY(launch.shape, check_tensors(contract, args));
  WEFT_CHECK(take_slice(args.slice, launch.shape));
  WEFT_CHECK(take_head_slice(args.head_slice, launch.shape));
  WEFT_CHECK(find_sequences(contract, args, launch));
  WEFT_CHECK(check_slice(contract.pattern, launch));
  const auto& shape = launch.shape;
  if (launch.sequences.empty()) WEFT_CHECK(check_sizes(contract.pattern, shape));
  for (const auto& s : launch.kinds()) {
    WEFT_CHECK(check_sizes(contract.pattern, shape_of(launch, s)));
  }
  WEFT_CHECK(check_lse(contract, args));
  WEFT_CHECK(check_offsets(args.offset, shape.batch));
  launch.shape.offset.assign(args.offset.begin(), args.offset.end());
  WEFT_TRY(launch.shape.dropout_seed, check_seed(contract, args));
  WEFT_TRY(launch.inputs, check_inputs(contract.pattern, args, shape));
  WEFT_CHECK(check_gradients(contract, args, launch));
  WEFT_CHECK(check_meaning(contract.pattern, launch));
  WEFT_CHECK(check_lists(contract.pattern, args, launch));
  if (contract.paged && contract.on_host && !launch.sizes_in_memory) WEFT_CHECK(check_page_numbers(launch, args));
  WEFT_CHECK(check_apart(contract.pattern, launch, args));
  return launch;
}

}  // namespace weft
