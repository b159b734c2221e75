#include "runtime/engine/steps.h"

#include "codegen/divisor.h"
#include "compiler/ir/few_rows.h"
#include "compiler/ir/key_chunks.h"
#include "runtime/cpu/part.h"
#include "runtime/engine/chosen_lists.h"
#include "runtime/engine/gradient_steps.h"
#include "runtime/engine/key_cut.h"
#include "runtime/engine/lists.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

namespace weft {

namespace {

/// What chunks of keys keep is at most this much, or what one head takes: more heads take turns, each enough of them
/// to fill a GPU.
constexpr std::int64_t kChunkMemory = std::int64_t{32} << 20;

/// In groups of those that stand in one tile. The room is made for groups of one: a tile's state is about a fourth of
/// it at most, 128 chunks of 128 rows and 130 numbers, or of 64 and 258.
std::int64_t heads_at_once(std::int64_t bytes_of_head, std::int64_t together = 1) {
  return std::max<std::int64_t>(1, kChunkMemory / bytes_of_head / together) * together;
}

/// Of so many rows those that have states of chunks: cuts are of so many at most. Where O is a sum of softmaxes, rows
/// whose keys are not cut keep it there, too.
std::int64_t carried_rows(const ir::Plan& plan, std::int64_t rows) {
  const bool all = plan.cuts.empty() || plan.phases.front().passes.size() > 1;
  return all ? rows : std::min(rows, plan.cuts.back().rows);
}

std::int64_t chunk_bytes_of_head(const ir::Plan& plan, std::int64_t n_q, std::int64_t chunks) {
  return carried_rows(plan, n_q) * ir::shares_of_tile(plan, chunks) * plan.state_bytes();
}

/// What the state of so many chunks of keys takes.
std::size_t chunk_bytes(const ir::Plan& plan, std::int64_t heads, std::int64_t n_q, std::int64_t chunks) {
  if (chunks < 2 || n_q == 0) return 0;
  const auto of_head = chunk_bytes_of_head(plan, n_q, chunks);
  return static_cast<std::size_t>(std::min(heads, heads_at_once(of_head)) * of_head);
}

Result<RoomSizes> room_beside(const ir::Plan& plan, const Launch* launch, const ir::Shape& shape,
                              std::size_t of_chunks) {
  WEFT_TRY(const auto carry, carry_bytes(plan, shape));
  WEFT_TRY(const auto lists, list_bytes(plan, shape));
  RoomSizes out{.carry = std::max(carry, of_chunks), .lists = lists, .list_scratch = list_scratch_bytes(plan, shape)};
  if (plan.transposed) WEFT_CHECK(add_gradient_room(plan, launch, shape, out));
  return out;
}

/// The most chunks of a sequence, or of those that are no longer.
std::int64_t most_chunks(const ir::Plan& plan, std::int64_t n_q, std::int64_t n_k, bool or_shorter) {
  return or_shorter ? ir::most_key_chunks_up_to(plan, n_q, n_k) : ir::most_key_chunks(plan, n_q, n_k);
}

/// How the keys of each batch entry are cut: two numbers an entry, as weft_args::chunks_of_entry wants them. Empty
/// where one position serves all, or keys are not cut. Sets what of this stands in the argument block.
std::vector<std::int64_t> cut_keys(const ir::Plan& plan, Piece& piece) {
  weft_args& block = piece.block;
  const auto& shape = piece.shape;
  if (piece.sizes_in_memory) {  // kernels find out where chunks begin
    const auto most = most_chunks(plan, shape.n_q, shape.n_k, true);
    block.chunks = block.chunk_slots = most > 1 ? most : 0;
    return {};
  }
  // Of several sequences all are cut, or none.
  const auto first = piece.sequences.empty() ? shape : piece.sequences.front().shape(shape);
  if (ir::most_key_chunks(plan, first.n_q, first.n_k) < 2) return {};
  std::vector<std::int64_t> of_entry;
  const auto add = [&](const ir::KeyChunks& chunks) {
    block.chunks = block.chunk_slots = std::max(block.chunks, chunks.count);
    block.chunk_first = chunks.first;
    block.chunk_keys = chunks.keys;
    of_entry.insert(of_entry.end(), {chunks.first, chunks.keys + (chunks.count << 32)});
  };
  for (const auto& s : piece.sequences) add(ir::key_chunks(plan, s.shape(shape), 0));
  const auto entries = !piece.sequences.empty() ? 0 : shape.offset.size() > 1 ? shape.batch : 1;
  for (std::int64_t b = 0; b < entries; ++b) add(ir::key_chunks(plan, shape, b));
  if (of_entry.size() == 2) of_entry.clear();
  if (block.chunks >= 2) return of_entry;
  block.chunks = 0;
  return {};
}

/// Of sequences whose lengths the host does not know, those that the text computes.
void take_entries(const ir::Plan& plan, ir::Regime text, Piece& piece) {
  const bool some = piece.sizes_in_memory && plan.decoding;
  const auto border = ir::queries_of_decoding(plan, piece.shape);
  piece.block.queries_above = some && text != ir::Regime::decoding ? border : 0;
  piece.block.queries_up_to = some && text == ir::Regime::decoding ? border : std::numeric_limits<std::int32_t>::max();
}

/// A step of tiles, behind cut_keys, and where keys are cut `merge` behind it, both for as many heads at a time as
/// there is room for.
Status run_phase(const Job& job, const ir::Step& step, const ir::Step* merge, Piece& piece, const Room& room,
                 const RunTurn& run) {
  weft_args& block = piece.block;
  const ir::Plan& of_text = ir::plan_of(job.kernel.plan, step.text);
  const HeadTables& tables = use_tables(job, room, step.text, block);
  block.phase = step.number;
  take_entries(job.kernel.plan, step.text, piece);
  number_tiles(of_text, tables, static_cast<std::size_t>(step.number), piece, block);
  const std::int64_t rows = block.carried_rows = carried_rows(job.kernel.plan, piece.shape.rows_computed());
  std::int64_t tiles = block.tiles_per_head;
  const std::int64_t chunks = std::max<std::int64_t>(1, block.chunks),
                     shares = ir::shares_of_tile(job.kernel.plan, chunks);
  block.of_shares = codegen::divisor_of(shares);
  const auto behind = piece.first_head + piece.heads;
  // Rows are counted where chunks of them are merged.
  const bool on_gpu = job.kernel.plan.choices.kernel_class != ir::KernelClass::vector;
  if (on_gpu) WEFT_CHECK(check_tiles(piece, std::max(tiles * shares, chunks > 1 ? rows : 0)));
  const auto turn = [&](const ir::Step& of, std::int64_t heads) {
    const auto groups = heads / block.heads_per_tile;
    const ir::Counts counts{.heads = heads, .head_groups = groups, .tiles = tiles, .shares = shares, .rows = rows};
    return run({.step = of, .blocks = of.grid.blocks(counts), .args = &block, .piece = &piece});
  };
  const auto attend = [&](std::int64_t first, std::int64_t heads) {
    block.tile_begin = first / block.heads_per_tile * tiles;
    block.tile_end = (first + heads) / block.heads_per_tile * tiles;
    return turn(step, heads);
  };
  // On CPUs who goes through the tiles skips those without rows of the part: its units are those of the whole.
  if (on_gpu && chunks == 1 && job.launch.part != nullptr) {
    const auto& part = *job.launch.part;
    const auto marks = job.kernel.plan.finds_deltas() ? part.all_there() : part.own;
    for (const auto& range :
         tiles_of_part(of_text, tables, static_cast<std::size_t>(step.number), piece.shape, marks)) {
      take_tiles(range, block);
      tiles = block.tiles_per_head;
      WEFT_CHECK(attend(piece.first_head, piece.heads));
    }
    return done;
  }
  if (chunks == 1) return attend(piece.first_head, piece.heads);
  const auto of_head = chunk_bytes_of_head(job.kernel.plan, rows, chunks);
  const auto at_once =
      heads_at_once(chunk_bytes_of_head(job.kernel.plan, piece.shape.n_q, chunks), block.heads_per_tile);
  auto* const carry = reinterpret_cast<std::byte*>(block.carry);
  for (auto first = piece.first_head; first < behind; first += at_once) {
    const auto heads = std::min(at_once, behind - first);
    // Kernels count heads from the batch's first.
    block.carry = reinterpret_cast<float*>(reinterpret_cast<std::uintptr_t>(carry) -
                                           static_cast<std::uintptr_t>(first * of_head));
    WEFT_CHECK(attend(first, heads));
    block.tile_begin = first * rows;
    block.tile_end = (first + heads) * rows;
    WEFT_CHECK(turn(*merge, heads));
  }
  block.carry = reinterpret_cast<float*>(carry);
  return done;
}

/// A step of tiles, or what merges their chunks, as Launch::cut says.
Status run_phase_cut(const Job& job, const ir::Step& step, const ir::Step* merge, Piece& piece, const Room& room,
                     const RunTurn& run) {
  const KeyCut& cut = *job.launch.cut;
  const auto& plan = job.kernel.plan;
  const bool on_gpu = plan.choices.kernel_class != ir::KernelClass::vector, attends = cut.step == KeyCut::Step::attend;
  // On CPUs the kernel of the last phase knows of the end of a row.
  if (!attends && static_cast<std::size_t>(step.number) + 1 < plan.phases.size()) return done;
  weft_args& block = piece.block;
  block.phase = step.number;
  number_tiles(plan, use_tables(job, room, step.text, block), static_cast<std::size_t>(step.number), piece, block);
  const auto tiles = block.tiles_per_head, rows = block.carried_rows = piece.shape.rows_computed();
  const auto shares = on_gpu && attends ? cut.count * std::ssize(plan.phases.front().passes) : 1;
  block.of_shares = codegen::divisor_of(shares);
  if (on_gpu) WEFT_CHECK(check_tiles(piece, std::max(tiles * shares, rows)));
  const auto turn = [&](const ir::Step& of, std::int64_t begin, std::int64_t end) {
    const auto groups = piece.heads / block.heads_per_tile;
    const ir::Counts counts{
        .heads = piece.heads, .head_groups = groups, .tiles = tiles, .shares = shares, .rows = rows};
    block.tile_begin = begin;
    block.tile_end = end;
    return run({.step = of, .blocks = of.grid.blocks(counts), .args = &block, .piece = &piece});
  };
  const auto behind = piece.first_head + piece.heads;
  const auto attend = [&] {
    return turn(step, piece.first_head / block.heads_per_tile * tiles, behind / block.heads_per_tile * tiles);
  };
  block.chunks = cut.count;
  block.chunk_slots = cut.slots;
  block.carry = cut.states + cut.slot * floats_of_state(plan);
  block.chunk_first = cut.first;
  block.chunk_keys = cut.keys;
  if (cut.step == KeyCut::Step::fold) block.o.data = nullptr;
  if (!attends && on_gpu) return turn(*merge, piece.first_head * rows, behind * rows);
  block.chunk_merge = attends ? 0 : 1;
  if (on_gpu || !attends) return attend();
  // A CPU's tiles are walked once for each chunk.
  block.chunks = 1;
  for (std::int64_t i = 0; i < cut.count; ++i) {
    WEFT_CHECK(attend());
    block.carry += floats_of_state(plan);
    block.chunk_first += cut.keys;
  }
  return done;
}

/// Of sequences whose sizes kernels find out: where these come to.
void place_entries(Piece& piece, const Room& room) {
  piece.block.entries = reinterpret_cast<const weft_entry*>(room.entries);
  piece.block.offsets = room.offsets;
  piece.block.chunks_of_entry = room.chunks;
}

/// Sizes of each sequence, to where kernels find them by its number in the batch.
Status bring_entries(const Job& job, Piece& piece, const Room& room, const Machine& machine) {
  std::vector<weft_entry> entries;
  std::vector<std::int64_t> offsets;
  for (const auto& s : piece.sequences) {
    const auto n = [](std::int64_t of) { return static_cast<std::int32_t>(of); };
    entries.push_back({.n_q = n(s.n_q),
                       .n_k = n(s.n_k),
                       .first_q = job.launch.packed_q ? n(s.first_q) : 0,
                       .first_k = job.launch.packed_k ? n(s.first_k) : 0});
    offsets.push_back(s.shape(job.launch.shape).offset.front());
  }
  const auto first = piece.first_entry();
  constexpr auto kWords = static_cast<std::int64_t>(sizeof(weft_entry) / sizeof(std::int64_t));
  WEFT_CHECK(machine.copy(room.entries + kWords * first, reinterpret_cast<const std::int64_t*>(entries.data()),
                          entries.size() * sizeof entries[0]));
  WEFT_CHECK(machine.copy(room.offsets + first, offsets.data(), offsets.size() * sizeof offsets[0]));
  piece.block.entries = reinterpret_cast<const weft_entry*>(room.entries);
  piece.block.offsets = room.offsets;
  return done;
}

/// Everything in the block that all steps of a piece read.
Status open_piece(const Job& job, Piece& piece, const Room& room, const Machine& machine) {
  weft_args& block = piece.block;
  block.tables = room.tables;
  block.most_terms = job.tables.tables.most_terms;
  block.carry = reinterpret_cast<float*>(room.carry);
  if (piece.sizes_in_memory) {
    place_entries(piece, room);
  } else if (!piece.sequences.empty()) {
    WEFT_CHECK(bring_entries(job, piece, room, machine));
  } else if (block.offsets != nullptr && machine.copy) {
    WEFT_CHECK(machine.copy(room.offsets, block.offsets, job.args.offset.size_bytes()));
    block.offsets = room.offsets;
  }
  if (!job.kernel.plan.lists.empty()) {
    place_lists(job.kernel.plan, piece.shape, room.lists, block);
    WEFT_CHECK(use_caller_lists(job.kernel.plan, job.kernel.pattern, job.launch, block));
  }
  if (job.kernel.plan.transposed) place_terms(job, piece, room, block);
  if (const KeyCut* const cut = job.launch.cut; cut != nullptr) {
    // Kernels count keys from the sequence's first.
    const auto element = static_cast<std::int64_t>(size_of(job.args.q.dtype));
    for (weft_view* view : {&block.k, &block.v})
      view->data = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(view->data) -
                                           static_cast<std::uintptr_t>(cut->held * view->stride_n * element));
    return done;
  }
  if (const auto of_entry = cut_keys(job.kernel.plan, piece); !of_entry.empty()) {
    const auto first = piece.sequences.empty() ? 0 : piece.first_entry();
    WEFT_CHECK(machine.copy(room.chunks + 2 * first, of_entry.data(), of_entry.size() * sizeof of_entry[0]));
    block.chunks_of_entry = room.chunks;
  }
  return done;
}

/// Does the text attend rows of a piece? What those of few and of many queries compute is the same; but the one in
/// which less stands needs less to begin a tile. Of sequences whose lengths the host does not know some may be
/// decoding's, and others not.
bool attends(const Job& job, ir::Regime text, const Piece& piece) {
  const ir::Plan& plan = job.kernel.plan;
  const bool on_gpu = plan.choices.kernel_class != ir::KernelClass::vector;
  if (on_gpu && job.launch.cut != nullptr) return text == ir::Regime::few_queries;
  if (on_gpu && piece.sizes_in_memory) return ir::may_attend(plan, text, piece.shape);
  // Of several sequences all are decoding's, or none, and are cut, or none; and where those of most rows share tiles,
  // all do.
  const auto& all = piece.sequences;
  const auto some = std::find_if(all.begin(), all.end(), [](const Sequence& s) { return s.n_q > 0; });
  const auto shape = some == all.end() ? piece.shape : some->shape(piece.shape);
  return text == ir::regime_of(plan, job.tables.alike, shape);
}

/// Does a step of a piece need the text?
bool needs(const Job& job, ir::Regime text, const Piece& piece) {
  return (piece.sizes_in_memory && ir::finds_sizes(job.kernel.plan, text)) || attends(job, text, piece);
}

bool is_run(const Job& job, const ir::Step& step, const Piece& piece) {
  using When = ir::Step::When;
  const auto& block = piece.block;
  const ir::Plan& plan = job.kernel.plan;
  switch (step.when) {
    case When::few_queries:
    case When::many_queries:
    case When::decoding:
      return attends(job, step.text, piece);
    case When::d_queries:
      return piece.shape.rows_computed() > 0 && (block.d_q.data != nullptr || plan.finds_deltas());
    case When::d_keys:
      return piece.shape.n_k > 0 && (block.d_k.data != nullptr || block.d_v.data != nullptr);
    case When::sizes_in_memory:
      return piece.sizes_in_memory;
    case When::always:
    case When::keys_are_cut:
    case When::d_inputs:
      break;
  }
  return true;
}

/// Of one piece: steps that take turns, as the first of them says.
Status run_turns(const Job& job, Steps steps, Piece& piece, const Room& room, const Machine& machine) {
  using Does = ir::Step::Kernel;
  const ir::Step& step = steps.front();
  if (!is_run(job, step, piece)) return done;
  switch (step.kernel) {
    case Does::prepass:
      return run_list(job.kernel.plan, step, piece, room.list_scratch, machine.run);
    case Does::terms:
      return run_terms(job, step, piece, machine);
    case Does::sizes:
    case Does::zeros: {
      const auto& sizes = piece.block.sizes;
      const auto blocks = step.grid.blocks({.packed_rows = std::max(sizes.rows_q, sizes.rows_k)});
      return machine.run({.step = step, .blocks = blocks, .args = &piece.block, .piece = &piece});
    }
    case Does::attend:
      return (job.launch.cut != nullptr ? run_phase_cut : run_phase)(job, step, steps.size() > 1 ? &steps[1] : nullptr,
                                                                     piece, room, machine.run);
    case Does::transposed:
      return run_keys(job, steps, piece, room, machine.run);
    case Does::merge:
    case Does::inputs:
    case Does::input_tables:
      break;
  }
  return internal_error("a step of the plan begins nothing");
}

/// How many steps from the first on take turns: tiles and what merges their chunks, or all phases of keys.
std::size_t turns_from(Steps steps) {
  using Does = ir::Step::Kernel;
  const auto first = steps.front().kernel;
  const auto goes_along = [&](const ir::Step& step) {
    return (first == Does::attend && step.kernel == Does::merge) ||
           (first == Does::transposed && step.kernel == Does::transposed);
  };
  const auto end = std::find_if_not(steps.begin() + 1, steps.end(), goes_along);
  return static_cast<std::size_t>(end - steps.begin());
}

}  // namespace

