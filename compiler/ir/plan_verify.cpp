#include "compiler/ir/derivative.h"
#include "compiler/ir/few_rows.h"
#include "compiler/ir/plan.h"
#include "compiler/ir/predicates.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace weft::ir {
namespace {

/// Numbers beyond these cannot be added to positions, or multiplied by them, without overflow.
constexpr std::int64_t kFarthest = std::int64_t{1} << 61;
constexpr std::int64_t kMostParts = 1 << 20;

class Verifier {
 public:
  explicit Verifier(const Plan& plan) : plan_(plan) {}

  std::vector<std::string> run() {
    sizes();
    expressions();
    if (plan_.phases.empty()) say("it has no phase");
    cuts();
    for (std::size_t i = 0; i < plan_.phases.size(); ++i) phase(plan_.phases[i], i);
    if (plan_.transposed) beside(*plan_.transposed, Stationary::key, Role::attend, "of dK and dV");
    if (plan_.of_inputs) beside(*plan_.of_inputs, Stationary::query, Role::inputs, "of inputs");
    if (plan_.decoding) decoding(*plan_.decoding);
    return std::move(wrong_);
  }

 private:
  template <typename... Args>
  void say(fmt::format_string<Args...> format, Args&&... args) {
    if (wrong_.size() < 100) wrong_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  void beside(const Plan& other, Stationary side, Role role, const char* name) {
    const bool has_others = plan_.bind.gradient && plan_.choices.kernel_class != KernelClass::vector &&
                            plan_.stationary() == Stationary::query;
    const bool fits = !other.transposed && !other.of_inputs && other.bind == plan_.bind && !other.phases.empty() &&
                      other.stationary() == side && other.phases.front().role == role;
    if (!has_others || !fits) return say("the plan {} is none that stands beside one of dQ", name);
    for (auto& what : Verifier(other).run()) say("{}: {}", name, what);
  }

  void decoding(const Plan& other) {
    if (!may_decode(plan_) || print(other) != print(decoding_plan(plan_, other.choices)))
      return say("the plan of decoding is not this one with other choices");
    if (other.choices.tile_q != kRowsOfDecoding || other.choices.groups != 0)
      say("decoding has no tiles of {} rows by instructions of one warp", kRowsOfDecoding);
    Plan uncut = other;
    uncut.cuts.clear();  // they are in blocks of this plan's keys
    for (auto& what : Verifier(uncut).run()) say("decoding: {}", what);
  }

  void sizes() {
    for (std::int64_t d : {plan_.bind.d, plan_.bind.d_v}) {
      if (d < 1 || d > 256) say("a head dim is {}, not from 1 to 256", d);
    }
    const Choices& c = plan_.choices;
    const bool positive = c.tile_q > 0 && c.tile_k > 0 && c.sub_q > 0 && c.sub_k > 0 && c.micro_k > 0 && c.micro_q > 0;
    if (!positive || c.tile_q > 1024 || c.tile_k > 1024) {
      say("tile sizes are out of range");
      return;
    }
    if (c.products != 1) pairs_of_bf16(c);
    if (c.stages < 1 || c.stages > 2 || c.resident < 1 || c.resident > 8)
      say("{} stages, {} blocks of threads on an SM", c.stages, c.resident);
    const bool has_groups = c.kernel_class == KernelClass::mma && c.threads == 128 && c.tile_q % 64 == 0;
    if (c.groups != 0 && (c.groups != 1 || !has_groups || plan_.bind.gradient))
      say("{} groups of warps in a kernel of {} threads", c.groups, c.threads);
    if (c.few_q != 0) few_queries(c);
    if (c.kernel_class == KernelClass::simt) {
      block_of_threads(c);
      return;
    }
    if (c.kernel_class == KernelClass::mma) {
      warps_of_tiles(c);
      return;
    }
    if (c.tile_q % (c.sub_q * c.micro_q) != 0)
      say("tile_q {} is not a multiple of sub_q {} times micro_q {}", c.tile_q, c.sub_q, c.micro_q);
    if (c.tile_k % c.sub_k != 0 || c.tile_k % c.micro_k != 0)
      say("tile_k {} is not a multiple of sub_k {} and micro_k {}", c.tile_k, c.sub_k, c.micro_k);
  }

  void cuts() {
    if (plan_.cuts.empty()) return;
    if (plan_.phases.size() != 1 || plan_.bind.gradient || plan_.choices.kernel_class == KernelClass::vector)
      say("keys are cut in {} phases{} of {}", plan_.phases.size(), plan_.bind.gradient ? " of gradients" : "",
          plan_.target);
    const std::int64_t softmaxes = plan_.phases.empty() ? 1 : std::ssize(plan_.phases.front().passes);
    std::int64_t rows = 0;
    for (const Cut& cut : plan_.cuts) {
      if (cut.rows <= rows) say("a cut of {} rows behind one of {}", cut.rows, rows);
      if (cut.keys < 1 || cut.keys % std::max(1, plan_.choices.tile_k) != 0)
        say("chunks of {} keys are not whole blocks of {}", cut.keys, plan_.choices.tile_k);
      if (cut.most < 2 || cut.most > kMostShares / softmaxes) say("{} chunks of {} softmaxes", cut.most, softmaxes);
      rows = cut.rows;
    }
  }

  /// What vdpbf16ps can do, as codegen/cpu spells it.
  void pairs_of_bf16(const Choices& c) {
    if (c.products != 2 || c.kernel_class != KernelClass::vector || plan_.bind.dtype != DType::bf16)
      say("{} products at once: only CPUs do two, of bf16", c.products);
    if (c.sub_q != 16 || c.sub_k % 2 != 0)
      say("two products at once in sub-tiles of {} x {}, not of 16 x an even number", c.sub_q, c.sub_k);
  }

  /// What codegen/cpu/emit_few.cpp relies on: columns fill vectors.
  void few_queries(const Choices& c) {
    const bool whole = plan_.bind.d % c.sub_q == 0 && plan_.bind.d_v % c.sub_q == 0;
    if (c.few_q < 0 || c.kernel_class != KernelClass::vector || plan_.bind.gradient || !whole)
      say("no kernel of its own for {} queries: head dims {} and {}, vectors of {}", c.few_q, plan_.bind.d,
          plan_.bind.d_v, c.sub_q);
  }

  /// What codegen/cuda/device relies on.
  void block_of_threads(const Choices& c) {
    const int least = plan_.bind.gradient ? 32 : 64;
    const bool rows = c.tile_q == 128 || c.tile_q == 64 || c.tile_q == least;
    const bool warps = c.threads == 128 && rows && c.sub_q == 32 && c.micro_q == 8;
    if (!warps || (c.micro_k != 4 && c.micro_k != 8))
      say("plain GPU lanes compute {} to 128 rows by 4 warps of 32 rows, 8 x 4 or 8 x 8 a thread", least);
    if (c.threads * c.micro_q * c.micro_k != c.tile_q * c.tile_k || c.sub_k != c.tile_k)
      say("{} threads do not cover tiles of {} x {}", c.threads, c.tile_q, c.tile_k);
    const Bind& b = plan_.bind;
    const std::int64_t sums = !b.gradient                               ? b.d_v
                              : plan_.stationary() == Stationary::query ? b.d
                                                                        : 2 * std::max(b.d, b.d_v);
    if (sums * c.tile_q > 128 * 128) say("{} sums of a row are more than a warp holds", sums);
    if (c.depth != 8 && c.depth != 16) say("{} columns at a time", c.depth);
    if (c.staged != 8 && c.staged != 16) say("{} rows of V at a time", c.staged);
    if (plan_.branches > 255) say("{} branches are more than the 255 that a weight counts", plan_.branches);
  }

  /// The same of its matrix instructions: a warp has one or two tiles of 16 rows, or all share one and each has keys of
  /// its own.
  void warps_of_tiles(const Choices& c) {
    if (plan_.bind.dtype == DType::f32) say("matrix instructions compute with f16 and bf16");
    const int warps = c.threads / 32;
    const bool rows = (c.threads == 128 || c.threads == 64) && c.sub_q == 16 && (c.micro_q == 1 || c.micro_q == 2);
    const bool shared = c.tile_q == kRowsOfDecoding && c.micro_q == 1 && c.tile_k % (16 * warps) == 0;
    if (!rows || (!shared && c.tile_q != warps * c.sub_q * c.micro_q))
      say("{} threads do not cover {} rows, 16 x {} a warp", c.threads, c.tile_q, c.micro_q);
    if (c.tile_k > 64 || c.tile_k % 16 != 0 || c.sub_k != c.tile_k || c.micro_k != c.tile_k)
      say("blocks of {} keys are not from 16 to 64 in steps of 16", c.tile_k);
    if (plan_.branches > 255) say("{} branches are more than the 255 that a weight counts", plan_.branches);
  }

  void expressions() {
    expression(plan_.score, Type::real, "the score", true);
    weights();
    if (!(plan_.dropout >= 0 && plan_.dropout <= 1)) say("dropout is {}", plan_.dropout);
    if (plan_.lists.size() > kMostLists) say("{} lists; at most {}", plan_.lists.size(), kMostLists);
    for (const auto& l : plan_.lists) list(l);
    const auto summarizes = [](const List& l) { return l.summarizes(); };
    if (!std::is_partitioned(plan_.lists.rbegin(), plan_.lists.rend(), summarizes))
      say("a list of chosen keys stands behind a summary");
    if (plan_.predicates.size() > kMostPredicates || plan_.forms.size() > kMostPredicates)
      say("more than {} conditions on pairs", kMostPredicates);
    for (const auto& f : plan_.forms) {
      if (!f) say("a form is missing");
      expression(f, Type::integer, "a form", false);
    }
    for (const auto& p : plan_.predicates) {
      const bool interval = p.key && p.lo && p.hi;
      if ((p.holds != nullptr) == interval || (!interval && (p.key || p.lo || p.hi)))
        say("a condition on pairs is neither a truth nor an interval");
      expression(p.holds, Type::boolean, "a condition", false);
      for (const auto& e : {p.key, p.lo, p.hi}) expression(e, Type::integer, "a condition's side", false);
      if (p.modulus < 0 || (p.modulus > 0 && !interval)) say("a condition has modulus {}", p.modulus);
      const bool both = interval && p.key && (reads(*p.key, Variable::q) && reads(*p.key, Variable::k));
      if (both) say("the key of an interval reads both sides");
    }
  }

  void weights() {
    expression(plan_.sink_logit, Type::real, "the sink", false);
    for (const Variable v : {Variable::b, Variable::q, Variable::k, Variable::n_q, Variable::n_k}) {
      if (plan_.sink_logit && reads(*plan_.sink_logit, v)) say("the sink is no number of its head");
    }
    if (plan_.sink_logit && per_branch(plan_.combine)) say("a sink beside a softmax for each branch");
    if (plan_.weights == Weights::softmax) return;
    if (!plan_.score || plan_.sink_logit) say("direct weights have a score and no sink");
    for (const auto& p : plan_.phases) {
      if (p.passes.size() != 1 || p.passes[0].lse) say("direct weights have one pass and no LSE");
    }
  }

  void summary(const List& l) {
    if (l.chooses()) return say("a list that is no summary of one");
    if (l.predicate < 0 || l.predicate >= static_cast<int>(plan_.predicates.size()))
      return say("condition {} of {}", l.predicate, plan_.predicates.size());
    const Predicate& p = plan_.predicates[static_cast<std::size_t>(l.predicate)];
    if (l.kind == List::Kind::choosers) {
      const bool of_list = p.holds && p.holds->op == Op::listed && chooses(p.holds->input);
      const auto block = of_list ? plan_.lists[static_cast<std::size_t>(p.holds->input)].block : 0;
      if (l.block != block) say("who chose blocks of {} of what is listed in blocks of {}", l.block, block);
      return;
    }
    if (l.block != kSummaryBlock) say("a summary of blocks of {}", l.block);
    if ((l.kind == List::Kind::spans) != (p.key != nullptr)) say("a summary does not fit its condition");
    if (!reads_key(p, plan_.stationary())) say("a summary of a condition on rows");
  }

  void list(const List& l) {
    if (!l.chooses() || l.predicate != -1) return summary(l);
    if (l.count < 1 || l.count > kFarthest || l.block < 1 || l.block > kFarthest)
      say("a list of {} of blocks of {}", l.count, l.block);
    if (l.input >= static_cast<int>(plan_.inputs.size())) return say("input {} of {}", l.input, plan_.inputs.size());
    if (l.input < 0) return;
    const Input& in = plan_.inputs[static_cast<std::size_t>(l.input)];
    if (in.type != InputType::f32 || l.kind != List::Kind::top) say("a list by input '{}'", in.name);
  }

  void expression(const ExprPtr& e, Type type, const char* what, bool with_score) {
    if (!e) return;
    if (e->type != type) say("{} has the wrong type", what);
    if (!with_score && reads(*e, Variable::s)) say("{} reads the score", what);
    inputs_of(*e);
  }

  /// Is it the number of a list of chosen keys?
  bool chooses(int list) const {
    return list >= 0 && list < static_cast<int>(plan_.lists.size()) &&
           !plan_.lists[static_cast<std::size_t>(list)].summarizes();
  }

  void inputs_of(const Expr& e) {
    if (e.op == Op::listed && !chooses(e.input)) say("list {} of {}", e.input, plan_.lists.size());
    if (e.op == Op::input) {
      const bool known = e.input >= 0 && e.input < static_cast<int>(plan_.inputs.size());
      if (!known) {
        say("input {} of {}", e.input, plan_.inputs.size());
      } else if (const Input& in = plan_.inputs[static_cast<std::size_t>(e.input)];
                 in.axes.size() != e.args.size() || (in.type == InputType::f32) != (e.type == Type::real)) {
        say("input '{}' is read in another form than it has", in.name);
      }
    }
    for (const auto& arg : e.args) inputs_of(*arg);
  }

  void patches(const RowMap& rows) {
    const std::int64_t line = rows.line > 0 ? rows.line : rows.modulus;
    if (rows.modulus < 0 || rows.line < 0 || rows.patch < 1 || rows.patch_lines < 1 || rows.modulus > kFarthest)
      return say("patches of {} by {} in {}", rows.patch_lines, rows.patch, rows.modulus);
    if (rows.step < 1 || rows.line_step < 1 ||
        std::max(rows.step, rows.line_step) > std::max<std::int64_t>(1, rows.modulus))
      return say("patches with steps of {} and {} in {}", rows.line_step, rows.step, rows.modulus);
    if (rows.modulus == 0) return;
    if (!rows.by.empty() || rows.modulus % line != 0) say("patches of lines of {} in {}", line, rows.modulus);
    if (rows.patch > rows.tile || rows.patch_lines > rows.tile || rows.tile % (rows.patch * rows.patch_lines) != 0)
      say("patches of {} by {} do not fill tiles of {}", rows.patch_lines, rows.patch, rows.tile);
  }

  void phase(const Phase& p, std::size_t number) {
    const bool first = number == 0;
    const bool last = number + 1 == plan_.phases.size();
    const bool carries_in = p.carry == Carry::in || p.carry == Carry::inout;
    const bool carries_out = p.carry == Carry::out || p.carry == Carry::inout;
    if (carries_in == first) say("phase {} {} state", number, first ? "takes" : "does not take");
    if (carries_out == last) say("phase {} {} state on", number, last ? "passes" : "does not pass");
    if (p.passes.empty()) say("phase {} has no pass", number);
    if (p.carry != Carry::none && p.passes.size() != 1)
      say("phase {} carries state over {} passes", number, p.passes.size());
    if (p.rows.tile != plan_.choices.tile_q)
      say("phase {} has tiles of {} rows, the choices say {}", number, p.rows.tile, plan_.choices.tile_q);
    patches(p.rows);
    if (p.rows.classes != (!p.rows.by.empty() || p.rows.modulus > 0))
      say("phase {}: classes need members, other rows have none", number);
    if (p.rows.by.size() > 64) say("phase {} groups rows by {} members; at most 64", number, p.rows.by.size());
    for (const auto& c : p.rows.by) {
      congruence(c);
      if (c.rate < 2 || c.negated) say("a member of a row order has rate {} or is negated", c.rate);
    }
    std::set<int> slots;
    for (const auto& pass_of : p.passes) {
      pass(pass_of);
      if (pass_of.lse && !slots.insert(pass_of.lse_slot).second) say("two passes write LSE slot {}", pass_of.lse_slot);
    }
  }

  void pass(const Pass& p) {
    if (p.lse && (p.lse_slot < -1 || p.lse_slot >= plan_.branches))
      say("LSE slot {} of {} branches", p.lse_slot, plan_.branches);
    for (const auto& r : p.ranges) {
      if (std::find(p.branches.begin(), p.branches.end(), r.branch) == p.branches.end()) {
        say("a range of branch {} stands in a pass without that branch", r.branch);
      }
      if (r.branch < 0 || r.branch >= plan_.branches) say("branch {} of {}", r.branch, plan_.branches);
      congruence(r.stream);
      if (r.stream.negated) say("a stream is negated");
      for (const auto& c : r.filters) congruence(c);
      for (const auto& c : r.row_congruences) congruence(c);
      for (const auto& b : r.lo) bound(b);
      for (const auto& b : r.hi) bound(b);
      for (const auto& use : r.predicates) {
        if (use.number < 0 || use.number >= static_cast<int>(plan_.predicates.size()))
          say("condition {} of {}", use.number, plan_.predicates.size());
      }
      for (const auto& c : r.rows) {
        bound(c.bound);
        if (c.bound.kind == Bound::Kind::row || c.bound.kind == Bound::Kind::form ||
            c.bound.kind == Bound::Kind::segment)
          say("a row condition compares the row with itself");
      }
      for (const auto& c : r.when) {
        if (c.holds->type != Type::boolean || !over_heads_only(*c.holds))
          say("a condition on heads reads more than h and H");
      }
      if (r.heads.kind != HeadSet::Kind::all &&
          (r.heads.count < 1 || r.heads.index < 0 || r.heads.index >= r.heads.count)) {
        say("head group {} of {}", r.heads.index, r.heads.count);
      }
    }
  }

  void congruence(const Congruence& c) {
    if (c.rate > kFarthest || c.segment > kFarthest) say("a congruence is out of range");
    if (c.rate < 1 || c.segment < 0) say("a congruence has rate {} and segment {}", c.rate, c.segment);
    if (c.phase && (c.phase->type != Type::integer || !over_heads_only(*c.phase)))
      say("a phase is no integer over h and H");
  }

  void bound(const Bound& b) {
    if (b.add > kFarthest || b.add < -kFarthest || b.a > kFarthest) say("a bound is out of range");
    if (b.kind == Bound::Kind::part && b.a > kMostParts) say("{} parts", b.a);
    if (b.kind == Bound::Kind::form) {
      if (b.a < 0 || b.a >= static_cast<std::int64_t>(plan_.forms.size()))
        say("form {} of {}", b.a, plan_.forms.size());
      if (b.b < 0 || b.b > kFarthest) say("a form falls by {}", b.b);
    }
    if (b.kind == Bound::Kind::segment && b.a < 1) say("a segment of {} tokens", b.a);
    if (b.kind == Bound::Kind::part && (b.a < 1 || b.b < 0 || b.b > b.a)) say("part {} of {}", b.b, b.a);
    if (b.kind == Bound::Kind::input) {
      if (b.a < 0 || b.a >= static_cast<std::int64_t>(plan_.inputs.size())) {
        say("input {} of {}", b.a, plan_.inputs.size());
        return;
      }
      const Input& input = plan_.inputs[static_cast<std::size_t>(b.a)];
      const bool fits =
          input.type == InputType::i32 && input.axes.size() == 1 && input.axes[0].kind == Axis::Kind::batch;
      if (!fits) say("input '{}' bounds a range but is not i32[batch]", input.name);
    }
  }

  const Plan& plan_;
  std::vector<std::string> wrong_;
};

}  // namespace

bool operator==(const Congruence& a, const Congruence& b) {
  if (a.segment != b.segment || a.rate != b.rate || a.negated != b.negated) return false;
  if (!a.phase || !b.phase) {
    const auto zero = [](const ExprPtr& e) { return !e || (e->op == Op::constant && e->integer == 0); };
    return zero(a.phase) && zero(b.phase);
  }
  return same(*a.phase, *b.phase);
}

bool operator==(const HeadCondition& a, const HeadCondition& b) { return same(*a.holds, *b.holds); }

bool Plan::finds_deltas() const {
  return bind.gradient && weights == Weights::softmax &&
         (combine == Combine::joint_detached || phases.front().passes.size() > 1);
}

bool Plan::reads_elements() const {
  const auto reads = [](const ExprPtr& e) { return e && !real_elements(e).empty(); };
  return reads(score) || reads(sink_logit);
}

bool Plan::sums_in_memory() const {
  if (bind.gradient) return false;
  const bool several = std::any_of(phases.begin(), phases.end(), [](const Phase& p) { return p.passes.size() > 1; });
  return several && choices.kernel_class != KernelClass::vector;
}

std::vector<std::string> verify(const Plan& plan) { return Verifier(plan).run(); }

}  // namespace weft::ir
