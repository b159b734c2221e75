#include "codegen/cuda/emit.h"

#include "codegen/cuda/classes.h"
#include "codegen/cuda/conditions.h"
#include "codegen/cuda/headers.h"
#include "codegen/cuda/lists.h"
#include "codegen/cuda/pairs.h"
#include "compiler/base/text_writer.h"
#include "compiler/ir/few_rows.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::codegen::cuda {
namespace {

/// What some range of the plan needs code for; the rest of it falls away when the text is compiled.
struct Uses {
  bool classes = false, row_bits = false, row_conditions = false;
  bool streams = false, filters = false;
  bool segments = false, parts = false, forms = false;
  bool slots = false;
};

void note(Uses& uses, const ir::Plan& plan, const ir::Bound& bound) {
  uses.segments |= bound.kind == ir::Bound::Kind::segment;
  uses.parts |= bound.kind == ir::Bound::Kind::part;
  if (bound.kind != ir::Bound::Kind::form) return;
  uses.forms = true;
  // Tables turn a form that the head gives into a bound of another kind.
  uses.segments |= ir::reads(*plan.forms[static_cast<std::size_t>(bound.a)], ir::Variable::h);
}

void note(Uses& uses, const ir::Plan& plan, const ir::KeyRange& range) {
  for (const auto& bound : range.lo) note(uses, plan, bound);
  for (const auto& bound : range.hi) note(uses, plan, bound);
  for (const auto& row : range.rows) note(uses, plan, row.bound);
  uses.row_bits |= !range.row_congruences.empty();
  uses.row_conditions |= !range.rows.empty();
  uses.streams |= range.stream.rate > 1;
  uses.filters |= !range.filters.empty();
}

Uses uses_of(const ir::Plan& plan) {
  Uses uses;
  for (const auto& p : plan.predicates) uses.streams |= p.modulus > 1;
  for (const auto& phase : plan.phases) {
    for (const auto& pass : phase.passes) {
      for (const auto& range : pass.ranges) note(uses, plan, range);
      uses.slots |= pass.lse_slot >= 0;
    }
    uses.classes |= phase.rows.classes;
  }
  return uses;
}

/// Bit i: input i is one number per batch entry, which bounds may refer to.
unsigned lengths(const ir::Plan& plan) {
  unsigned bits = 0;
  for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
    const ir::Input& in = plan.inputs[i];
    const bool is_length =
        in.type == ir::InputType::i32 && in.axes.size() == 1 && in.axes[0].kind == ir::Axis::Kind::batch;
    bits |= (is_length ? 1U : 0U) << i;
  }
  return bits;
}

/// Which of the three texts of a backward pass is it?
bool is_of_inputs(const ir::Plan& plan) { return plan.phases.front().role == ir::Role::inputs; }
bool is_of_queries(const ir::Plan& plan) {
  return plan.bind.gradient && plan.stationary() == ir::Stationary::query && !is_of_inputs(plan);
}

std::size_t most_passes(const ir::Plan& plan) {
  std::size_t most = 0;
  for (const auto& phase : plan.phases) most = std::max(most, phase.passes.size());
  return most;
}

/// Keys that a thread tries at once; where conditions are asked of each, 128 of a block of threads.
int tries(const ir::Plan& plan) {
  return plan.predicates.empty() ? traits_of(plan.choices.kernel_class).tries : std::max(1, 128 / plan.choices.threads);
}

bool lists_pages(const ir::Plan& plan) { return plan.bind.paged && traits_of(plan.choices.kernel_class).lists_pages; }

/// The text of few queries alone knows of tiles that heads share, and that of many mostly not of keys in chunks.
bool shares_tiles(const ir::Plan& plan, ir::Regime regime) {
  return ir::is_of_few(regime) && ir::heads_may_share(plan);
}
bool cuts_keys(const ir::Plan& plan, ir::Regime regime) {
  const bool always = traits_of(plan.choices.kernel_class).always_cuts;
  return plan.may_cut_keys() && (always || ir::is_of_few(regime));
}

