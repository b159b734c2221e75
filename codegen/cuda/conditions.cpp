#include "codegen/cuda/conditions.h"

#include "codegen/cuda/expression.h"
#include "codegen/cuda/expression_nodes.h"
#include "codegen/cuda/lists.h"
#include "compiler/ir/predicates.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>

namespace weft::codegen::cuda {
namespace {

using ir::ExprPtr;
using ir::Op;
using ir::Stationary;

/// An interval as the truth that it says.
ExprPtr truth_of(const ir::Predicate& p) {
  if (p.holds) return p.holds;
  return ir::apply(Op::logical_and, {ir::apply(Op::less_equal, {p.lo, p.key}), ir::apply(Op::less, {p.key, p.hi})});
}

bool on_rows(const ir::Predicate& p, Stationary side) { return !ir::reads_key(p, side); }

/// Has a condition on pairs an interval of keys that an int holds?
bool is_small(const ir::Predicate& p, const ir::Plan& plan) {
  return p.key && !on_rows(p, plan.stationary()) && Nodes(*p.key, plan.inputs).all.back().values.fits_int();
}

/// Of so many keys at a time a condition without a summary says the same, so that one of them is asked for. 0 where
/// they are too few.
std::int64_t unit_of(const ir::Plan& plan, std::size_t condition) {
  constexpr std::int64_t kLeast = 16;
  const ir::Predicate& p = plan.predicates[condition];
  if (on_rows(p, plan.stationary()) || ir::summary_of(plan, condition) >= 0) return 0;
  const std::int64_t unit = ir::key_unit(p, plan.stationary());
  if (unit % ir::kSummaryBlock == 0) return ir::kSummaryBlock;
  return unit >= kLeast && ir::kSummaryBlock % unit == 0 ? unit : 0;
}

/// Of a list whose choice is all that the condition says: so many units are one of its blocks of keys. 0 for others,
/// and where keys choose nothing and nobody knows who chose them.
std::int64_t units_of_list(const ir::Plan& plan, std::size_t condition) {
  if (plan.stationary() == Stationary::key && ir::choosers_of(plan, condition) < 0) return 0;
  const ir::Predicate& p = plan.predicates[condition];
  const std::int64_t unit = ir::kSummaryBlock / std::max(1, units_of_block(plan)),
                     block = ir::listed_unit(p, plan.stationary());
  return block % unit == 0 && ir::row_parts(p, plan.stationary()).size() == 1 ? block / unit : 0;
}

class Writer {
 public:
  Writer(TextWriter& w, const ir::Plan& plan)
      : w_(w),
        plan_(plan),
        side_(plan.stationary()),
        row_(side_ == Stationary::query ? "q" : "k"),
        key_(side_ == Stationary::query ? "k" : "q"),
        of_row_(fmt::format("int {}", row_)),
        of_key_(fmt::format("int {}", key_)) {}

  void run() {
    const auto count = plan_.predicates.size();
    for (std::size_t i = 0; i < count; ++i) condition(i, plan_.predicates[i]);
    for (std::size_t i = 0; i < plan_.forms.size(); ++i) function("i64", "form", i, of_row_, plan_.forms[i]);
    choice("bool", "holds", "condition", fmt::format(", {}, {}", of_row_, of_key_), count,
           [](std::size_t i) { return fmt::format("holds_{}(a, t, q, k)", i); });
    choice("bool", "rows_agree", "condition", fmt::format(", {}, int other", of_row_), count,
           [&](std::size_t i) { return agree(i); });
    sides();
    choice("i64", "form_of", "form", ", " + of_row_, plan_.forms.size(),
           [&](std::size_t i) { return fmt::format("form_{}(a, t, {})", i, row_); });
    facts();
    if (passes_over_keys(plan_)) skips();
  }

 private:
  static constexpr const char* kKnown = "const weft_args& a, const Tile& t";

  void function(const char* type, const char* name, std::size_t number, const std::string& of, const ExprPtr& e) {
    write_function(w_, fmt::format("__device__ __forceinline__ {} {}_{}({}, {})", type, name, number, kKnown, of), *e,
                   plan_.inputs);
    w_.blank();
  }

