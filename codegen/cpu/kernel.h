#pragma once

#include "codegen/args.h"
#include "codegen/cpu/builder.h"
#include "codegen/cpu/micro_kernels.h"
#include "compiler/ir/few_rows.h"
#include "compiler/ir/plan.h"
#include "compiler/ir/predicates.h"
#include "compiler/target/target.h"

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

/// What the parts of the CPU emitter share: a kernel's sizes and the functions that each part emits. Every emitted
/// function takes (ptr %a, ptr %s): arguments and scratch.
namespace weft::codegen::cpu {

/// What follows from plan and target.
struct Kernel : Layout {
  Kernel(const ir::Plan& plan, const Target& target, ir::Regime regime = ir::Regime::many_queries);

  const ir::Plan& plan;
  const Target& target;
  const ir::Regime regime;              ///< that the text is for
  int d_words;                          ///< 32-bit words of a padded row of Q and K
  bool keys_in_place, values_in_place;  ///< rows of K and V are read where they are: products can step through them
  bool many_passes;                     ///< O is summed over passes

  /// A condition on pairs.
  struct OfPairs {
    ir::ExprPtr holds;
    std::vector<ir::ExprPtr> parts;  ///< what it reads of the row
    bool on_row = false;             ///< reads nothing else
    std::int64_t unit = 1;           ///< keys in a row that it cannot tell apart
    std::optional<ir::PeriodicKey> periodic;
    std::int64_t modulus = 0;   ///< > 1: an interval that holds one value is a stream of keys of this step
    std::int64_t parts_at = 0;  ///< in the scratch: parts, and bounds of an interval, for each row
    std::int64_t bounds_at = 0;
  };
  std::vector<OfPairs> of_pairs;

  // Of gradients: the elements of inputs that the score reads, then those of the sink; derivatives of the score by s,
  // and of both by each of theirs.
  std::vector<ir::ExprPtr> of_elements, element_slopes;
  ir::ExprPtr slope;

  std::map<std::int64_t, const char*> names;  ///< of what stands in the scratch, by its place

  bool takes_copies() const { return !keys_in_place || !values_in_place; }
  std::size_t score_elements() const { return of_elements.size() - static_cast<std::size_t>(sink_elements); }
  bool has_expressions() const {
    return plan.score || plan.sink_logit || !plan.predicates.empty() || !plan.forms.empty();
  }

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

  Value arg(std::size_t byte_offset, const std::string& type = "i64");
  /// What begins there is called as in Layout.
  Value in_scratch(std::int64_t byte_offset);
  Value tile(TileWord w);
  Value word(const Value& pointer, std::int64_t index) { return load("i64", at(pointer, "i64", i64(index)), 8); }
  /// Address of word `offset` of the tables.
  Value table(const Value& offset) { return at(arg(offsetof(weft_args, tables), "ptr"), "i64", offset); }
  /// Term number t of a pass (in the tables), and its state (in the scratch).
  Value term(const Value& pass, const Value& t) {
    return at(at(pass, "i64", i64(walk::kTermsAt)), "i64", mul(t, i64(walk::kTermWords)));
  }
  Value term_state(const Value& t) { return at(at(s, "i8", tile(kStatesAt)), "i8", mul(t, i64(kernel.term_stride))); }
  /// Which rows of the vector from lane v on keep a key of a partial block: a bit each. Of a group, too.
  Value kept_at(const Value& key, const Value& v);
  Value kept(const Value& key, const Value& v);
  Value kept_of_group(const Value& key, const Value& v);
  /// The same in one branch, where branches have deltas of their own.
  Value kept_by_branch_at(const Value& branch, const Value& key, const Value& v);
  Value mask_at(const Value& address);
  void set_mask(const Value& rows, const Value& address);
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
  /// A word of a state, by its place in bytes.
  Value member(const Value& state, std::size_t offset) {
    return load("i64", at(state, "i8", i64(static_cast<std::int64_t>(offset))), 8);
  }
  void set_member(const Value& state, std::size_t offset, const Value& v) {
    store(v, at(state, "i8", i64(static_cast<std::int64_t>(offset))), 8);
  }
  Value term_lo(const Value& state) { return at(state, "i8", i64(sizeof(walk::TermState))); }
  Value term_hi(const Value& state) {
    return at(state, "i8", i64(static_cast<std::int64_t>(sizeof(walk::TermState)) + kernel.rows * 4));
  }
  /// State of a condition on pairs.
  Value condition(const Value& number) {
    return at(in_scratch(kernel.conditions_at), "i8", mul(number, i64(sizeof(Condition))));
  }
  /// A term's conditions: body(state, number, is negated).
  void each_condition(const Value& term, const std::function<void(Value, Value, Value)>& body);

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

/// The eight rows from r on of a tensor whose rows the scratch has pointers to.
std::vector<Value> eight_rows(Part& f, std::int64_t pointers, const Value& r);
/// What scores are multiplied by: f32.
Value score_factor(Part& f);

/// Parameters of functions on full blocks.
inline constexpr const char* kBlockParameters =
    "ptr %keys, ptr %values, ptr %weights, i64 %count, ptr %next_keys, ptr %next_values, ptr %positions";
/// Groups of keys that some row of the vector keeps, as a list; returns their number.
Value list_groups(Part& f, const Value& v, const Value& count);
/// Adds a vector to numbers in the scratch.
void add_to(Part& f, const Value& sum, const Value& at);
/// Groups of keys as if some row kept each, as a list; returns their number.
Value list_all_groups(Part& f, const Value& count);
/// Weights of pairs as if the rows of a vector kept every key.
void keep_all_pairs(Part& f, const Value& count, const Value& v);
/// What a vector of rows measures scores from follows the block's largest; sums are scaled where it moves.
void raise_maxima(Part& f, const Value& v);
/// From the scores of one vector of rows to weights; sums are scaled where a maximum moves.
void weigh_vector(Part& f, const Value& groups, const Value& v);
std::string emit_weigh_vector(const Kernel& kernel);  ///< @weigh_vector, which that calls
// Each emits the functions of one part.
std::string emit_rows(const Kernel& kernel);             ///< @load_q, @fresh, @store_lse, @finish_pass, @store_rows
std::string emit_masks(const Kernel& kernel);            ///< @keep_key, @keep_run
std::string emit_copies(const Kernel& kernel);           ///< @copy_rows
std::string emit_blocks(const Kernel& kernel);           ///< @full_block, @narrow_block, @partial_block
std::string emit_gradient_rows(const Kernel& kernel);    ///< @load_rows, what was summed up
std::string emit_gradient_pairs(const Kernel& kernel);   ///< @pair_gradients, @pair_gradients_kept
std::string emit_gradient_blocks(const Kernel& kernel);  ///< @gradient_block, @gradient_vectors
std::string emit_few(const Kernel& kernel);              ///< of few queries: @load_few, @few_block and its sums
std::string emit_sums(const Kernel& kernel);             ///< @settle, @collect
std::string emit_conditions(const Kernel& kernel);       ///< what expressions use, @form, @describe, @ask, @mask
std::string emit_summaries(const Kernel& kernel);        ///< @summarize
std::string emit_pairs(const Kernel& kernel);            ///< @rewrite, @rewrite_kept, @drop, @drop_kept

}  // namespace weft::codegen::cpu
