#pragma once

#include "codegen/args.h"
#include "compiler/base/fork_safe.h"
#include "compiler/ir/plan.h"
#include "compiler/ir/steps.h"
#include "compiler/ir/tables.h"
#include "runtime/engine/launch_checks.h"

#include <weft/weft.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

/// From a checked launch to the argument block of codegen/args.h: what every backend that runs kernels shares.
namespace weft {

/// What is launched at once: the whole batch, all heads that are computed of one entry, as of one sequence, or several
/// sequences. `block` has its sizes, and tensors that begin with it; tiles are numbered as if the whole batch had its
/// lengths, so that kernels know which entry it is.
struct Piece {
  ir::Shape shape;
  weft_args block;
  std::int64_t first_head = 0, heads = 0;  ///< of batch x heads
  /// Several, which follow one another in the batch: sizes are then the most that any has, and kernels find those of
  /// each in weft_args::entries.
  std::vector<Sequence> sequences = {};
  std::int64_t first_q = 0;      ///< of one sequence: its first row in a packed tensor
  bool sizes_in_memory = false;  ///< of the GPU: Launch::sizes_in_memory

  void of_entry(std::int64_t b) {
    first_head = b * shape.heads + shape.head_begin;
    heads = shape.heads_computed();
  }
  std::int64_t first_entry() const { return first_head / shape.heads; }
  std::int64_t entries() const { return std::max<std::int64_t>(1, heads / shape.heads); }
  std::int64_t first_head_of_entry() const { return first_head % shape.heads; }
  std::int64_t heads_of_entry() const { return std::min(heads, shape.heads); }
};
/// With everything in their blocks but the tables, what differs from step to step, and the memory that the executor
/// brings. Offsets are the caller's own array where there is one per batch entry. `together`: GPUs, where the executor
/// may bring kernels facts of each sequence.
std::vector<Piece> pieces_of(const ir::Plan& plan, const Launch& launch, const RunArgs& args, bool together = false);

/// Sequences that one launch computes, as indices into Launch::sequences: [first, end) of each group. Of one alone
/// where sequences cannot share a launch, or would waste most of it.
struct Group {
  std::size_t first, end;
};
std::vector<Group> groups_of(const ir::Plan& plan, const Launch& launch, bool together);

/// A step of the plan at a launch's sizes, the smallest thing that executors run.
struct Turn {
  const ir::Step& step;
  std::int64_t blocks = 0;  ///< of threads, on a GPU; units of work
  weft_args* args = nullptr;
  const Piece* piece = nullptr;
  std::size_t number() const { return static_cast<std::size_t>(step.number); }
};
using RunTurn = std::function<Status(const Turn&)>;

/// What the state that rows carry between phases takes. User error where that is more than any memory.
Result<std::size_t> carry_bytes(const ir::Plan& plan, const ir::Shape& shape);
inline constexpr std::int64_t kMostCarryBytes = std::int64_t{1} << 48;

/// What a plan becomes with the number of heads.
struct HeadTables {
  ir::Tables tables;
  bool alike = false;  ///< heads differ in nothing but their tensors
};
Result<HeadTables> make_head_tables(const ir::Plan& plan, std::int64_t heads);

/// Which row tiles each (batch, head) of a phase has, from the first that any has to the last, so that tile numbers are
/// a plain product; and how many heads stand in one.
/// Rows, or keys, that are marked, in stretches; those that stand so far apart at most are one, with what is between.
std::vector<walk::TileRange> stretches_of(const std::vector<std::uint8_t>& marks, std::int64_t apart);

/// Of a part: all tiles that hold some of the marked rows, or keys where those are the rows.
std::vector<walk::TileRange> tiles_of_part(const ir::Plan& plan, const HeadTables& tables, std::size_t phase,
                                           const ir::Shape& shape, const std::vector<std::uint8_t>& marks);
/// The tiles of one range, as kernels count them.
void take_tiles(const walk::TileRange& range, weft_args& block);

void number_tiles(const ir::Plan& plan, const HeadTables& tables, std::size_t phase, const ir::Shape& shape,
                  weft_args& block);
void number_tiles(const ir::Plan& plan, const HeadTables& tables, std::size_t phase, const Piece& piece,
                  weft_args& block);

/// What is kept per number of heads: made once, by the first launch that has so many.
template <typename T>
class KnownHeads {
 public:
  template <typename Make>
  Result<std::shared_ptr<const T>> get(std::int64_t heads, const Make& make) const {
    {
      const std::shared_lock lock(mutex_);
      if (const auto it = known_.find(heads); it != known_.end()) return it->second;
    }
    Result<T> made = make();
    if (!made) return std::move(made).error();
    auto kept = std::make_shared<const T>(std::move(made).value());
    const std::unique_lock lock(mutex_);
    return known_.emplace(heads, std::move(kept)).first->second;  // of two threads one makes it in vain
  }

  bool has(std::int64_t heads) const {
    const std::shared_lock lock(mutex_);
    return known_.contains(heads);
  }

 private:
  mutable ForkSafe<std::shared_mutex> mutex_;
  mutable std::map<std::int64_t, std::shared_ptr<const T>> known_;
};

}  // namespace weft
