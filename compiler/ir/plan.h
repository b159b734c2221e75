#pragma once

#include "compiler/base/result.h"
#include "compiler/ir/expr.h"
#include "compiler/ir/pattern.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

/// `Plan`: every decision about how a pattern is computed, for one binding of dims and dtype and one
/// target. No sequence length, batch or head count is in it; those are run-time values.
///
/// The two sides of the relation are called `x` (stationary: the rows of a tile) and `y` (streamed:
/// what a tile walks over). `stationary: query` means x = q, y = k; `stationary: key` is the
/// transposed relation of the backward pass.
///
/// A pass walks *key ranges*. A range is a conjunction: per x an interval lo(x) <= y < hi(x) with
/// closed-form bounds that never fall as x grows, congruences on y, conditions on x. Because the
/// bounds are monotone, a tile with first row x0 and last row x1 *may* keep [lo(x0), hi(x1)) and
/// *must* keep [lo(x1), hi(x0)): that is the whole classification into empty, partial and full
/// tiles, with no mask and nothing that depends on the length.
namespace weft::ir {

inline constexpr int kPlanAbi = 1;

// What one plan may have. Inputs and lists: what the argument block has room for (codegen/args.h).
inline constexpr std::size_t kMostInputs = 16, kMostAxes = 4, kMostLists = 4;
inline constexpr std::size_t kMostPredicates = 256;
inline constexpr std::int64_t kSummaryBlock = 64;
/// Chunks of keys times softmaxes: a block of threads takes one of each, and each has a state to be kept.
inline constexpr std::int64_t kMostShares = 128;

/// One closed form over the tile's rows. `value(x) = base + add` with base by kind:
///   constant 0 · row x · segment floor(x / a) * a · input t[b] of input number a ·
///   part floor(b * n / a): border number b of n tokens cut into a pieces (ring ownership) ·
///   form number a of Plan::forms, which between rows may fall by b at most
struct Bound {
  enum class Kind { constant, row, segment, input, part, form } kind = Kind::constant;
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int64_t add = 0;
  bool operator==(const Bound&) const = default;
};

/// `(v % segment) % rate == phase % rate` for v = x or y; segment 0: one segment without end.
/// `negated`: the values that fail it.
struct Congruence {
  std::int64_t segment = 0;
  std::int64_t rate = 1;
  ExprPtr phase;  ///< over h and H; null: 0
  bool negated = false;
};
bool operator==(const Congruence& a, const Congruence& b);

/// A truth over h and H, which tables resolve.
struct HeadCondition {
  ExprPtr holds;
};
bool operator==(const HeadCondition& a, const HeadCondition& b);

/// A condition on the row alone: x < bound, or x >= bound when `below` is false. The bound is a
/// constant, an input or a part.
struct RowCondition {
  Bound bound;
  bool below = true;
  bool operator==(const RowCondition&) const = default;
};

/// A condition on a pair that no bound or congruence says. Either `holds`, a boolean, or `lo <= key < hi` where `key`
/// reads no row and the others no key; `modulus` is set where that means key % modulus == lo.
struct Predicate {
  ExprPtr holds;
  ExprPtr key, lo, hi;
  std::int64_t modulus = 0;
};
bool operator==(const Predicate& a, const Predicate& b);

/// What is found out before the attention, for blocks of `block` tokens. Keys chosen for each row of blocks, `count` of
/// the key blocks:
///   random: drawn by `seed` (semantics section 7), the same for every batch entry
///   top: those that score best (section 8), by pooled queries and keys, or by input number `input`
/// Summaries of condition number `predicate`, by which tiles pass over keys that no row keeps:
///   spans: the least and the largest that the condition's key is in a block of keys
///   meets: does any pair of a block of queries and a block of keys meet the condition, does any fail it?
///   choosers: of a condition that is the choice of a list, the blocks of rows that chose each block of keys. It is the
///   transposed plan that passes over queries by it.
struct List {
  enum class Kind { random, top, spans, meets, choosers } kind = Kind::random;
  std::int64_t count = 0;
  std::int64_t block = 1;
  std::int64_t seed = 0;
  int input = -1;
  bool causal = false;
  int predicate = -1;
  bool summarizes() const { return predicate >= 0; }
  bool chooses() const { return kind == Kind::random || kind == Kind::top; }
  /// Are blocks scored by the means of their queries and keys?
  bool pools() const { return kind == Kind::top && input < 0; }
  bool operator==(const List&) const = default;
};

/// Number of one of the plan's predicates, or of its opposite.
struct PredicateUse {
  int number = 0;
  bool negated = false;
  bool operator==(const PredicateUse&) const = default;
};

/// One conjunction of a branch; a branch is the union of its ranges.
struct KeyRange {
  int branch = 0;
  HeadSet heads;
  std::vector<HeadCondition> when;  ///< heads that fail one keep nothing of the range
  Congruence stream;                ///< y walks it in steps of its rate; rate 1: every y
  std::vector<Congruence> filters;  ///< further congruences on y
  std::vector<Bound> lo, hi;        ///< y >= every lo, y < every hi
  std::vector<RowCondition> rows;
  std::vector<Congruence> row_congruences;
  std::vector<PredicateUse> predicates;
};

/// What a pass does with a pair that several of its branches keep.
enum class Weight { one, count };

/// One softmax each.
struct Pass {
  std::vector<int> branches;
  std::vector<KeyRange> ranges;
  Weight weight = Weight::one;
  bool out = true;    ///< contributes to O; false: only its LSE is wanted
  double factor = 1;  ///< O += factor * the pass's softmax
  int lse_slot = -1;  ///< -1: the pattern's LSE; otherwise that row of the per-branch LSE
  bool lse = true;    ///< writes an LSE at all
};

/// How rows are grouped into tiles.
///   contiguous: tiles of `tile` consecutive rows.
///   classes: rows are cut into cells of the gcd of the segments in `by`, so that inside a cell each
///   member has one residue; the rows that meet the same members form a class, and a tile holds rows
///   of one class (small classes share tiles). Which members concern a head depends on the number of
///   heads, so cells and classes are computed with it: see tables.h.
///   patches: rows whose x % modulus lie in one patch of the modulus form a class: of `patch` neighbours, or
///   on lines of `line` tokens of `patch_lines` by `patch`; rows and lines of a patch may stand `step`s apart. One
///   residue a class suits lags, squares suit grids, steps their dilated neighborhoods.
struct RowMap {
  bool classes = false;
  int tile = 64;
  std::vector<Congruence> by;
  std::int64_t modulus = 0;  ///< 0: no patches
  std::int64_t line = 0;     ///< 0: the modulus is one line
  std::int64_t patch = 1, patch_lines = 1;
  std::int64_t step = 1, line_step = 1;
  bool longest_first = true;  ///< later rows have more keys: walk tiles from the last to the first
};

enum class Role {
  attend,
  inputs,  ///< GPUs: gradients of inputs
};
enum class Carry { none, out, inout, in };
enum class Stationary { query, key };

/// A walk over all rows in one order. `carry` says whether the f32 state (acc, m, l) of each row comes
/// from the phase before or goes to the next; the phase with `none` or `in` writes O and LSE.
struct Phase {
  Role role = Role::attend;
  Carry carry = Carry::none;
  Stationary stationary = Stationary::query;
  RowMap rows;
  std::vector<Pass> passes;
};

/// What is compiled in.
struct Bind {
  std::int64_t d = 64, d_v = 64;
  DType dtype = DType::f32;
  bool branch_lse = false;  ///< also the LSE of every branch
  bool paged = false;       ///< K and V come in pages
  bool gradient = false;    ///< the backward pass: the walk of the forward, with another body
  bool operator==(const Bind&) const = default;
};

/// How the inner products are computed: by a CPU's vectors (lanes are rows), by plain GPU lanes from shared memory, or
/// by a GPU's matrix instructions, which want f16 or bf16.
enum class KernelClass { vector, simt, mma };

/// How scores become weights.
enum class Weights {
  softmax,  ///< exp(s), divided by their sum
  direct,   ///< what the score expression gives, by nothing
};

/// Free choices, scored by the cost model, overridable by `schedule`.
struct Choices {
  KernelClass kernel_class = KernelClass::vector;
  int tile_q = 64;  ///< rows per tile
  int tile_k = 64;  ///< streamed rows per block
  int sub_q = 16;   ///< rows of a sub-tile that is skipped when empty: the vector's lanes, or a warp's rows
  int sub_k = 8;    ///< streamed rows of such a sub-tile
  int micro_k = 4;  ///< register tile of a full block: keys (and value columns) …
  int micro_q = 4;  ///< … times vectors of rows; for GPUs rows, or tiles of 16
  int threads = 1;  ///< that compute one tile together
  int depth = 0;    ///< GPUs: columns of Q and K staged in shared memory at a time …
  int staged = 0;   ///< … and rows of V
  int stages = 1;  ///< GPUs: blocks of keys that have room in shared memory: the next arrives under this one's products
  int groups = 0;  ///< GPUs: 1: four warps multiply together, of operands in shared memory (wgmma of sm_90a)
  int resident = 2;  ///< GPUs: blocks of threads that an SM holds: registers may take what they leave
  /// CPUs: launches of at most so many queries have a regime of their own (few_rows.h); 0: none has.
  int few_q = 0;
  /// CPUs: products that a lane does with one instruction. 2: of pairs of bf16, which else are widened to f32.
  int products = 1;
  bool operator==(const Choices&) const = default;
};

/// How launches of at most `rows` queries, and of more than the cut before this one has, cut the keys of a row into
/// chunks (key_chunks.h).
struct Cut {
  std::int64_t rows = 0;
  std::int64_t keys = 0;  ///< of a chunk, at least
  std::int64_t most = 0;  ///< chunks
  bool operator==(const Cut&) const = default;
};

struct Plan {
  int abi = kPlanAbi;
  std::string name;    ///< the pattern's, for messages; not part of any key
  std::string target;  ///< family the choices are made for
  Bind bind;
  Combine combine = Combine::joint;
  int branches = 1;
  std::vector<Input> inputs;
  std::optional<double> scale;  ///< empty: 1 / sqrt(d)
  ExprPtr score;                ///< real, over s, the scaled product; null: s itself
  Weights weights = Weights::softmax;
  ExprPtr sink_logit;       ///< real, over h, H and inputs: exp of it joins a row's sum at its end; null: nothing
  double dropout = 0;       ///< share of weights that are dropped
  std::vector<List> lists;  ///< read by `listed`; summaries stand behind those
  std::vector<Predicate> predicates;
  std::vector<ExprPtr> forms;  ///< integers over the row that never fall as it grows (but see Bound)
  std::optional<Ring> ring;
  Choices choices;
  std::vector<Phase> phases;
  std::vector<Cut> cuts;  ///< GPUs: by rows, ascending; launches of more queries than any has cut no keys
  /// Of gradients on GPUs, where this is the plan of dQ: that of dK and dV, whose tiles hold keys and walk over
  /// queries.
  std::shared_ptr<const Plan> transposed;
  /// … and of those of f32 inputs, where there are any.
  std::shared_ptr<const Plan> of_inputs;
  /// GPUs: that of launches whose rows fill one tile of 16: this one with other choices (few_rows.h).
  std::shared_ptr<const Plan> decoding;
  std::vector<std::string> reasons;  ///< why each choice was made, for people