/// What shared memory is reckoned by; codegen/cuda/device/shape.cuh has the same of the text's constants.
walk::BlockShape shape_of(const ir::Plan& plan, ir::Regime regime) {
  const auto& c = plan.choices;
  const ClassTraits& of_class = traits_of(c.kernel_class);
  return of_class.shape({.rows = c.tile_q,
                         .keys = c.tile_k,
                         .threads = c.threads,
                         .dim = static_cast<int>(plan.bind.d),
                         .dim_v = static_cast<int>(plan.bind.d_v),
                         .summed = static_cast<int>(columns_summed(plan)),
                         .gradient = plan.bind.gradient,
                         .transposed = plan.stationary() == ir::Stationary::key,
                         .tries = tries(plan),
                         .ahead = of_class.ahead,
                         .lists_pages = lists_pages(plan),
                         .counts = digits(plan) > 0,
                         .shares_tiles = shares_tiles(plan, regime),
                         .units = units_of_block(plan),
                         .by_spans = has_spans(plan),
                         .by_values = compares_values(plan),
                         .conditions = static_cast<int>(plan.predicates.size()),
                         .inputs = static_cast<int>(plan.inputs.size())},
                        c);
}

/// Direct weights may be as small as 1 / n, where f16 has no normal numbers any more. As factors of matrix instructions
/// they are so much larger, and stay below 2^16 for 255 branches.
int scale_of_weights(const ir::Plan& plan) {
  return plan.choices.kernel_class == ir::KernelClass::mma && plan.bind.dtype == ir::DType::f16 ? 256 : 1;
}

