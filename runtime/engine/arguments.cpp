#include "runtime/engine/arguments.h"

#include "compiler/ir/few_rows.h"
#include "compiler/ir/schedule.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace weft {

namespace {

static_assert(ir::kMostInputs == kWeftMostInputs && ir::kMostLists == kWeftMostLists);
static_assert(ir::kMostAxes == std::extent_v<decltype(weft_input::extents)>);

template <typename Pointer>
weft_view view_of(const View<Pointer>& view) {
  return {.data = const_cast<void*>(static_cast<const void*>(view.data)),
          .stride_b = view.stride[0],
          .stride_n = view.stride[1],
          .stride_h = view.stride[2]};
}

void set_inputs(weft_args& to, const std::vector<TensorView>& inputs) {
  for (std::size_t i = 0; i < inputs.size() && i < kWeftMostInputs; ++i) {
    to.inputs[i].data = inputs[i].data;
    std::copy(inputs[i].stride.begin(), inputs[i].stride.end(), to.inputs[i].strides);
    std::copy(inputs[i].extent.begin(), inputs[i].extent.end(), to.inputs[i].extents);
  }
}

void set_gradients(weft_args& to, const RunArgs& args) {
  to.d_o = view_of(args.d_out);
  to.d_q = view_of(args.dq);
  to.d_k = view_of(args.dk);
  to.d_v = view_of(args.dv);
  const auto axes = static_cast<std::size_t>(args.d_lse.rank);
  to.d_lse = static_cast<const float*>(args.d_lse.data);
  if (to.d_lse != nullptr) {  // [B, H, n], or for each branch
    to.d_lse_stride = axes == 4 ? args.d_lse.stride[0] : 0;
    to.d_lse_stride_b = args.d_lse.stride[axes - 3];
    to.d_lse_stride_h = args.d_lse.stride[axes - 2];
  }
}

/// Tensors of a slice begin with its first row and head: addresses count from row 0 and head 0, which are not there.
void begin_before(const ir::Shape& shape, std::size_t element_bytes, weft_args& to) {
  const std::int64_t rows = shape.row_begin, heads = shape.head_begin, kv_heads = heads / shape.group();
  const auto back = [](auto*& data, std::int64_t bytes) {
    using Data = std::remove_reference_t<decltype(data)>;
    data = reinterpret_cast<Data>(reinterpret_cast<std::uintptr_t>(data) - static_cast<std::uintptr_t>(bytes));
  };
  const auto view_back = [&](weft_view& view, std::int64_t elements) {
    if (view.data != nullptr) back(view.data, elements * static_cast<std::int64_t>(element_bytes));
  };
  for (weft_view* view : {&to.q, &to.o, &to.d_o, &to.d_q})
    view_back(*view, rows * view->stride_n + heads * view->stride_h);
  for (weft_view* view : {&to.k, &to.v, &to.d_k, &to.d_v}) view_back(*view, kv_heads * view->stride_h);
  const auto lse_back = [&](auto*& lse, std::int64_t stride_h) {
    if (lse != nullptr) back(lse, (rows + heads * stride_h) * static_cast<std::int64_t>(sizeof(float)));
  };
  lse_back(to.d_lse, to.d_lse_stride_h);
  lse_back(to.lse, to.lse_stride_h);
  lse_back(to.branch_lse, to.branch_lse_stride_h);
}

weft_args argument_block(const ir::Plan& plan, const Launch& launch, const RunArgs& args) {
  const auto& shape = launch.shape;
  weft_args to = {};
  to.abi = kWeftArgsAbi;
  to.heads_per_tile = 1;
  to.batch = shape.batch;
  to.n_q = shape.n_q;
  to.row_begin = shape.row_begin;
  to.row_end = shape.row_end();
  to.n_k = shape.n_k;
  to.heads = shape.heads;
  to.kv_heads = shape.kv_heads;
  to.q = view_of(args.q);
  to.k = view_of(args.k);
  to.v = view_of(args.v);
  to.o = view_of(args.out);
  to.lse = static_cast<float*>(args.lse.data);
  to.lse_stride_b = args.lse.stride[0];
  to.lse_stride_h = args.lse.stride[1];
  to.branch_lse = static_cast<float*>(args.branch_lse.data);
  to.branch_lse_stride = args.branch_lse.stride[0];
  to.branch_lse_stride_b = args.branch_lse.stride[1];
  to.branch_lse_stride_h = args.branch_lse.stride[2];
  to.offsets = args.offset.size() > 1 ? args.offset.data() : nullptr;
  to.offset = args.offset.empty() ? shape.n_k - shape.n_q : args.offset.front();
  to.scale = plan.scale.value_or(1 / std::sqrt(static_cast<double>(plan.bind.d)));
  to.seed = args.dropout_seed;
  to.seed_at = args.dropout_seed_at;
  to.pages = static_cast<const std::int32_t*>(args.pages.data);
  to.page_stride = args.pages.stride[0];
  to.page_size = args.pages.data != nullptr ? args.k.extent[1] : 0;
  to.page_count = args.pages.data != nullptr ? args.k.extent[0] : 0;
  set_inputs(to, launch.inputs);
  if (launch.gradient) set_gradients(to, args);
  begin_before(shape, size_of(args.q.dtype), to);
  return to;
}

/// Where gradients are written piece by piece, tokens that belong to no sequence have one of their own: of queries
/// without keys, or of keys without queries, and what these get is 0.
std::vector<Sequence> with_gaps(const Launch& launch, const RunArgs& args) {
  std::vector<Sequence> out = launch.sequences;
  std::int64_t end_q = 0, end_k = 0;
  const auto gap = [&](std::int64_t& end, std::int64_t to, bool of_queries) {
    if (to > end) {
      out.push_back(of_queries ? Sequence{.b = 0, .n_q = to - end, .n_k = 0, .first_q = end, .first_k = 0}
                               : Sequence{.b = 0, .n_q = 0, .n_k = to - end, .first_q = 0, .first_k = end});
    }
    end = to;
  };
  for (const auto& s : launch.sequences) {
    if (launch.packed_q) gap(end_q, s.first_q, true), end_q = s.first_q + s.n_q;
    if (launch.packed_k) gap(end_k, s.first_k, false), end_k = s.first_k + s.n_k;
  }
  if (launch.packed_q) gap(end_q, args.q.extent[1], true);
  if (launch.packed_k) gap(end_k, args.k.extent[1], false);
  return out;
}

}  // namespace