Result<RoomSizes> room_for(const ir::Plan& plan, const Launch& launch, bool together) {
  const auto& shape = launch.shape;
  if (launch.sequences.empty()) {
    const auto chunks = ir::most_key_chunks(plan, shape.n_q, shape.n_k);
    return room_beside(plan, &launch, shape, chunk_bytes(plan, shape.batch * shape.heads, shape.n_q, chunks));
  }
  std::size_t of_chunks = 0;
  for (const auto& group : groups_of(plan, launch, together)) {
    std::int64_t n_q = 0, chunks = 0;
    for (auto i = group.first; i < group.end; ++i) {
      const auto& s = launch.sequences[i];
      n_q = std::max(n_q, s.n_q);
      chunks = std::max(chunks, most_chunks(plan, s.n_q, s.n_k, launch.sizes_in_memory));
    }
    const auto heads = static_cast<std::int64_t>(group.end - group.first) * shape.heads;
    of_chunks = std::max(of_chunks, chunk_bytes(plan, heads, n_q, chunks));
  }
  return room_beside(plan, &launch, shape, of_chunks);
}

Result<RoomSizes> most_room_for(const ir::Plan& plan, const ir::Shape& shape) {
  // Sequences of one launch may be such as have most rows, and such as have most chunks.
  std::int64_t rows = 0, chunks = 0;
  for (const auto& cut : plan.cuts) {
    const auto n_q = std::min(cut.rows, shape.n_q), of_rows = ir::most_key_chunks(plan, n_q, shape.n_k);
    if (of_rows > 1) rows = carried_rows(plan, plan.may_read_sizes() ? shape.n_q : n_q);
    chunks = std::max(chunks, of_rows);
  }
  return room_beside(plan, nullptr, shape, chunk_bytes(plan, shape.batch * shape.heads, rows, chunks));
}