  /// What tiles hold, which is the same in all phases.
  Stationary stationary() const { return phases.empty() ? Stationary::query : phases.front().stationary; }

  /// Of gradients: is delta no product of O and dO, because O is a sum of softmaxes, or branches have their own?
  bool finds_deltas() const;

  /// Of gradients on GPUs: is there anything to find out of a query before its pairs?
  bool finds_terms() const { return weights == Weights::softmax || scales_gradients(); }

  /// Of gradients by matrix instructions of f16: dS is scaled by the largest dO, for small numbers would be 0.
  bool scales_gradients() const {
    return bind.gradient && choices.kernel_class == KernelClass::mma && bind.dtype == DType::f16;
  }
  /// Do scores or the sink read numbers of f32 inputs, which then have a gradient other than 0?
  bool reads_elements() const;

  /// Does a sum of several softmaxes stand in memory? On GPUs, whose registers hold the running one.
  bool sums_in_memory() const;

  /// Can a launch cut the keys of its rows into chunks?
  bool may_cut_keys() const { return !cuts.empty(); }

  /// May the sizes of a launch's entries stand in the GPU's memory? Lists are made for sizes that the host knows.
  bool may_read_sizes() const { return choices.kernel_class != KernelClass::vector && lists.empty(); }

  /// f32 state of one row: acc, m, l; of gradients dQ, or dK and dV.
  std::int64_t state_bytes() const {
    if (!bind.gradient) return 4 * (bind.d_v + 2);
    return 4 * (stationary() == Stationary::key ? bind.d + bind.d_v : bind.d);
  }