void constants(TextWriter& w, const ir::Plan& plan, const Target& target, ir::Regime regime) {
  const auto& c = plan.choices;
  const ClassTraits& of_class = traits_of(c.kernel_class);
  Constants constant(w);
  constant("kRows", c.tile_q, "queries of a tile: what one block of threads computes");
  constant("kKeys", c.tile_k, "keys computed at a time");
  constant("kThreads", c.threads, "of a block");
  // Without a number ptxas aims at more blocks for some head dims, and spills a few bytes for it.
  constant("kBlocks", c.resident, "that an SM must hold: registers may take what they leave");
  if (has_prepass(plan, regime) || has_summaries(plan))
    constant("kPrepassThreads", ir::kPrepassThreads, "of a block of the prepass");
  if (has_prepass(plan, regime) && chooses_best(plan))
    constant("kListedRows", ir::kListedRows, "rows of blocks for which it chooses the best keys");
  if (plan.bind.gradient && ir::finds_sizes(plan, regime))
    constant("kClearedRows", ir::kClearedRows, "of gradients, by a block, where no sequence is");
  if (passes_over_keys(plan))
    constant("kSummaryBlock", ir::kSummaryBlock, "keys, or queries, of which is asked together");
  constant("kDim", plan.bind.d, "columns of Q and K");
  constant("kDimV", plan.bind.d_v, "columns of V and O");
  constant("kSummed", columns_summed(plan), "columns of what a row sums up");
  constant.flag("kGradient", plan.bind.gradient, "dQ, or dK and dV");
  of_class.constants(constant, plan, target);
  if (c.kernel_class == ir::KernelClass::mma && !plan.bind.gradient)
    constant.flag("kFewRows", regime == ir::Regime::few_queries && c.groups == 0,
                  "that fill a tile's first 16, as in decoding");
  constant.flag("kCounts", digits(plan) > 0, "several branches may keep a pair");
  constant("kDigits", digits(plan), "of how many those are, in base 2");
  constant.flag("kCutsKeys", cuts_keys(plan, regime), "of few rows with many keys, which weft_merge goes on with");
  constant.flag("kSeveralSoftmaxes", most_passes(plan) > 1, "of a row, and O is a weighted sum of some");
  if (plan.bind.gradient)
    constant.flag("kScalesGradients", plan.scales_gradients(), "dS as an operand: f16 has no small numbers");
  if (is_of_queries(plan))
    constant.flag("kFindsDeltas", plan.finds_deltas(), "each softmax, or branch, from its own pairs");
  if (plan.weights == ir::Weights::direct)
    constant("kDirect", scale_of_weights(plan), "times the scores are the weights: nothing is divided by their sum");
  else
    constant.flag("kDirect", false, "");
  if (!plan.bind.gradient)
    constant.flag("kHasSink", plan.sink_logit != nullptr, "a further term of a row's sum, without a value");
  constant.flag("kSomeEntries", regime == ir::Regime::decoding || (ir::is_of_few(regime) && plan.decoding != nullptr),
                "of a batch: another text computes those of more, or of fewer, queries");
  constant.flag("kSharesTiles", shares_tiles(plan, regime), "heads that share K and V may stand in one tile");
  constant.flag("kTransposed", plan.stationary() == ir::Stationary::key,
                "tiles hold keys, and queries are walked over");
  const bool pools = has_prepass(plan, regime) && chooses_best(plan);
  if (!plan.bind.gradient || c.kernel_class == ir::KernelClass::mma || pools)  // the others have no use for it
    constant.flag("kPaged", plan.bind.paged, "K and V come in pages");
  constant.flag("kListsPages", lists_pages(plan), "the list of keys says in which");
  constant("kTries", tries(plan), "keys that a thread tries at once");
  constant("kAhead", of_class.ahead, "blocks of keys that are known ahead of the one at hand");
  constant("kInputs", static_cast<std::int64_t>(plan.inputs.size()), "tensors beside Q, K and V");
  constant("kLengths", lengths(plan), "those of them that are lengths, which bounds refer to, as bits");
  constant("kConditions", static_cast<std::int64_t>(plan.predicates.size()), "on pairs, beyond bounds and congruences");
  if (plan.stationary() == ir::Stationary::key)
    constant.flag("kServeAllHeads", serve_all_heads(plan), "what rows say to conditions is found once");
  constant("kUnits", units_of_block(plan), "of those, if some may be passed over");
  if (passes_over_keys(plan)) constant.flag("kFollowsLists", follows_lists(plan), "to the next keys that they choose");
  constant.flag("kHasSets", has_sets(plan), "of keys that follow each other, of which all conditions say the same");
  constant.flag("kSpans", has_spans(plan), "summaries tell of 64 and of 4,096 keys at once what values they have");
  if (has_conditions(plan))
    constant.flag("kNarrows", narrows_keys(plan), "rows keep an interval of keys by some of them, or none");
  constant.flag("kByValues", compares_values(plan), "pairs by a value of the key, which rows compare");
  if (plan.phases.size() > 1 || plan.bind.gradient)
    constant("kPhases", static_cast<std::int64_t>(plan.phases.size()), "launches, with f32 state carried between them");
  constant("kSharedFixed", shape_of(plan, regime).shared_bytes(),
           "bytes of shared memory, and more for each key range of a head");
  const Uses uses = uses_of(plan);
  constant.flag("kHasClasses", uses.classes, "tiles of rows that meet the same conditions");
  constant.flag("kHasRowBits", uses.row_bits, "congruences that rows must meet or miss");
  constant.flag("kHasRowConditions", uses.row_conditions, "ranges of rows only");
  constant.flag("kHasStreams", uses.streams, "keys in steps");
  constant.flag("kHasFilters", uses.filters, "further congruences of keys");
  constant.flag("kHasSegments", uses.segments, "bounds where a segment begins or ends");
  constant.flag("kHasSlots", uses.slots, "an LSE for each branch");
  constant.flag("kHasForms", uses.forms, "bounds that an expression of the row gives");
  constant.flag("kHasParts", uses.parts, "bounds that are a share of the sequence");
  constant.write_absent();
}

