#include "runtime/engine/gradient_steps.h"

#include "compiler/ir/few_rows.h"
#include "runtime/cpu/part.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

namespace weft {

namespace {

using ir::Regime;

/// As codegen/cuda/device/input_sums.cuh counts them.
std::int64_t kernel_step(ir::Step::Part part) {
  return static_cast<std::int64_t>(part) - static_cast<std::int64_t>(ir::Step::Part::clear);
}

Rectangle row_of_zeros(void* begin, std::size_t words) {
  return {.begin = begin, .pitch = words * sizeof(float), .width = words * sizeof(float)};
}

std::int64_t up(std::int64_t n, std::int64_t step) { return (n + step - 1) / step * step; }

/// The largest dO of heads that share keys stand before the terms: so many numbers, whose end is aligned.
std::int64_t bounds_of(const ir::Shape& shape) { return up(shape.batch * shape.kv_heads, 4); }
/// Do the query heads of a group take turns, because each groups keys into tiles in its own way?
bool takes_heads_in_turns(const ir::Plan& transposed) {
  return std::any_of(transposed.phases.begin(), transposed.phases.end(),
                     [](const ir::Phase& phase) { return phase.rows.classes; });
}

Result<std::size_t> product(std::int64_t bytes, std::initializer_list<std::int64_t> extents, const char* what) {
  for (const auto extent : extents) {
    if (__builtin_mul_overflow(bytes, extent, &bytes) || bytes > kMostCarryBytes)
      return user_error(fmt::format("{} is larger than memory", what));
  }
  return static_cast<std::size_t>(bytes);
}

std::int64_t elements_of(const TensorView& view) {
  std::int64_t out = 1;
  for (int axis = 0; axis < view.rank; ++axis) out *= view.extent[static_cast<std::size_t>(axis)];
  return out;
}

/// The most that an input of a shape has.
std::int64_t most_elements(const ir::Input& input, const ir::Shape& shape) {
  using Kind = ir::Axis::Kind;
  std::int64_t out = 1;
  for (const auto& axis : input.axes) {
    const std::int64_t extent = axis.kind == Kind::extent    ? axis.extent
                                : axis.kind == Kind::batch   ? shape.batch
                                : axis.kind == Kind::heads   ? shape.heads
                                : axis.kind == Kind::queries ? shape.n_q
                                                             : shape.n_k;
    if (__builtin_mul_overflow(out, extent, &out)) return std::numeric_limits<std::int64_t>::max();
  }
  return out;
}

/// About as many rows of a head as can be read in the time that a launch takes.
constexpr std::int64_t kRowsOfALaunch = 256;

constexpr std::int64_t kBytesOfSum = 2 * sizeof(std::int64_t);
constexpr std::int64_t kBytesOfBounds = kWeftMostInputs * sizeof(std::uint32_t);

/// Bounds, then the sums of each input that is asked for.
void place_tables(const Launch& launch, std::byte* room, weft_args& block) {
  block.input_bounds = reinterpret_cast<std::uint32_t*>(room);
  std::byte* sums = room + kBytesOfBounds;
  for (std::size_t i = 0; i < launch.d_inputs.size(); ++i) {
    if (launch.d_inputs[i].data == nullptr) continue;
    block.input_sums[i] = reinterpret_cast<std::int64_t*>(sums);
    sums += kBytesOfSum * elements_of(launch.inputs[i]);
  }
}

weft_input output_of(const OutputView& view) {
  weft_input out = {.data = view.data, .strides = {}, .extents = {1, 1, 1, 1}};
  // Places count from the last axis, which is number 3 of the kernel's.
  const auto first = static_cast<std::size_t>(4 - view.rank);
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(view.rank); ++axis) {
    out.strides[first + axis] = view.stride[axis];
    out.extents[first + axis] = view.extent[axis];
  }
  return out;
}

/// All parts take the same power of two: what the first step found here becomes what it found anywhere.
Status agree_on_bounds(const Job& job, const Piece& piece, const Machine& machine) {
  std::vector<std::uint32_t> bounds(static_cast<std::size_t>(bounds_of(piece.shape)));
  auto* const there = piece.block.d_o_bounds;
  const auto bytes = bounds.size() * sizeof bounds[0];
  WEFT_CHECK(machine.fetch(bounds.data(), there, bytes));
  WEFT_CHECK(job.launch.agree_on_bounds(
      std::span(bounds).first(static_cast<std::size_t>(piece.shape.batch * piece.shape.kv_heads))));
  WEFT_CHECK(machine.copy(reinterpret_cast<std::int64_t*>(there), reinterpret_cast<const std::int64_t*>(bounds.data()),
                          bytes));
  // The host's numbers are read when the copy's turn comes.
  return machine.fetch(bounds.data(), there, 0);
}

}  // namespace

