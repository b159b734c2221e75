#pragma once

#include "codegen/args.h"
#include "codegen/cpu/builder.h"
#include "codegen/tables_image.h"
#include "compiler/ir/plan.h"
#include "compiler/ir/predicates.h"
#include "compiler/ir/schedule.h"
#include "compiler/target/target.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

/// What the parts of the CPU emitter share: sizes, the layout of the scratch, and the functions that
/// each part emits. Every emitted function takes (ptr %a, ptr %s): arguments and scratch.
namespace weft::codegen::cpu {

/// Words at the start of the scratch: facts of the tile being computed.
enum TileWord {
  kB,
  kH,
  kOffset,  ///< batch entry, head, position of row 0
  kCount,
  kFirst,
  kLast,  ///< rows in the tile, first and last position
  kEvery,
  kAny,  ///< AND and OR of the rows' bits
  kKeyBase,
  kValueBase,  ///< address of key 0 for this (batch, kv head)
  kKeyStep,
  kValueStep,  ///< bytes from key to key
  kKeyPage,
  kValuePage,   ///< and from page to page, of a K and V in pages
  kCuts,        ///< number of cut points
  kLanesReady,  ///< per-row intervals are computed
  kBuffer,
  kPending,
  kFilled,    ///< key buffer being filled; a full one waits; keys in the one being filled
  kGroup,     ///< heads whose rows the tile has, position by position
  kStatesAt,  ///< byte offset of the terms' states: functions that read them do not depend on what the conditions need
  kTileWords = 32
};

/// Words of one live term's state.
enum TermState { kMayLo, kMayHi, kMustLo, kMustHi, kLive, kAt, kSegmentEnd, kHit, kStateWords };
/// More of them, where conditions can give a term its stream.
enum LagState { kRateNow = kStateWords, kResidueNow, kStreamFrom, kLagStateWords };

/// Words of what the tile's rows say to one condition on pairs: see ir::TilePredicate.
enum ConditionWord {
  kOnRow,
  kSomeMeet,
  kSomeFail,
  kRuns,
  kLeast,
  kMost,
  kUnit,
  kKnownFrom,
  kKnownEnd,
  kKnown,     ///< keys that were asked about last, and their answer
  kKnownKey,  ///< of an interval: its key's value at kKnownFrom …
  kSlope,     ///< … by how much that grows from one key to the next until kKnownEnd: 0 or 1 …
  kBoundsAt,  ///< … and where in the scratch the rows' lower bounds are, followed by the upper ones; 0: no interval
  kRunRows,
  kConditionWords = kRunRows + static_cast<int>(ir::kMostRuns)
};

/// All sizes and byte offsets of one kernel.
struct Kernel {
  Kernel(const ir::Plan& plan, const Target& target);

  const ir::Plan& plan;
  const Target& target;
  int lanes;  ///< f32 per vector
  int rows;   ///< per tile
  int keys;   ///< per block
  int d, d_v;
  int d_pad, v_pad;  ///< to whole eights: columns of Q, K and V in the scratch; those behind the last hold 0
  int micro_k, micro_q, sub_k;
  int element;  ///< bytes of the stored type
  /// Numbers that a lane of a product takes at once: 2 of bf16, neighbours in a row of K and Q, or a column's of two
  /// neighbouring keys in V and P, where the target has an instruction for it.
  int pair;
  int d_words;                          ///< 32-bit words of a padded row of Q and K
  bool keys_in_place, values_in_place;  ///< rows of K and V are read where they are: products can step through them
  bool few;                             ///< launches of few queries have blocks of their own
  bool many_passes;                     ///< O is summed over passes
  bool counts;                          ///< pairs may be kept more than once
  bool positions;                       ///< positions of a block's keys stand beside their rows

  // Byte offsets in the scratch.
  std::int64_t x, x32, bits, q_row, o_row, idle_row, score_factor, q, q_lanes, few_sums, acc, out, m, l, alpha, top,
      scores, kept, weight, groups;
  std::int64_t key_at[2], value_at[2], key_weight[2], key_position[2];
  std::int64_t key_wide, value_wide;
  std::int64_t round_keys, random;  ///< dropout: keys of ten rounds; words of four keys for one vector of rows

  /// A condition on pairs.
  struct Condition {
    ir::ExprPtr holds;
    std::vector<ir::ExprPtr> parts;  ///< what it reads of the row
    bool on_row = false;             ///< reads nothing else
    std::int64_t unit = 1;           ///< keys in a row that it cannot tell apart
    std::optional<ir::PeriodicKey> periodic;
    std::int64_t modulus = 0;   ///< > 1: an interval that holds one value is a stream of keys of this step
    std::int64_t parts_at = 0;  ///< in the scratch: parts, and bounds of an interval, for each row
    std::int64_t bounds_at = 0;
  };
  std::vector<Condition> conditions;
  bool lags = false;  ///< some condition can become the stream of a term
  std::int64_t conditions_at, mask;
  bool takes_copies() const { return !keys_in_place || !values_in_place; }
  bool has_expressions() const { return plan.score || !plan.predicates.empty() || !plan.forms.empty(); }