  /// What one (batch, head, row) keeps in memory, between phases or for a sum, in bytes; mostly 0.
  std::int64_t carry_bytes_per_row() const { return phases.size() > 1 || sums_in_memory() ? state_bytes() : 0; }
};

/// The plan as text, with what a launch of it runs (steps.h), and back. `print(*parse_plan(print(p))) == print(p)`.
std::string print(const Plan& plan);
Result<Plan> parse_plan(std::string_view text);

/// Everything that is wrong with a plan, one sentence each; empty when it is sound. Invariants:
///  1. d and d_v are from 1 to 256; tile, sub-tile and register tile divide each other; two products at once are of
///     bf16, on vectors of 16 rows and whole pairs of keys.
///  2. At least one phase; the last one does not carry out, the first one does not carry in, and
///     phases that carry have exactly one pass.
///  3. Every range belongs to a branch of its pass; rates >= 1, segments >= 0, parts within pieces.
///  4. Row conditions use constants, inputs and parts only; inputs of bounds exist and are i32[batch].
///  5. A class map has 1 to 64 members in `by`, each with rate > 1 and not negated; others have none. Patches divide
///     their lines, lines the modulus; rows go by members or by patches.
///  6. Phases and conditions on heads are over h and H only.
///  7. LSE slots are -1 or below the number of branches, each written by one pass of a phase.
///  8. Lists have a count and a block of 1 or more, and an f32 input of four axes or none. Summaries stand behind
///     lists of chosen keys, which alone `listed` reads; `spans` are of an interval and `meets` of a truth that reads
///     the key, in blocks of kSummaryBlock; `choosers` of what a list says, in its blocks.
///  9. Cuts ascend by rows, are of one phase without gradients, and have chunks of whole blocks of keys, of which each
///     softmax has at most kMostShares.
/// 10. Predicates, forms and the score have their types, read no s but in the score, and index inputs with one integer
///     an axis; the sink is over h and H. Direct weights have a score, no sink, and one pass a phase that writes no
///     LSE.
/// 11. The transposed plan is sound, holds keys in its tiles, has the binding of the other and no plans beside it; that
///     of inputs likewise, with queries in its tiles.
/// 12. That of decoding has tiles of 16 rows, whose keys warps share, and is else the same: may_decode().
std::vector<std::string> verify(const Plan& plan);

}  // namespace weft::ir
