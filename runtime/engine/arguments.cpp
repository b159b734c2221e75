#include "runtime/engine/arguments.h"

#include "codegen/divisor.h"
#include "compiler/ir/few_rows.h"
#include "compiler/ir/key_chunks.h"
#include "compiler/ir/schedule.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
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
  to.queries_up_to = std::numeric_limits<std::int32_t>::max();
  to.heads = shape.heads;
  to.kv_heads = shape.kv_heads;
  to.of_groups = codegen::divisor_of(shape.heads);
  to.of_group = codegen::divisor_of(shape.group());
  to.of_heads = to.of_shares = codegen::divisor_of(1);
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
  if (to.page_size > 0) to.of_page = codegen::divisor_of(to.page_size);
  to.page_count = args.pages.data != nullptr ? args.k.extent[0] : 0;
  if (launch.sizes_in_memory) {
    const SizesAt& at = args.sizes_at;
    to.sizes = {.cu_q = at.cu_q,
                .cu_k = at.cu_k,
                .kv_lengths = at.kv_lengths,
                .offsets = at.offset,
                .rows_q = args.q.extent[1],
                .rows_k = args.k.extent[1]};
  }
  set_inputs(to, launch.inputs);
  if (launch.gradient) set_gradients(to, args);
  begin_before(shape, size_of(args.q.dtype), to);
  return to;
}

/// Blocks of threads find out by themselves that an entry has no such tile. More than three in four may not, where they
/// are more than a GPU has room for at once.
constexpr std::int64_t kMostWaste = 4, kFewTiles = 512;

/// What one group of sequences has together.
struct Together {
  std::int64_t longest = 0, all = 0, count = 0;  ///< tiles

  Together with(const Sequence& s, std::int64_t rows_of_tile) const {
    const auto tiles = (std::max(s.n_q, s.n_k) + rows_of_tile - 1) / rows_of_tile;
    return {std::max(longest, tiles), all + tiles, count + 1};
  }
  bool wastes() const { return longest * count > std::max(kMostWaste * all, kFewTiles); }
};

/// One sequence, or several, of the launch's tensors.
Piece piece_of(const Launch& launch, const weft_args& block, std::span<const Sequence> sequences,
               std::int64_t element_bytes) {
  const bool one = sequences.size() == 1 && !launch.sizes_in_memory;
  const Sequence& first = sequences.front();
  Piece piece{.shape = first.shape(launch.shape), .block = block};
  piece.of_entry(first.b);
  const auto offset = piece.shape.offset.front();
  if (!one) {
    piece.shape.offset = launch.shape.offset;  // each has its own
    piece.sequences.assign(sequences.begin(), sequences.end());
    piece.sizes_in_memory = launch.sizes_in_memory;
    piece.heads = std::ssize(sequences) * piece.shape.heads;
    for (const auto& s : sequences) {
      piece.shape.n_q = std::max(piece.shape.n_q, s.n_q);
      piece.shape.n_k = std::max(piece.shape.n_k, s.n_k);
    }
  }
  weft_args& to = piece.block;
  to.n_q = piece.shape.n_q;
  to.row_end = piece.shape.row_end();
  to.n_k = piece.shape.n_k;
  to.offset = offset;
  to.offsets = nullptr;
  const auto begin_at = [&](weft_view& view, std::int64_t row) {
    if (view.data == nullptr) return;
    if (one) view.data = static_cast<std::byte*>(view.data) + row * view.stride_n * element_bytes;
    view.stride_b = 0;
  };
  if (launch.packed_q) {
    for (weft_view* view : {&to.q, &to.o, &to.d_o, &to.d_q}) begin_at(*view, first.first_q);
    const auto rows = piece.first_q = one ? first.first_q : 0;
    if (to.d_lse != nullptr) to.d_lse += rows;
    if (to.lse != nullptr) to.lse += rows;
    if (to.branch_lse != nullptr) to.branch_lse += rows;
    to.lse_stride_b = to.branch_lse_stride_b = to.d_lse_stride_b = 0;
  }
  if (launch.packed_k) {
    for (weft_view* view : {&to.k, &to.v, &to.d_k, &to.d_v}) begin_at(*view, first.first_k);
  }
  return piece;
}

}  // namespace

ir::Shape Sequence::shape(const ir::Shape& all) const {
  ir::Shape own = all;
  own.n_q = n_q;
  own.n_k = n_k;
  own.offset = {all.offset.empty() ? n_k - n_q : all.offset_of(b)};
  return own;
}