Result<std::byte*> in_workspace(std::span<std::byte> workspace, std::size_t bytes, std::size_t alignment) {
  void* begin = workspace.data();
  std::size_t room = workspace.size();
  if (std::align(alignment, bytes, begin, room) != nullptr) return static_cast<std::byte*>(begin);
  return user_error(
      fmt::format("the workspace has {} bytes; this launch wants {}", workspace.size(), bytes + alignment));
}

std::vector<ir::Regime> regimes_for(const Job& job) {
  const ir::Plan& plan = job.kernel.plan;
  auto out = ir::regimes_of(plan);
  if (!job.launch.wants_d_inputs()) std::erase(out, ir::Regime::inputs);
  if (std::none_of(out.begin(), out.end(), ir::is_of_few)) return out;
  const auto pieces = pieces_of(plan, job.launch, job.args, job.together);
  std::erase_if(out, [&](ir::Regime text) {
    return ir::only_attends(plan, text) &&
           std::none_of(pieces.begin(), pieces.end(), [&](const Piece& piece) { return needs(job, text, piece); });
  });
  return out;
}

Result<TablesByRegime> tables_beside(const Compilation& kernel, std::int64_t heads,
                                     const std::vector<ir::Regime>& regimes) {
  TablesByRegime out;
  for (const auto regime : regimes) {
    if (!ir::has_own_tables(kernel.plan, regime)) continue;
    WEFT_TRY(out[static_cast<std::size_t>(regime)], kernel.tables(heads, regime));
  }
  return out;
}