Status check_tiles(const Piece& piece, std::int64_t most_of_head) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  std::int64_t most = 0;
  if (!__builtin_mul_overflow(piece.first_head + piece.heads, most_of_head, &most) && most <= kMost) return done;
  return user_error(fmt::format("batch {}, {} heads and {} row tiles a head are more than the {} tiles of one launch",
                                piece.shape.batch, piece.shape.heads, piece.block.tiles_per_head, kMost));
}

Status add_gradient_room(const ir::Plan& plan, const Launch* launch, const ir::Shape& shape, RoomSizes& sizes) {
  const ir::Plan& of_keys = *plan.transposed;
  const bool once = of_keys.phases.size() == 1 && (shape.heads == shape.kv_heads || !takes_heads_in_turns(of_keys));
  WEFT_TRY(const auto carry, product(once ? 0 : of_keys.state_bytes(), {shape.batch, shape.kv_heads, shape.n_k},
                                     "the state that keys carry between launches"));
  sizes.carry = std::max(sizes.carry, carry);
  if (plan.finds_terms()) {
    const auto softmaxes = std::ssize(plan.phases.front().passes);
    const bool packed = launch != nullptr && launch->packed_q;
    const auto rows = packed ? launch->packed_rows : shape.rows_computed();
    WEFT_TRY(sizes.terms, product(2 * sizeof(float), {softmaxes, packed ? 1 : shape.batch, shape.heads, rows},
                                  "what is known of each query"));
    sizes.terms += static_cast<std::size_t>(bounds_of(shape)) * sizeof(float);
  }
  if (!plan.of_inputs) return done;
  std::int64_t bytes = kBytesOfBounds;
  for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
    if (plan.inputs[i].type != ir::InputType::f32) continue;
    if (launch != nullptr && (launch->d_inputs.empty() || launch->d_inputs[i].data == nullptr)) continue;
    const auto elements = launch != nullptr ? elements_of(launch->inputs[i]) : most_elements(plan.inputs[i], shape);
    WEFT_TRY(const auto of_input, product(kBytesOfSum, {elements}, "the sum of an input's gradients"));
    bytes += static_cast<std::int64_t>(of_input);
  }
  if (bytes > kBytesOfBounds) sizes.input_sums = static_cast<std::size_t>(bytes);
  return done;
}

void place_terms(const Job& job, const Piece& piece, const Room& room, weft_args& block) {
  block.d_o_bounds = reinterpret_cast<std::uint32_t*>(room.terms);
  if (room.terms == nullptr) return;
  const auto softmaxes = std::ssize(job.kernel.plan.phases.front().passes);
  const bool packed = job.launch.packed_q;
  block.terms_stride_h = packed ? job.launch.packed_rows : job.launch.shape.rows_computed();
  block.terms_stride_b = packed ? 0 : softmaxes * job.launch.shape.heads * block.terms_stride_h;
  block.query_terms = room.terms + bounds_of(piece.shape) + 2 * piece.first_q;
}