std::vector<Group> groups_of(const ir::Plan& plan, const Launch& launch, bool together) {
  const auto& sequences = launch.sequences;
  // Lists are of one sequence, sums of inputs' gradients of tiles that all have rows.
  const bool possible = together && plan.lists.empty() && launch.part == nullptr && !launch.shape.is_head_slice() &&
                        !launch.wants_d_inputs() &&
                        std::all_of(sequences.begin(), sequences.end(), [](const Sequence& s) {
                          return std::max(s.first_q, s.first_k) <= std::numeric_limits<std::int32_t>::max();
                        });
  std::vector<Group> out;
  const auto border = ir::queries_of_decoding(plan, launch.shape);
  for (std::size_t i = 0; i < sequences.size();) {
    std::size_t end = i + 1;
    const auto cuts = [&](std::size_t at) {
      return ir::most_key_chunks(plan, sequences[at].n_q, sequences[at].n_k) > 1;
    };
    auto all = Together().with(sequences[i], plan.choices.tile_q);
    std::int64_t rows = sequences[i].n_q;  // of the last that has any
    const auto decodes = [&](std::size_t at) {
      return rows == 0 || sequences[at].n_q == 0 || (sequences[at].n_q <= border) == (rows <= border);
    };
    while (possible && end < sequences.size() && cuts(end) == cuts(i) && decodes(end)) {
      if (sequences[end].n_q > 0) rows = sequences[end].n_q;
      const auto more = all.with(sequences[end], plan.choices.tile_q);
      if (more.wastes()) break;
      all = more;
      ++end;
    }
    out.push_back({i, end});
    i = end;
  }
  return out;
}

std::vector<Piece> pieces_of(const ir::Plan& plan, const Launch& launch, const RunArgs& args, bool together) {
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
  const auto add = [&](std::span<const Sequence> some) {
    const bool empty = std::all_of(some.begin(), some.end(), [](const Sequence& s) { return s.n_q == 0; });
    if (!empty || plan.transposed) out.push_back(piece_of(launch, block, some, element_bytes));
  };
  const std::span all = launch.sequences;
  for (const auto& group : groups_of(plan, launch, together)) add(all.subspan(group.first, group.end - group.first));
  return out;
}

namespace {

walk::TileRange both(const walk::TileRange& a, const walk::TileRange& b) {
  return {.first = std::min(a.first, b.first), .end = std::max(a.end, b.end)};
}

/// Of every head, from the first tile of any to the last, those that hold rows [begin, end) of a batch entry, counted
/// from its first.
walk::TileRange tiles_of_any_head(const ir::Phase& phase, const HeadTables& tables, std::size_t number,
                                  const ir::Extent& extent, std::int64_t begin, std::int64_t end) {
  walk::TileRange all{.first = std::numeric_limits<std::int64_t>::max(), .end = 0};
  for (const auto& head : tables.tables.phases[number].head) {
    all = both(all, ir::tiles_of_rows(phase, head, extent, extent.x_begin + begin, extent.x_begin + end));
  }
  return all;
}

/// Of the rows that the launch computes of a batch entry, or of all its keys.
walk::TileRange tiles_of_entry(const ir::Plan& plan, const HeadTables& tables, std::size_t phase,
                               const ir::Shape& shape, std::int64_t b) {
  const ir::Phase& of = plan.phases[phase];
  const auto extent = ir::extent_of(shape, b, of.stationary, nullptr, &tables.tables);
  const bool all_rows = of.stationary == ir::Stationary::key;
  return tiles_of_any_head(of, tables, phase, extent, all_rows ? 0 : shape.row_begin,
                           all_rows ? extent.x_end - extent.x_begin : shape.row_end());
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
  block.of_tiles = codegen::divisor_of(block.tiles_per_head);
}

namespace {

void share_tiles(const ir::Plan& plan, std::int64_t heads, weft_args& block) {
  block.heads_per_tile = heads;
  block.of_heads = codegen::divisor_of(heads);
  const bool of_keys = plan.stationary() == ir::Stationary::key;
  block.of_groups = codegen::divisor_of(of_keys ? block.kv_heads : block.heads / heads);
}

}  // namespace

void number_tiles(const ir::Plan& plan, const HeadTables& tables, std::size_t phase, const ir::Shape& shape,
                  weft_args& block) {
  const auto entries = shape.offset.size() > 1 ? shape.batch : 1;
  auto all = tiles_of_entry(plan, tables, phase, shape, 0);
  for (std::int64_t b = 1; b < entries; ++b) all = both(all, tiles_of_entry(plan, tables, phase, shape, b));
  share_tiles(plan, ir::heads_per_tile(plan, tables.alike, shape), block);
  take_tiles(all, block);
}

void number_tiles(const ir::Plan& plan, const HeadTables& tables, std::size_t phase, const Piece& piece,
                  weft_args& block) {
  if (piece.sequences.empty()) return number_tiles(plan, tables, phase, piece.shape, block);
  if (piece.sizes_in_memory) {
    // Rows that begin anywhere have the most tiles where the first is the last of a cell.
    ir::Shape anywhere = piece.shape;
    anywhere.n_q = std::min(anywhere.n_q, block.queries_up_to);
    anywhere.offset = {-1};
    return number_tiles(plan, tables, phase, anywhere, block);
  }
  auto all = tiles_of_entry(plan, tables, phase, piece.sequences.front().shape(piece.shape), 0);
  for (const auto& s : piece.sequences) all = both(all, tiles_of_entry(plan, tables, phase, s.shape(piece.shape), 0));
  share_tiles(plan, ir::heads_per_tile(plan, tables.alike, piece.shape), block);
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