std::vector<Piece> pieces_of(const ir::Plan& plan, const Launch& launch, const RunArgs& args) {
  const auto& shape = launch.shape;
  const auto element_bytes = static_cast<std::int64_t>(size_of(args.q.dtype));
  const weft_args block = argument_block(plan, launch, args);
  if (launch.sequences.empty()) {
    if (!shape.is_head_slice())
      return {{.shape = shape, .block = block, .first_head = 0, .heads = shape.batch * shape.heads}};
    // Its heads follow one another in each entry of the batch alone.
    std::vector<Piece> entries(static_cast<std::size_t>(shape.batch), {.shape = shape, .block = block});
    for (std::int64_t b = 0; b < shape.batch; ++b) entries[static_cast<std::size_t>(b)].of_entry(b);
    return entries;
  }
  std::vector<Piece> out;
  std::vector<Sequence> with;
  if (plan.transposed) with = with_gaps(launch, args);
  for (const auto& s : plan.transposed ? with : launch.sequences) {
    if (s.n_q == 0 && !plan.transposed) continue;
    Piece piece{.shape = shape, .block = block};
    piece.of_entry(s.b);
    piece.shape.n_q = s.n_q;
    piece.shape.n_k = s.n_k;
    const auto& offsets = shape.offset;
    const std::int64_t offset = offsets.empty()       ? s.n_k - s.n_q
                                : offsets.size() == 1 ? offsets[0]
                                                      : offsets[static_cast<std::size_t>(s.b)];
    piece.shape.offset = {offset};
    weft_args& to = piece.block;
    to.n_q = s.n_q;
    to.row_end = piece.shape.row_end();
    to.n_k = s.n_k;
    to.offset = offset;
    to.offsets = nullptr;
    const auto begin_at = [&](weft_view& view, std::int64_t row) {
      view.data = static_cast<std::byte*>(view.data) + row * view.stride_n * element_bytes;
      view.stride_b = 0;
    };
    if (launch.packed_q) {
      begin_at(to.q, s.first_q);
      begin_at(to.o, s.first_q);
      if (to.d_o.data != nullptr) begin_at(to.d_o, s.first_q);
      if (to.d_q.data != nullptr) begin_at(to.d_q, s.first_q);
      if (to.d_lse != nullptr) to.d_lse += s.first_q;
      if (to.lse != nullptr) to.lse += s.first_q;
      if (to.branch_lse != nullptr) to.branch_lse += s.first_q;
      to.lse_stride_b = to.branch_lse_stride_b = to.d_lse_stride_b = 0;
    }
    if (launch.packed_k) {
      begin_at(to.k, s.first_k);
      begin_at(to.v, s.first_k);
      if (to.d_k.data != nullptr) begin_at(to.d_k, s.first_k);
      if (to.d_v.data != nullptr) begin_at(to.d_v, s.first_k);
    }
    out.push_back(std::move(piece));
  }
  return out;
}

