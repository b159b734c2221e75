#pragma once

#include "compiler/ir/schedule.h"
#include "compiler/ir/tables.h"
#include "compiler/ir/tensor.h"

#include <cstddef>
#include <cstdint>
#include <vector>

/// What a kernel does where a launch or a tile has few rows, as in decoding. The kernel, who launches it and who counts
/// its work must agree.
namespace weft::ir {

/// What a kernel has a text of its own for: launches with few queries, which compile it when one is first made, and
/// plans that stand beside the first.
enum class Regime {
  many_queries,
  /// CPUs: beside the other's, full blocks whose lanes are columns, not rows (codegen/cpu/emit_few.cpp).
  /// GPUs: in the other's place, one that also cuts keys into chunks, holds rows of several heads in one tile, and
  /// finds sizes of sequences in the GPU's memory, as decoding wants; training and whole prompts never compile it.
  few_queries,
  /// GPUs with matrix instructions: rows of all heads that share K and V fill one tile of 16 at most. Warps share its
  /// keys, where else they share rows; tables and cuts of keys are those of the others.
  decoding,
  transposed,  ///< GPUs: the pass of dK and dV, which every launch of gradients needs, too
  inputs,      ///< GPUs: that of the gradients of inputs
};
inline constexpr std::size_t kRegimes = 5;
const char* to_string(Regime regime);
/// All that the plan has, the first of which every launch needs.
std::vector<Regime> regimes_of(const Plan& plan);
bool has_few_queries(const Plan& plan);
/// CPUs: of a launch with so many queries.
Regime regime_of(const Plan& plan, std::int64_t n_q);
/// The plan that the text of a regime spells.
inline const Plan& plan_of(const Plan& plan, Regime regime) {
  return regime == Regime::transposed ? *plan.transposed
         : regime == Regime::inputs   ? *plan.of_inputs
         : regime == Regime::decoding ? *plan.decoding
                                      : plan;
}
/// Is it one of few queries, which are read with all that decoding wants?
inline bool is_of_few(Regime regime) { return regime == Regime::few_queries || regime == Regime::decoding; }
/// Does the regime read other tables than the plan that it stands beside? Of decoding's, by which tiles are counted and
/// heads are alike, where that plan has classes of rows.
bool has_own_tables(const Plan& plan, Regime regime);
/// … whose tables are these?
inline Regime tables_of(const Plan& plan, Regime regime) {
  return has_own_tables(plan, regime) ? regime : Regime::many_queries;
}
/// GPUs: does a launch need the text for rows that it attends, and for nothing else? The first has what fills lists.
bool only_attends(const Plan& plan, Regime text);
/// Rows that a block of few queries takes at a time, for scores and for outputs: others are computed in vain.
inline constexpr int kFewRowsOfScores = 4, kFewRowsOfOutputs = 2;

/// May heads be alike, by what the plan says? On GPUs only then the kernel knows of tiles that heads share.
bool heads_may_share(const Plan& plan);
/// Do all heads keep and score the same, so that a row is told by its position alone?
bool heads_are_alike(const Plan& plan, const Tables& tables);
/// Query heads whose rows stand in one tile, position by position: all that share K and V, where they fit and are
/// alike; else each would read K and V anew.
std::int64_t heads_per_tile(const Plan& plan, bool alike, const Shape& shape);
/// Rows of a tile that warps share the keys of.
inline constexpr int kRowsOfDecoding = 16;
/// May the plan have one of decoding beside it? Of one launch without dropout and gradients.
bool may_decode(const Plan& plan);
/// The plan of decoding with these choices; its rows lie in no classes.
Plan decoding_plan(const Plan& plan, const Choices& choices);
/// Sequences of so many queries or fewer are decoding's: rows of a group of heads that share K and V fill its tile,
/// whether the launch lets them or not, so that a row's bits do not depend on it. 0: none are.
std::int64_t queries_of_decoding(const Plan& plan, const Shape& shape);
/// GPUs: does the text find out how long sequences are, whose sizes stand in the GPU's memory?
bool finds_sizes(const Plan& plan, Regime text);
/// … and may some of these be the text's, where shape.n_q are the most that one has?
bool may_attend(const Plan& plan, Regime text, const Shape& shape);
/// Whose text a launch needs whose sizes the host knows. GPUs: decoding's, or few queries, which are those whose keys
/// may be cut, wherever they are, or that stand in one tile with those of other heads.
Regime regime_of(const Plan& plan, bool alike, const Shape& shape);
/// Makes a tile's rows of one head those of so many that stand in it together.
void repeat_rows(TileRows& rows, std::int64_t heads);

/// What is computed of a tile's full blocks: rows, the mean of both products, and the step of keys. Where at least half
/// of the vectors would have no rows, they are taken one by one.
struct FullBlock {
  double rows = 0;
  int keys = 1;
};
FullBlock full_block(const Plan& plan, std::size_t rows, std::int64_t queries);

}  // namespace weft::ir