  int state_words;           ///< of a term
  std::int64_t terms;        ///< from here on: per term
  std::int64_t term_stride;  ///< state words, then lo and hi per row as i32

  std::string vf() const { return vector_type(lanes, "float"); }
  std::string vi() const { return vector_type(lanes, "i32"); }
  std::string vb() const { return vector_type(lanes, "i1"); }
};

/// Addressing shared by the parts, in one function being built.
class Part : public Builder {
 public:
  Part(const Kernel& kernel, const std::string& name, const std::string& result = "void", const std::string& more = "");
  const Kernel& kernel;
  Value a = argument("ptr", "a");
  Value s = argument("ptr", "s");

  Value arg(std::size_t byte_offset, const std::string& type = "i64") {
    return load(type, at(a, "i8", i64(static_cast<std::int64_t>(byte_offset))), 8);
  }
  Value in_scratch(std::int64_t byte_offset) { return at(s, "i8", i64(byte_offset)); }
  Value tile(TileWord w) { return load("i64", at(s, "i64", i64(w)), 8); }
  void set_tile(TileWord w, const Value& v) { store(v, at(s, "i64", i64(w)), 8); }
  /// Position of row 0 of a batch entry, as the tile's.
  void set_offset(const Value& b);
  Value word(const Value& pointer, std::int64_t index) { return load("i64", at(pointer, "i64", i64(index)), 8); }
  /// Address of word `offset` of the tables.
  Value table(const Value& offset) { return at(arg(offsetof(weft_args, tables), "ptr"), "i64", offset); }
  /// Term number t of a pass (in the tables), and its state (in the scratch).
  Value term(const Value& pass, const Value& t) {
    return at(at(pass, "i64", i64(kTermsAt)), "i64", mul(t, i64(kTermWords)));
  }
  Value term_state(const Value& t) { return at(at(s, "i8", tile(kStatesAt)), "i8", mul(t, i64(kernel.term_stride))); }
  /// Which rows of the vector from lane v on keep a key of a partial block: a bit each. Of a group, too.
  Value kept_at(const Value& key, const Value& v);
  Value kept(const Value& key, const Value& v);
  Value kept_of_group(const Value& key, const Value& v);
  void set_kept(const Value& rows, const Value& key, const Value& v);
  /// Keeps none of a group of keys from `key` on, which may pass the block's end.
  void keep_none(const Value& key, const Value& v);
  /// Row of a block's scores or weights of pairs, from lane v on; groups of keys that a vector of rows keeps.
  Value pair_at(std::int64_t base, const Value& key, const Value& v) {
    return at(at(in_scratch(base), "float", mul(key, i64(kernel.rows))), "float", v);
  }
  /// The row of weights that a key's are in: pairs of bf16 stand in the row of every other key.
  Value pair_row(const Value& key) { return kernel.pair == 2 ? op("lshr", key, i64(1)) : key; }
  Value group_key(const Value& i) { return load("i64", at(in_scratch(kernel.groups), "i64", i), 8); }
  Value term_lo(const Value& state) { return at(state, "i64", i64(kernel.state_words)); }
  Value term_hi(const Value& state) { return at(state, "i8", i64(kernel.state_words * 8 + kernel.rows * 4)); }
  /// Step and residue of a term's stream in this tile.
  Value rate(const Value& term, const Value& state) { return kernel.lags ? word(state, kRateNow) : word(term, kRate); }
  Value residue(const Value& term, const Value& state) {
    return kernel.lags ? word(state, kResidueNow) : word(term, kResidue);
  }
  /// The same for term number t of a pass.
  Value rate_at(const Value& term, const Value& t) {
    return kernel.lags ? word(term_state(t), kRateNow) : word(term, kRate);
  }
  /// Takes a term's stream to key `step`, or to the first of the next segment.
  void move_stream(const Value& term, const Value& state, const Value& step);
  /// State of a condition on pairs.
  Value condition(const Value& number) {
    return at(in_scratch(kernel.conditions_at), "i64", mul(number, i64(kConditionWords)));
  }
  /// A term's conditions: body(state, number, is negated).
  void each_condition(const Value& term, const std::function<void(Value, Value, Value)>& body);
  /// Cut points (4 a term) and the list of a zone's terms, behind the last term.
  Value cuts() { return term_state(arg(offsetof(weft_args, most_terms))); }
  Value zone_terms() { return at(cuts(), "i64", mul(arg(offsetof(weft_args, most_terms)), i64(4))); }

