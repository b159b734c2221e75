#pragma once

#include "compiler/base/diagnostic.h"
#include "compiler/ir/expr.h"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

/// `Pattern`: what one pattern of a file means once its parameters are bound — sets, branches and
/// score, in the terms of the semantics page, and nothing about how to compute it.
namespace weft::ir {

enum class DType { f32, f16, bf16 };
enum class InputType { i32, u8, f32 };

struct Axis {
  enum class Kind { batch, heads, queries, keys, tokens, blocks, extent } kind = Kind::extent;
  std::int64_t extent = 0;  ///< of `extent`
};

struct Input {
  std::string name;
  InputType type = InputType::i32;
  std::vector<Axis> axes;
  std::int64_t block = 0;  ///< block size of `blocks` axes: that of the `blocks(B, …)` it is used in
  SourceRange range;
};

enum class SetKind {
#define WEFT_ANY_SET(kind, ...) kind,
#include "dsl/sets.def"
};

struct Set;
using SetPtr = std::shared_ptr<const Set>;

/// `automatic`, the word `auto`: whichever owner map is predicted fastest.
enum class RingLayout { automatic, contiguous, zigzag, striped };

/// One node of a set expression. `args` by kind:
///   window a c · segment w · dilated w r (phase in `expr`; `all_queries`) · strided step o · lag step
///   sink n · global n · prefix n · neighborhood: four numbers (size dilation stride causal) per
///   axis · blocks B (children[0]) · random c seed · top c (`causal_top`; input -1 = pooled)
///   own_*: ranks, rank (`layout`, one that a formula says)
struct Set {
  SetKind kind = SetKind::all;
  SourceRange range = {};
  std::vector<std::int64_t> args = {};
  std::vector<SetPtr> children = {};
  ExprPtr expr = nullptr;    ///< where: boolean; dilated: phase, over h and H
  int input = -1;            ///< document, lengths, table, top
  bool all_queries = false;  ///< dilated(…, queries: all)
  bool causal_top = false;
  RingLayout layout = RingLayout::contiguous;
  bool reads_inputs = false;  ///< or items of lists under an index, anywhere in it
  /// Written out, sharing ignored, expressions included: bounded by the lowering.
  std::int64_t nodes = 1;
  int depth = 1;
};

/// Which heads a branch runs on. Groups depend on the number of heads, which is a run-time value.
struct HeadSet {
  enum class Kind { all, group, group_last, range } kind = Kind::all;
  std::int64_t index = 0, count = 1;  ///< group number and number of groups
  std::int64_t lo = 0, hi = 0;        ///< range, hi excluded
  bool contains(std::int64_t h, std::int64_t heads) const;
  bool operator==(const HeadSet&) const = default;
};
/// Has no head a place in both, whatever the number of heads?
bool are_apart(const HeadSet& a, const HeadSet& b);

struct Branch {
  SetPtr set;  ///< every `keep` of the pattern is already intersected
  HeadSet heads;
  SourceRange range;
};

enum class Combine { joint, joint_detached, unite, sum, mean };
/// Is each branch a softmax of its own, with an LSE of its own and none of the row?
inline bool per_branch(Combine combine) { return combine == Combine::sum || combine == Combine::mean; }

struct Tokens {
  enum class Kind { any, exact, multiple_of } kind = Kind::any;
  std::int64_t count = 0;
};

struct Ring {
  std::optional<std::int64_t> ranks;  ///< empty: `any`
  RingLayout layout = RingLayout::automatic;
};

struct ScheduleHint {
  std::string key;  ///< tile_q, tile_k, stages, …
  std::int64_t value = 0;
  SourceRange range;
  bool tuned = false;  ///< found by `weft tune`, not written by the user
};

struct Pattern {
  std::string name;
  std::optional<std::int64_t> heads, kv_heads, dim, dim_v;
  std::optional<DType> dtype;
  /// Where the file says heads, dim and dtype, for messages about contradictions.
  SourceRange heads_range, dim_range, dtype_range, name_range;
  Tokens tokens;
  std::vector<std::int64_t> grid;
  std::vector<Input> inputs;
  std::vector<Branch> branches;
  Combine combine = Combine::joint;
  ExprPtr scale;  ///< real; null: 1/sqrt(d)
  ExprPtr score;  ///< real; null: s
  /// Real, over h, H and inputs: exp of it joins the denominator of each row; null: nothing does.
  ExprPtr sink_logit;
  /// Real, of the score as `s`: weights are its sigmoid, and nothing is divided by their sum; null: softmax.
  ExprPtr sigmoid;
  double dropout = 0;
  std::optional<Ring> ring;
  std::vector<ScheduleHint> schedule;
};

/// What is evaluated for each pair that is kept.
inline std::array<ExprPtr, 3> of_pairs(const Pattern& pattern) {
  return {pattern.scale, pattern.score, pattern.sigmoid};
}
/// Has a row an LSE, if only that of each branch?
inline bool has_lse(const Pattern& pattern) { return !pattern.sigmoid; }

SetPtr make_set(SetKind kind, std::vector<std::int64_t> args = {}, SourceRange range = {});
/// The same, so that `{3, 0}` means two numbers and never two null sets.
inline SetPtr make_set(SetKind kind, std::initializer_list<std::int64_t> args, SourceRange range = {}) {
  return make_set(kind, std::vector<std::int64_t>(args), range);
}
/// Intersection, union, difference, complement. Nested intersections and unions are flattened, `all`
/// and empty sets folded away. There is no kind for the empty set: it is the complement of `all`.
SetPtr make_set(SetKind kind, std::vector<SetPtr> children, SourceRange range = {});
/// document, lengths, table: a set read from input number `input`.
SetPtr make_input_set(SetKind kind, int input, SourceRange range = {});
SetPtr make_where(ExprPtr condition, SourceRange range = {});
SetPtr make_blocks(std::int64_t block, SetPtr inside, SourceRange range = {});
/// top(c, by: …): `input` -1 means pooled.
SetPtr make_top(std::int64_t count, int input, bool causal, SourceRange range = {});
/// The queries or keys that rank `rank` of `ranks` owns.
SetPtr make_own(SetKind kind, std::int64_t ranks, std::int64_t rank, RingLayout layout);
/// dilated(segment: w, rate: r, phase: …)
SetPtr make_dilated(std::int64_t segment, std::int64_t rate, ExprPtr phase, bool all_queries, SourceRange range = {});

bool is_empty(const Set& set);
/// Equal in meaning's form: the same nodes, places in the text ignored.
bool same(const Set& a, const Set& b);
bool same(const Pattern& a, const Pattern& b);

/// The pattern in the language's syntax, every default written out: text of `--stage pattern`.
std::string print(const Pattern& pattern);
std::string print(const Set& set, const std::vector<std::string>& input_names = {});

const char* to_string(DType t);
const char* to_string(InputType t);
const char* to_string(Combine c);
const char* to_string(RingLayout l);
const char* to_string(SetKind k);
int size_of(DType t);

}  // namespace weft::ir