namespace {

/// Rows [first, end) of a gradient.
Status clear_rows(const OutputView& view, std::int64_t first, std::int64_t end, const Machine& machine) {
  if (view.data == nullptr || first >= end) return done;
  const auto bytes = static_cast<std::int64_t>(size_of(view.dtype));
  const bool side_by_side = view.stride[2] == view.extent[3];
  const auto heads = side_by_side ? view.extent[2] : 1;
  for (std::int64_t h = 0; h < view.extent[2]; h += heads) {
    const auto at = first * view.stride[1] + h * view.stride[2];
    WEFT_CHECK(machine.clear({.begin = static_cast<std::byte*>(view.data) + at * bytes,
                              .pitch = static_cast<std::size_t>(view.stride[1] * bytes),
                              .width = static_cast<std::size_t>(heads * view.extent[3] * bytes),
                              .height = static_cast<std::size_t>(end - first)}));
  }
  return done;
}

}  // namespace

Status clear_rows_of_nobody(const Launch& launch, const RunArgs& args, const Machine& machine) {
  if (launch.sequences.empty() || launch.sizes_in_memory) return done;  // where those are, a kernel finds out
  const auto around = [&](const OutputView& view, std::int64_t begin, std::int64_t end) -> Status {
    WEFT_CHECK(clear_rows(view, 0, begin, machine));
    return clear_rows(view, end, view.extent[1], machine);
  };
  const Sequence &first = launch.sequences.front(), &last = launch.sequences.back();
  if (launch.packed_q) WEFT_CHECK(around(args.dq, first.first_q, last.first_q + last.n_q));
  if (!launch.packed_k) return done;
  WEFT_CHECK(around(args.dk, first.first_k, last.first_k + last.n_k));
  return around(args.dv, first.first_k, last.first_k + last.n_k);
}

Status run_terms(const Job& job, const ir::Step& step, Piece& piece, const Machine& machine) {
  const std::int64_t rows = piece.shape.rows_computed();
  weft_args& block = piece.block;
  if (rows == 0) return done;
  if (job.kernel.plan.scales_gradients()) {
    const auto bounds = static_cast<std::size_t>(piece.shape.batch * piece.shape.kv_heads);
    WEFT_CHECK(machine.clear(row_of_zeros(block.d_o_bounds, bounds)));
  }
  if (piece.shape.n_k == 0) return done;
  WEFT_CHECK(check_tiles(piece, rows));
  block.phase = 0;
  std::vector<walk::TileRange> ranges = {{block.row_begin, block.row_end}};
  if (job.launch.part != nullptr) {
    // Rows that are not there are zeros, as are their terms: tiles hold some of them. A few between others cost less
    // than a launch.
    ranges = stretches_of(job.launch.part->all_there(), kRowsOfALaunch);
    const auto of_entry = 2 * std::ssize(job.kernel.plan.phases.front().passes) * piece.shape.heads * rows;
    WEFT_CHECK(machine.clear(row_of_zeros(block.query_terms + piece.first_entry() * of_entry,
                                          static_cast<std::size_t>(piece.entries() * of_entry))));
  }
  for (const auto& range : ranges) {
    take_tiles(range, block);
    const std::int64_t count = block.tiles_per_head;
    block.tile_begin = piece.first_head * count;
    block.tile_end = block.tile_begin + piece.heads * count;
    const auto blocks = step.grid.blocks({.heads = piece.heads, .rows = count});
    WEFT_CHECK(machine.run({.step = step, .blocks = blocks, .args = &block, .piece = &piece}));
  }
  if (!job.kernel.plan.scales_gradients() || !job.launch.agree_on_bounds) return done;
  return agree_on_bounds(job, piece, machine);
}