  Value floor_div(const Value& x, const Value& w);
  Value floor_mod(const Value& x, const Value& w);
  Value fma(const Value& x, const Value& y, const Value& z);
  /// sum + x y, of vectors of f32 or of pairs of bf16 behind the type of f32.
  Value product(const Value& x, const Value& y, const Value& sum);
  Value vsplat(double v) { return splat(f32(v), kernel.lanes); }
  Value vload(const Value& base, const Value& element) {
    return load(kernel.vf(), at(base, "float", element), 4 * kernel.lanes);
  }
  void vstore(const Value& v, const Value& base, const Value& element) {
    store(v, at(base, "float", element), 4 * kernel.lanes);
  }
  /// 2^x, 0 below the smallest normal number, NaN for NaN; or about, for what is rounded to bf16.
  Value exp2(const Value& x, bool for_bf16 = false);
  /// log2 of a positive normal number, relative error below 1e-7.
  Value log2(const Value& x);
  /// Is any lane of a vector of i1 set?
  Value any(const Value& mask);
  /// Asks for a cache line: to be read soon, or a block later, or to be written.
  enum class Use { soon, later, to_write };
  void ask_for_line(const Value& address, Use use);
  /// The same for all lines of a row.
  void ask_for(const Value& row, int width, Use use = Use::soon);
  /// Eight stored elements as f32, and back; only the first `count` are touched, the others are 0.
  Value load8(const Value& address, int count = 8);
  void store8(const Value& v, const Value& address, int count = 8);
  /// Stored 16-bit elements, so many lanes of i16, as f32.
  Value widened(const Value& halves, int lanes);
  /// Eight 16-bit elements as they are stored, likewise.
  Value load8_halves(const Value& address, int count = 8);
  /// Columns of a row by eights, the last time perhaps fewer.
  void each_eight(int width, const std::function<void(const Value& column, int count)>& body);
  /// Eight vectors of eight, rows to columns.
  std::vector<Value> transpose8(const std::vector<Value>& rows);
};

/// An expression where the tile's facts are known; rows and keys are not.
class Expression;
Expression expression_at(Part& f, int lanes);

/// What scores are multiplied by: f32.
Value score_factor(Part& f);

/// Parameters of functions on full blocks.
std::string block_parameters(const Kernel& kernel);
/// Groups of keys as if some row kept each, as a list; returns their number.
Value list_all_groups(Part& f, const Value& count);
/// Weights of pairs as if the rows of a vector kept every key.
void keep_all_pairs(Part& f, const Value& count, const Value& v);
/// What a vector of rows measures scores from follows the block's largest; sums are scaled where it moves.
void raise_maxima(Part& f, const Value& v);
/// From the scores of one vector of rows to weights; sums are scaled where a maximum moves.
void weigh_vector(Part& f, const Value& groups, const Value& v);
/// Has the launch so few queries that @few_block takes full blocks? And what is done then, or else.
Value is_few(Part& f);
void when_few(Part& f, const std::function<void()>& then, const std::function<void()>& otherwise = {});

bool has_summaries(const Kernel& kernel);

/// What a summary may say of a key: the answer to all keys before an end (see @answers), or that those before an end
/// have one key value.
struct SummarySays {
  std::function<void(const Value& answer, const Value& end)> answer;
  std::function<void(const Value& end)> one_key;
};
/// Asks the summary of a condition, where it has one, about key y. Of what is said the last counts.
void ask_summary(Part& f, std::size_t condition, const Value& y, const SummarySays& says);

// Each emits the functions of one part.
std::string emit_rows(const Kernel& kernel);        ///< @rows, @load_q, @finish_pass, @store_rows, carry
std::string emit_schedule(const Kernel& kernel);    ///< @bound, @spans, @intervals, @zone, @next
std::string emit_walk(const Kernel& kernel);        ///< @full_zone, @partial_zone, @flush_full
std::string emit_copies(const Kernel& kernel);      ///< @copy_rows
std::string emit_blocks(const Kernel& kernel);      ///< @full_block, @partial_block
std::string emit_few(const Kernel& kernel);         ///< @load_few, @few_block and its sums
std::string emit_conditions(const Kernel& kernel);  ///< what expressions use, @runs, @describe, @answers, @mask
std::string emit_summaries(const Kernel& kernel);   ///< @summarize
std::string emit_pairs(const Kernel& kernel);       ///< @rewrite, @rewrite_kept, @seed, @drop, @drop_kept

}  // namespace weft::codegen::cpu