  void condition(std::size_t i, const ir::Predicate& p) {
    function("bool", "holds", i, "int q, int k", truth_of(p));
    if (on_rows(p, side_)) return;
    const auto parts = ir::row_parts(p, side_);
    const char* const types[] = {"i64", "float", "bool"};
    for (std::size_t j = 0; j < parts.size(); ++j) {
      function(types[static_cast<int>(parts[j]->type)], fmt::format("part_{}", i).c_str(), j, of_row_, parts[j]);
    }
    if (!p.key) return;
    function("i64", "key", i, of_key_, p.key);
    function("i64", "lo", i, of_row_, p.lo);
    function("i64", "hi", i, of_row_, p.hi);
  }

  /// Rows that agree on all parts say the same of every key.
  std::string agree(std::size_t i) const {
    if (on_rows(plan_.predicates[i], side_)) return "true";
    std::string all;
    const auto parts = ir::row_parts(plan_.predicates[i], side_);
    for (std::size_t j = 0; j < parts.size(); ++j) {
      all += fmt::format("{}part_{}_{}(a, t, {}) == part_{}_{}(a, t, other)", j > 0 ? " && " : "", i, j, row_, i, j);
    }
    return all.empty() ? "true" : all;
  }

  bool has_sides(std::size_t i) const { return plan_.predicates[i].key && !on_rows(plan_.predicates[i], side_); }

  void sides() {
    const std::pair<const char*, const char*> all[] = {{"key", key_}, {"lo", row_}, {"hi", row_}};
    for (const auto& side : all) {
      choice("i64", fmt::format("{}_of", side.first), "condition", fmt::format(", int {}", side.second),
             plan_.predicates.size(), [&](std::size_t i) {
               return has_sides(i) ? fmt::format("{}_{}(a, t, {})", side.first, i, side.second) : std::string("0");
             });
    }
  }

  void facts() {
    const auto number = [&](const char* name, const std::function<std::string(std::size_t)>& value) {
      w_.line("__device__ __forceinline__ int {}(int condition) {{", name);
      for (std::size_t i = 0; i < plan_.predicates.size(); ++i)
        w_.line("  if (condition == {}) return {};", i, value(i));
      w_.line("  return 0;");
      w_.line("}}");
      w_.blank();
    };
    number("kind_of", [&](std::size_t i) -> std::string {
      const ir::Predicate& p = plan_.predicates[i];
      if (on_rows(p, side_)) return "kOnRows";
      std::string kind = is_small(p, plan_) ? "kInterval | kSmall" : p.key ? "kInterval" : "";
      if (unit_of(plan_, i) > 0) kind += kind.empty() ? "kByUnits" : " | kByUnits";
      return kind.empty() ? "0" : kind;
    });
    number("spans_of", [&](std::size_t i) {
      const int list = ir::summary_of(plan_, i);
      const bool spans = list >= 0 && plan_.lists[static_cast<std::size_t>(list)].kind == ir::List::Kind::spans;
      return fmt::format("{}", spans ? list : -1);
    });
    if (!has_spans(plan_)) {
      w_.line("__device__ __forceinline__ bool find_keys_of_runs(const weft_args&, Shared&, const Tile&, int, int) {{");
      w_.line("  return false;");
      w_.line("}}");
      w_.blank();
    }
    number("modulus_of", [&](std::size_t i) {
      const std::int64_t modulus = plan_.predicates[i].modulus;
      return fmt::format("{}", modulus <= INT32_MAX ? modulus : 0);
    });
  }

  void skips() {
    w_.line(
        "__device__ __forceinline__ unsigned may_meet(const weft_args& a, Shared& s, const Tile& t, Use use, "
        "int block, bool wide) {{");
    for (std::size_t i = 0; i < plan_.lists.size(); ++i) {
      const ir::List& l = plan_.lists[i];
      if (!l.summarizes() || l.kind == ir::List::Kind::choosers) continue;
      const bool spans = l.kind == ir::List::Kind::spans;
      const std::string call = spans ? fmt::format("span_may_meet(a, a.lists[{}], t, s.conditions[{}]", i, l.predicate)
                                     : fmt::format("pairs_may_meet(a.lists[{}], s, t", i);
      w_.line("  if (use.condition == {}) return {}, use, block, wide) ? kAllUnits : 0;", l.predicate, call);
    }
    for (std::size_t i = 0; i < plan_.predicates.size(); ++i) {
      if (const auto unit = unit_of(plan_, i); unit > 0)
        w_.line("  if (use.condition == {}) return wide ? kAllUnits : units_may_meet(a, s, t, use, {}, block);", i,
                unit);
    }
    w_.line("  return kAllUnits;");
    w_.line("}}");
    w_.blank();
    if (!follows_lists(plan_)) return;
    w_.line("__device__ __forceinline__ int next_unit({}, int condition, {}, int unit) {{", kKnown, of_row_);
    for (std::size_t i = 0; i < plan_.predicates.size(); ++i) {
      const std::int64_t units = units_of_list(plan_, i);
      if (units == 0) continue;
      // Keys begin at 0, queries where the caller says.
      const bool of_keys = side_ == Stationary::query;
      const auto block = units == 1 ? std::string("unit")
                         : of_keys  ? fmt::format("unit / {}", units)
                                    : fmt::format("floor_div(unit, {})", units);
      w_.line("  if (condition == {}) {{", i);
      w_.line("    const i64 block = {}(a.lists[{}], t, part_{}_0(a, t, {}), {});",
              of_keys ? "next_listed" : "next_chooser",
              of_keys ? plan_.predicates[i].holds->input : ir::choosers_of(plan_, i), i, row_, block);
      w_.line("    return (int)min(max({}, (i64)unit), (i64)kLargest);",
              units > 1 ? fmt::format("block * {}", units) : "block");
      w_.line("  }}");
    }
    w_.line("  return unit;");
    w_.line("}}");
    w_.blank();
  }