namespace {

/// Of every head, from the first tile of any to the last, those that hold rows [begin, end) of a batch entry, counted
/// from its first.
walk::TileRange tiles_of_any_head(const ir::Phase& phase, const HeadTables& tables, std::size_t number,
                                  const ir::Extent& extent, std::int64_t begin, std::int64_t end) {
  walk::TileRange all{.first = std::numeric_limits<std::int64_t>::max(), .end = 0};
  for (const auto& head : tables.tables.phases[number].head) {
    const auto range = ir::tiles_of_rows(phase, head, extent, extent.x_begin + begin, extent.x_begin + end);
    all = {.first = std::min(all.first, range.first), .end = std::max(all.end, range.end)};
  }
  return all;
}

}  // namespace

std::vector<walk::TileRange> stretches_of(const std::vector<std::uint8_t>& marks, std::int64_t apart) {
  std::vector<walk::TileRange> out;
  for (auto at = marks.begin();;) {
    const auto begin = std::find(at, marks.end(), 1), end = std::find(begin, marks.end(), 0);
    if (begin == marks.end()) return out;
    const walk::TileRange next{.first = begin - marks.begin(), .end = end - marks.begin()};
    if (!out.empty() && next.first - out.back().end <= apart)
      out.back().end = next.end;
    else
      out.push_back(next);
    at = end;
  }
}

std::vector<walk::TileRange> tiles_of_part(const ir::Plan& plan, const HeadTables& tables, std::size_t phase,
                                           const ir::Shape& shape, const std::vector<std::uint8_t>& marks) {
  const ir::Phase& of = plan.phases[phase];
  const auto extent = ir::extent_of(shape, 0, of.stationary, nullptr, &tables.tables);
  std::vector<walk::TileRange> found;
  for (const auto& rows : stretches_of(marks, 0))
    found.push_back(tiles_of_any_head(of, tables, phase, extent, rows.first, rows.end));
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<walk::TileRange> out;
  for (const auto& range : found) {
    if (!out.empty() && range.first <= out.back().end)
      out.back().end = std::max(out.back().end, range.end);
    else
      out.push_back(range);
  }
  return out;
}

void take_tiles(const walk::TileRange& range, weft_args& block) {
  block.tile_first = range.first;
  block.tiles_per_head = range.end - range.first;
}

void number_tiles(const ir::Plan& plan, const HeadTables& tables, std::size_t phase, const ir::Shape& shape,
                  weft_args& block) {
  const ir::Phase& of = plan.phases[phase];
  const auto entries = shape.offset.size() > 1 ? shape.batch : 1;
  walk::TileRange all{.first = std::numeric_limits<std::int64_t>::max(), .end = 0};
  for (std::int64_t b = 0; b < entries; ++b) {
    const auto extent = ir::extent_of(shape, b, of.stationary, nullptr, &tables.tables);
    const bool all_rows = of.stationary == ir::Stationary::key;
    const auto range = tiles_of_any_head(of, tables, phase, extent, all_rows ? 0 : shape.row_begin,
                                         all_rows ? extent.x_end - extent.x_begin : shape.row_end());
    all = {.first = std::min(all.first, range.first), .end = std::max(all.end, range.end)};
  }
  block.heads_per_tile = ir::heads_per_tile(plan, tables.alike, shape);
  take_tiles(all, block);
}

Result<std::size_t> carry_bytes(const ir::Plan& plan, const ir::Shape& shape) {
  std::int64_t bytes = plan.carry_bytes_per_row();
  for (auto extent : {shape.batch, shape.heads, shape.rows_computed()}) {
    if (__builtin_mul_overflow(bytes, extent, &bytes) || bytes > kMostCarryBytes) {
      return user_error("the state that rows carry between phases is larger than memory");
    }
  }
  return static_cast<std::size_t>(bytes);
}

Result<HeadTables> make_head_tables(const ir::Plan& plan, std::int64_t heads) {
  WEFT_TRY(auto tables, ir::make_tables(plan, heads));
  const bool alike = ir::heads_are_alike(plan, tables);
  return HeadTables{.tables = std::move(tables), .alike = alike};
}

}  // namespace weft