constexpr const char* kOnePass = R"(
  // One softmax over the keys of every branch.
  const i64* pass = a.tables + word(head + kPassesAt);
  do {
    const Views views = open_views(a, shared, tile);
    start_tile(a, shared, views, tile);
    const int zones = make_zones(a, shared, tile, pass);
    clear(shared, state);
    attend(a, shared, state, views, tile, zones);
  } while (is_wanted_again(shared, state, pass));
  close_sums(shared, state);
  const bool chunk = is_cut(a, tile.b);  // of keys: weft_merge goes on
  if (!chunk) {
    join_sinks(a, shared, state);
    pass = get(shared.pass);
    if (word(pass + kWritesLse)) store_lse(a, shared, state, (int)word(pass + kLseSlot));
    normalize(shared, state, 1);
  }
  store_rows(a, shared, state, chunk);
)";

/// One loop, of softmaxes and of second turns: with two, texts of few rows spill 182 bytes on sm_90.
constexpr const char* kSeveralPasses = R"(
  // O is a weighted sum of several softmaxes. Of a chunk of keys it is one of them, and weft_merge goes on.
  Sum sum = {};
  const bool chunk = is_cut(a, tile.b);
  int p = 0, end = softmaxes(a);
  if (chunk) {
    p = (int)(blockIdx.x % (unsigned)end);
    end = p + 1;
  }
#pragma unroll 1
  for (; p < end; ++p) {
    const Views views = open_views(a, shared, tile);
    start_tile(a, shared, views, tile);
    const int zones = make_zones(a, shared, tile, a.tables + word(head + kPassesAt + p));
    clear(shared, state);
    attend(a, shared, state, views, tile, zones);
    const i64* pass;
    if (is_wanted_again(shared, state, pass)) {
      --p;
      continue;
    }
    close_sums(shared, state);
    pass = get(shared.pass);
    if (!chunk && word(pass + kWritesLse)) store_lse(a, shared, state, (int)word(pass + kLseSlot));
    if (!chunk && word(pass + kOut) && zones > 0) {
      normalize(shared, state, (float)__longlong_as_double(word(pass + kFactor)));
      add_to_sum(a, shared, sum, state);
    }
    __syncthreads();
  }
  if (!chunk) take_sum(a, shared, sum, state);
  store_rows(a, shared, state, chunk);
)";

constexpr const char* kSeveralPhases = R"(
  // One softmax over several launches: the state of each row goes from one to the next.
  const bool first = a.phase == 0, last = a.phase == kPhases - 1;
  const i64* pass = a.tables + word(head + kPassesAt);
  do {
    const Views views = open_views(a, shared, tile);
    const int zones = make_zones(a, shared, tile, pass);
    if (zones == 0 && !first && !last) return;  // these rows keep their state where it is
    clear(shared, state);
    if (!first) take_up(a, shared, state);
    start_tile(a, shared, views, tile);
    __syncthreads();
    attend(a, shared, state, views, tile, zones);
  } while (is_wanted_again(shared, state, pass));
  if (!last) {
    hand_on(a, shared, state);
    return;
  }
  close_sums(shared, state);
  join_sinks(a, shared, state);
  pass = get(shared.pass);
  if (word(pass + kWritesLse)) store_lse(a, shared, state, (int)word(pass + kLseSlot));
  normalize(shared, state, 1);
  store_rows(a, shared, state);
)";