  void choice(const char* type, const std::string& name, const char* number, const std::string& of, std::size_t count,
              const std::function<std::string(std::size_t)>& value) {
    w_.line("__device__ __forceinline__ {} {}({}, int {}{}) {{", type, name, kKnown, number, of);
    for (std::size_t i = 0; i < count; ++i) w_.line("  if ({} == {}) return {};", number, i, value(i));
    w_.line("  return 0;");
    w_.line("}}");
    w_.blank();
  }

  TextWriter& w_;
  const ir::Plan& plan_;
  const Stationary side_;
  const char *const row_, *const key_;  ///< the variables of the two sides
  const std::string of_row_, of_key_;
};

}  // namespace

bool compares_values(const ir::Plan& plan) {
  return std::any_of(plan.predicates.begin(), plan.predicates.end(),
                     [&](const ir::Predicate& p) { return is_small(p, plan); });
}

bool narrows_keys(const ir::Plan& plan) {
  return has_spans(plan) || std::any_of(plan.predicates.begin(), plan.predicates.end(),
                                        [&](const ir::Predicate& p) { return on_rows(p, plan.stationary()); });
}

bool serve_all_heads(const ir::Plan& plan) {
  const auto is_list = [](const ir::Expr& e) { return e.op == Op::listed; };
  return std::none_of(plan.predicates.begin(), plan.predicates.end(), [&](const ir::Predicate& p) {
    return ir::reads_head(p) || (p.holds && ir::any_node(*p.holds, is_list));
  });
}

int units_of_block(const ir::Plan& plan) {
  std::int64_t units = has_summaries(plan) ? 1 : 0;
  for (std::size_t i = 0; i < plan.predicates.size(); ++i) {
    if (const auto unit = unit_of(plan, i); unit > 0) units = std::max(units, ir::kSummaryBlock / unit);
  }
  return static_cast<int>(units);
}

bool follows_lists(const ir::Plan& plan) {
  for (std::size_t i = 0; i < plan.predicates.size(); ++i) {
    if (units_of_list(plan, i) > 0) return true;
  }
  return false;
}

int digits(const ir::Plan& plan) {
  std::size_t most = 0;
  for (const auto& phase : plan.phases) {
    for (const auto& pass : phase.passes) {
      if (pass.weight == ir::Weight::count) most = std::max(most, pass.branches.size());
    }
  }
  return most > 1 ? static_cast<int>(std::bit_width(most)) : 0;
}

bool has_sets(const ir::Plan& plan) {
  if (plan.choices.kernel_class != ir::KernelClass::mma || plan.bind.gradient || digits(plan) > 0) return false;
  if (std::max(plan.bind.d, plan.bind.d_v) > 64) return false;  // of more, bounds make no runs
  if (units_of_block(plan) != 1 || plan.choices.tile_k != ir::kSummaryBlock) return false;
  for (std::size_t i = 0; i < plan.predicates.size(); ++i) {
    if (unit_of(plan, i) > 0) return true;
  }
  return false;
}

void write_conditions(TextWriter& w, const ir::Plan& plan) {
  w.blank();
  w.line("// ---- conditions on pairs, and bounds that rows give ----");
  w.blank();
  Writer(w, plan).run();
}

}  // namespace weft::codegen::cuda
