#include "compiler/base/text_writer.h"
#include "compiler/ir/expr_text.h"
#include "compiler/ir/plan.h"
#include "compiler/ir/plan_words.h"
#include "compiler/ir/steps.h"

#include <fmt/format.h>

namespace weft::ir {
namespace {

std::string text(const ExprPtr& e) { return e ? prefix_text(*e) : "0"; }

std::string text(const Bound& b) {
  std::string base;
  switch (b.kind) {
    case Bound::Kind::constant:
      return std::to_string(b.add);
    case Bound::Kind::row:
      base = "x";
      break;
    case Bound::Kind::segment:
      base = fmt::format("floor(x,{})", b.a);
      break;
    case Bound::Kind::input:
      base = fmt::format("input({})", b.a);
      break;
    case Bound::Kind::part:
      base = fmt::format("part({},{})", b.b, b.a);
      break;
    case Bound::Kind::form:
      base = fmt::format("form({},{})", b.a, b.b);
      break;
  }
  return b.add == 0 ? base : fmt::format("{}{:+}", base, b.add);
}

std::string text(const Congruence& c) {
  return fmt::format("{}segment {} rate {} phase {}", c.negated ? "not " : "", c.segment, c.rate, text(c.phase));
}

std::string text(const HeadSet& heads) {
  switch (heads.kind) {
    case HeadSet::Kind::all:
      return "all";
    case HeadSet::Kind::group:
      return fmt::format("group {} of {}", heads.index, heads.count);
    case HeadSet::Kind::group_last:
      return fmt::format("group_last {} of {}", heads.index, heads.count);
    case HeadSet::Kind::range:
      return fmt::format("range {} {}", heads.lo, heads.hi);
  }
  return "all";
}

std::string text(const Axis& axis) {
  return axis.kind == Axis::Kind::extent ? std::to_string(axis.extent) : std::string(word(kAxes, axis.kind));
}

void print(TextWriter& w, const Predicate& p) {
  if (p.holds) {
    w.line("condition {}", prefix_text(*p.holds));
  } else {
    w.line("between {} {} {} modulus {}", prefix_text(*p.lo), prefix_text(*p.key), prefix_text(*p.hi), p.modulus);
  }
}

void print(TextWriter& w, const KeyRange& r) {
  w.line("range branch {} heads {}", r.branch, text(r.heads));
  w.indent();
  for (const auto& c : r.when) w.line("when {}", prefix_text(*c.holds));
  if (r.stream.rate != 1) w.line("stream {}", text(r.stream));
  for (const auto& c : r.filters) w.line("filter {}", text(c));
  for (const auto& b : r.lo) w.line("from {}", text(b));
  for (const auto& b : r.hi) w.line("below {}", text(b));
  for (const auto& c : r.rows) w.line("row {} {}", c.below ? "below" : "from", text(c.bound));
  for (const auto& c : r.row_congruences) w.line("rows {}", text(c));
  for (const auto& p : r.predicates) w.line("if {}{}", p.negated ? "not " : "", p.number);
  w.dedent();
}

void print(TextWriter& w, const Pass& p) {
  std::string branches;
  for (int b : p.branches) branches += " " + std::to_string(b);
  w.line("pass weight {} out {} factor {} lse {} branches{}", p.weight == Weight::one ? "one" : "count", p.out ? 1 : 0,
         p.factor, p.lse ? std::to_string(p.lse_slot) : "none", branches);
  w.indent();
  for (const auto& r : p.ranges) print(w, r);
  w.dedent();
}

void print(TextWriter& w, const Phase& p) {
  w.line("phase {} carry {} stationary {}", word(kRoles, p.role), word(kCarries, p.carry),
         p.stationary == Stationary::query ? "query" : "key");
  w.indent();
  w.line("tiles {} of {} {}", p.rows.classes ? "classes" : "contiguous", p.rows.tile,
         p.rows.longest_first ? "descending" : "ascending");
  for (const auto& c : p.rows.by) w.line("by {}", text(c));
  if (p.rows.modulus > 0) {
    const RowMap& r = p.rows;
    const bool apart = r.step != 1 || r.line_step != 1;
    w.line("patches modulus {} line {} of {} by {}{}", r.modulus, r.line, r.patch_lines, r.patch,
           apart ? fmt::format(" steps {} {}", r.line_step, r.step) : "");
  }
  for (const auto& pass : p.passes) print(w, pass);
  w.dedent();
}

void print(TextWriter& w, const char* of, const Choices& c) {
  w.line("{} {} tile_q {} tile_k {} sub_q {} sub_k {} micro_k {} micro_q {}{}", of, word(kClasses, c.kernel_class),
         c.tile_q, c.tile_k, c.sub_q, c.sub_k, c.micro_k, c.micro_q,
         c.kernel_class == KernelClass::vector
             ? fmt::format(" few_q {}{}", c.few_q, c.products == 1 ? "" : fmt::format(" products {}", c.products))
             : fmt::format(" threads {} depth {} staged {} stages {} resident {}{}", c.threads, c.depth, c.staged,
                           c.stages, c.resident, c.groups == 0 ? "" : fmt::format(" groups {}", c.groups)));
}

/// Without its steps, which a plan that stands beside another has not of its own.
std::string print_choices(const Plan& plan) {
  TextWriter w;
  w.line("weft plan {}", plan.abi);
  w.line("name {}", plan.name);
  w.line("target {}", plan.target);
  const Bind& b = plan.bind;
  w.line("bind d {} d_v {} dtype {} branch_lse {}{}{}", b.d, b.d_v, to_string(b.dtype), b.branch_lse ? 1 : 0,
         b.paged ? " paged" : "", b.gradient ? " gradient" : "");
  w.line("combine {} branches {}", word(kCombines, plan.combine), plan.branches);
  if (plan.scale) w.line("scale {}", *plan.scale);
  if (plan.score) w.line("score {}", prefix_text(*plan.score));
  if (plan.weights == Weights::direct) w.line("weights direct");
  if (plan.sink_logit) w.line("sink_logit {}", prefix_text(*plan.sink_logit));
  if (plan.dropout != 0) w.line("dropout {}", plan.dropout);
  if (plan.ring) {
    w.line("ring {} {}", plan.ring->ranks ? std::to_string(*plan.ring->ranks) : "any", to_string(plan.ring->layout));
  }
  for (const auto& input : plan.inputs) {
    std::string axes;
    for (const auto& axis : input.axes) axes += " " + text(axis);
    w.line("input {} {} block {} axes{}", input.name, to_string(input.type), input.block, axes);
  }
  for (const auto& l : plan.lists) {
    if (l.summarizes()) {
      w.line("summary {} of {} block {}", word(kLists, l.kind), l.predicate, l.block);
      continue;
    }
    w.line("list {} count {} block {} seed {} input {} causal {}", word(kLists, l.kind), l.count, l.block, l.seed,
           l.input, l.causal ? 1 : 0);
  }
  for (const auto& p : plan.predicates) print(w, p);
  for (const auto& f : plan.forms) w.line("form {}", prefix_text(*f));
  print(w, "choices", plan.choices);
  if (plan.decoding) print(w, "decoding", plan.decoding->choices);
  for (const auto& cut : plan.cuts) w.line("cut rows {} keys {} most {}", cut.rows, cut.keys, cut.most);
  for (const auto& phase : plan.phases) print(w, phase);
  for (const auto& reason : plan.reasons) w.line("reason {}", reason);
  if (plan.transposed) {
    w.line("transposed");
    w.raw(print_choices(*plan.transposed));
  }
  if (plan.of_inputs) {
    w.line("of inputs");
    w.raw(print_choices(*plan.of_inputs));
  }
  return std::move(w).take();
}

}  // namespace

std::string print(const Plan& plan) {
  std::string out = print_choices(plan);
  for (const auto& step : steps_of(plan)) out += fmt::format("step {}\n", print(step));
  return out;
}

}  // namespace weft::ir