const HeadTables& use_tables(const Job& job, const Room& room, ir::Regime text, weft_args& block) {
  const auto& own = job.beside[static_cast<std::size_t>(text)];
  const HeadTables& tables = own ? *own : job.tables;
  block.tables = own ? room.beside[static_cast<std::size_t>(text)] : room.tables;
  block.most_terms = tables.tables.most_terms;
  return tables;
}

Status run_steps(const Job& job, const Room& room, const Machine& machine) {
  auto pieces = pieces_of(job.kernel.plan, job.launch, job.args, job.together);
  const Steps all = job.kernel.steps;
  const auto behind =
      std::find_if(all.begin(), all.end(), [](const ir::Step& step) { return step.when == ir::Step::When::d_inputs; });
  const auto of_pieces = all.first(static_cast<std::size_t>(behind - all.begin()));
  if (job.kernel.plan.transposed && machine.clear) WEFT_CHECK(clear_rows_of_nobody(job.launch, job.args, machine));
  for (auto& piece : pieces) {
    WEFT_CHECK(open_piece(job, piece, room, machine));
    for (auto rest = of_pieces; !rest.empty();) {
      const auto turns = rest.first(turns_from(rest));
      WEFT_CHECK(run_turns(job, turns, piece, room, machine));
      rest = rest.subspan(turns.size());
    }
  }
  return run_input_gradients(job, all.subspan(of_pieces.size()), pieces, room, machine.run);
}

}  // namespace weft