void kernel(TextWriter& w, const ir::Plan& plan) {
  w.blank();
  w.line("// ---- the kernel: block i computes tile number tile_begin + i ----");
  w.blank();
  w.line("extern \"C\" __global__ void __launch_bounds__(kThreads, kBlocks) weft_kernel(const weft_args a) {{");
  w.line("  WEFT_SHARED_MEMORY(memory);");
  w.line("  Shared& shared = *(Shared*)memory;");
  w.line("  const i64* head;  // tables of the tile's head");
  w.line("  if (!open_tile(a, shared, head)) return;");
  if (plan.bind.gradient) {
    w.line("  sum_up_gradients<{}{}>(a, shared, head);", has_pairs(plan) ? "Pairs" : "PlainPairs",
           is_of_inputs(plan) ? ", Elements" : "");
    w.line("}}");
    return;
  }
  w.line("  const Tile& tile = shared.tile;");
  w.line("  State state;");
  std::string body = plan.phases.size() > 1 ? kSeveralPhases : most_passes(plan) > 1 ? kSeveralPasses : kOnePass;
  for (const std::string_view called : {"start_tile", "attend"}) {
    if (has_pairs(plan)) body.insert(body.find(fmt::format("{}(a,", called)) + called.size(), "<Pairs>");
  }
  w.raw(body);
  w.line("}}");
}

}  // namespace

void write_header(TextWriter& w, const Header& h) {
  w.blank();
  w.line("// ---- {} ----", h.name);
  const bool has_twin = std::string_view(h.name).find("ptx") != std::string_view::npos;
  if (has_twin) w.line("#ifndef WEFT_EMULATED");
  w.raw(h.text);
  if (has_twin) w.line("#endif");
}

Names names(const ir::Plan& whole, ir::Regime regime) {
  // In the order of Step::Kernel.
  constexpr const char* kSymbols[] = {"weft_kernel", "weft_prepass",      "weft_merge", "weft_terms", "weft_kernel",
                                      "weft_kernel", "weft_input_tables", "weft_sizes", "weft_zeros"};
  static_assert(std::size(kSymbols) == ir::Step::kKernels);
  Names out{.symbol = kSymbols[0]};
  for (const auto& step : ir::steps_of(whole)) {
    const auto kernel = static_cast<std::size_t>(step.kernel);
    if (step.text == regime) out.of_steps[kernel] = kSymbols[kernel];
  }
  return out;
}

Source emit(const ir::Plan& whole, const Target& target, ir::Regime regime) {
  const ir::Plan& plan = ir::plan_of(whole, regime);
  const char* const elements[] = {"f32", "f16", "bf16"};
  TextWriter w;
  w.line("// Attention kernel made by Weft for {}: {} storage, {}.", target.name, ir::to_string(plan.bind.dtype),
         traits_of(plan.choices.kernel_class).arithmetic);
  w.line("// Which rows a tile holds and which keys it visits stands in the tables of the argument block, so that no");
  w.line(
      "// length, segment or rate is compiled in. Read it from the end: weft_kernel opens a tile, attend walks its "
      "keys,");
  w.line("// attend_block multiplies a block of them.");
  w.blank();
  w.line("// ---- the plan's choices ----");
  w.blank();
  constants(w, plan, target, regime);
  for (int i = 0; i < kHeaderCount; ++i) {
    if (!wants_header(plan, regime, kHeaders[i].name)) continue;
    const std::string_view name = kHeaders[i].name;
    if (name == "lse.cuh" && plan.sink_logit) write_sink(w, plan);
    write_header(w, kHeaders[i]);
    if (name == "words.h") w.line("using namespace weft::walk;");
    if (name == "numbers.cuh") {
      w.blank();
      w.line("constexpr Element kStored = Element::{};", elements[static_cast<int>(plan.bind.dtype)]);
    }
  }
  if (has_conditions(plan)) write_conditions(w, plan);
  if (has_pairs(plan)) write_pairs(w, plan);
  if (is_of_inputs(plan)) write_elements(w, plan);
  if (has_prepass(plan, regime)) write_prepass(w, plan);
  kernel(w, plan);
  return {names(whole, regime), std::move(w).take()};
}

SharedMemory shared_memory(const ir::Plan& whole, ir::Regime regime) {
  const ir::Plan& plan = ir::plan_of(whole, regime);
  return {.fixed = shape_of(plan, regime).shared_bytes(),
          .per_term = walk::kTermBytes,
          .prepass = has_prepass(plan, regime) ? prepass_shared_bytes(plan) : 0};
}

}  // namespace weft::codegen::cuda