Status run_keys(const Job& job, Steps phases, Piece& piece, const Room& room, const RunTurn& run) {
  const ir::Plan& of_keys = *job.kernel.plan.transposed;
  const std::int64_t group = piece.shape.heads / piece.shape.kv_heads;
  weft_args& block = piece.block;
  const auto& tables = use_tables(job, room, Regime::transposed, block);
  const bool in_turns = phases.front().head_turns;
  for (std::int64_t head = 0; head < (in_turns ? group : 1); ++head) {
    block.group_begin = in_turns ? head : 0;
    block.group_end = in_turns ? head + 1 : group;
    for (const auto& step : phases) {
      block.phase = step.number;
      const auto number = static_cast<std::size_t>(step.number);
      number_tiles(of_keys, tables, number, piece, block);
      WEFT_CHECK(check_tiles(piece, block.tiles_per_head));
      std::vector<walk::TileRange> ranges = {{block.tile_first, block.tile_first + block.tiles_per_head}};
      if (job.launch.part != nullptr)
        ranges = tiles_of_part(of_keys, tables, number, piece.shape, job.launch.part->own);
      for (const auto& range : ranges) {
        take_tiles(range, block);
        const std::int64_t tiles = block.tiles_per_head;
        block.tile_begin = piece.first_head / group * tiles;
        block.tile_end = block.tile_begin + piece.heads / group * tiles;
        const auto blocks = step.grid.blocks({.kv_heads = piece.heads / group, .tiles = tiles});
        WEFT_CHECK(run({.step = step, .blocks = blocks, .args = &block, .piece = &piece}));
      }
    }
  }
  return done;
}

Status run_input_gradients(const Job& job, Steps steps, std::vector<Piece>& pieces, const Room& room,
                           const RunTurn& run) {
  const Launch& launch = job.launch;
  if (steps.empty() || pieces.empty() || !launch.wants_d_inputs()) return done;
  const ir::Plan& plan = *job.kernel.plan.of_inputs;
  const auto& tables = *job.beside[static_cast<std::size_t>(Regime::inputs)];
  std::int64_t blocks = 0;
  for (auto& piece : pieces) {
    weft_args& block = piece.block;
    use_tables(job, room, Regime::inputs, block);
    place_tables(launch, room.input_sums, block);
    for (std::size_t phase = 0; phase < plan.phases.size() && piece.shape.rows_computed() > 0; ++phase) {
      number_tiles(plan, tables, phase, piece, block);
      WEFT_CHECK(check_tiles(piece, block.tiles_per_head));
      blocks += piece.heads * block.tiles_per_head;
    }
  }
  // Every thread adds up to 16 elements, each of several phases.
  const auto adders = static_cast<std::uint64_t>(std::max<std::int64_t>(blocks, 1) * plan.choices.threads * 16);
  for (auto& piece : pieces) piece.block.input_share = static_cast<std::int64_t>(std::bit_width(adders));
  const auto of_tables = [&](const ir::Step& step) -> Status {
    weft_args block = pieces.front().block;
    for (std::size_t i = 0; i < launch.d_inputs.size(); ++i) {
      if (launch.d_inputs[i].data == nullptr) continue;
      block.input_number = static_cast<std::int64_t>(i);
      block.d_input = output_of(launch.d_inputs[i]);
      block.input_step = kernel_step(step.part);
      WEFT_CHECK(run({.step = step,
                      .blocks = step.grid.blocks({.elements = elements_of(launch.inputs[i])}),
                      .args = &block,
                      .piece = &pieces.front()}));
    }
    return done;
  };
  const auto of_pairs = [&](const ir::Step& step) -> Status {
    for (auto& piece : pieces) {
      if (piece.shape.rows_computed() == 0) continue;
      weft_args& block = piece.block;
      block.input_step = kernel_step(step.part);
      block.phase = step.number;
      number_tiles(plan, tables, static_cast<std::size_t>(step.number), piece, block);
      const std::int64_t tiles = block.tiles_per_head;
      block.tile_begin = piece.first_head * tiles;
      block.tile_end = block.tile_begin + piece.heads * tiles;
      const auto of_piece = step.grid.blocks({.heads = piece.heads, .tiles = tiles});
      WEFT_CHECK(run({.step = step, .blocks = of_piece, .args = &block, .piece = &piece}));
    }
    return done;
  };
  for (const auto& step : steps) {
    WEFT_CHECK(step.kernel == ir::Step::Kernel::inputs ? of_pairs(step) : of_tables(step));
  }
  return done;
}

}  // namespace weft
