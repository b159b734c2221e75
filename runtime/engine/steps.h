#pragma once

#include "compiler/base/result.h"
#include "compiler/ir/plan.h"
#include "runtime/engine/arguments.h"
#include "runtime/engine/compilation.h"
#include "runtime/engine/launch_checks.h"

#include <weft/weft.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

/// From a checked launch to the kernels that compute it, one after another: the loop that every executor runs.
namespace weft {

/// Null where a launch needs no such regime.
using TablesByRegime = std::array<std::shared_ptr<const HeadTables>, ir::kRegimes>;
/// Of these regimes, those that read other tables than the first plan's.
Result<TablesByRegime> tables_beside(const Compilation& kernel, std::int64_t heads,
                                     const std::vector<ir::Regime>& regimes);

/// A launch, and whose it is.
struct Job {
  const Compilation& kernel;
  const HeadTables& tables;
  const Launch& launch;
  const RunArgs& args;
  TablesByRegime beside = {};  ///< of the plans beside the first, where there are any
  bool captured = false;       ///< GPUs: a graph captures the launch, and replays it without the host's memory
  bool together = false;       ///< several sequences may be one launch: see pieces_of()
};

/// What a launch on a GPU runs kernels of.
std::vector<ir::Regime> regimes_for(const Job& job);

/// Memory beside the tensors, where kernels can reach it.
struct Room {
  const std::int64_t* tables = nullptr;                       ///< the words of Job::tables …
  std::array<const std::int64_t*, ir::kRegimes> beside = {};  ///< … and of Job::beside
  std::int64_t* offsets = nullptr;                            ///< a number for each batch entry, …
  std::int64_t* chunks = nullptr;                             ///< … two: how its keys are cut, …
  std::int64_t* entries = nullptr;                            ///< … and two: weft_args::entries
  std::byte* carry = nullptr;                                 ///< the state of rows between steps
  std::int32_t* lists = nullptr;
  void* list_scratch = nullptr;  ///< means of key blocks, scores of what was chosen
  float* terms = nullptr;        ///< weft_args::query_terms
  std::byte* input_sums = nullptr;
};

/// The tables that a text reads, which the block of arguments then names.
const HeadTables& use_tables(const Job& job, const Room& room, ir::Regime text, weft_args& block);

/// Bytes of it that do not go by the number of heads or batch entries alone.
struct RoomSizes {
  std::size_t carry = 0, lists = 0, list_scratch = 0, terms = 0, input_sums = 0;
};
/// User error where that is more than any memory. `together`: as of pieces_of().
Result<RoomSizes> room_for(const ir::Plan& plan, const Launch& launch, bool together = false);
/// … for any positions of the rows, and any lengths of sequences that are not above those of the shape.
Result<RoomSizes> most_room_for(const ir::Plan& plan, const ir::Shape& shape);

/// Where `bytes` begin in a caller's workspace, aligned. User error where it has no room for them.
Result<std::byte*> in_workspace(std::span<std::byte> workspace, std::size_t bytes, std::size_t alignment);

/// `height` rows of `width` bytes, so many bytes apart.
struct Rectangle {
  void* begin = nullptr;
  std::size_t pitch = 0, width = 0, height = 1;
};

/// What runs steps.
struct Machine {
  RunTurn run;
  /// Brings numbers to where kernels can reach them; empty where they reach the host's.
  std::function<Status(std::int64_t* to, const std::int64_t* from, std::size_t bytes)> copy = {};
  std::function<Status(const Rectangle& zeros)> clear = {};
  /// Brings bytes to the host when all before is done; empty where it reaches them.
  std::function<Status(void* to, const void* from, std::size_t bytes)> fetch = {};
};

/// The steps of the plan, piece by piece; many heads take turns with the room for chunks of keys. User error where a
/// GPU would have more blocks of threads than a launch can.
Status run_steps(const Job& job, const Room& room, const Machine& machine);

}  // namespace weft
