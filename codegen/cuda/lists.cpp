#include "codegen/cuda/lists.h"

#include "compiler/ir/predicates.h"

#include <algorithm>

namespace weft::codegen::cuda {
namespace {

void choosers(TextWriter& w, const ir::Plan& plan, const ir::List& l, std::size_t number) {
  const auto chosen = plan.predicates[static_cast<std::size_t>(l.predicate)].holds->input;
  w.line("    case {}: return fill_choosers(a, a.lists[{}], a.lists[{}], {});", 2 * number + 1, chosen, number,
         l.block);
}

void summary(TextWriter& w, const ir::Plan& plan, const ir::List& l, std::size_t number) {
  if (l.kind == ir::List::Kind::choosers) return choosers(w, plan, l, number);
  const bool by_head = ir::summary_reads(plan, l, ir::Variable::h), spans = l.kind == ir::List::Kind::spans;
  w.line("    case {}: return {}(a, {}a.lists[{}], {}, {});", 2 * number + 1, spans ? "fill_spans" : "fill_meets",
         spans ? "*(SummaryShared*)memory, " : "", number, l.predicate, by_head);
}

bool has(const ir::Plan& plan, ir::List::Kind kind) {
  return std::any_of(plan.lists.begin(), plan.lists.end(), [&](const auto& l) { return l.kind == kind; });
}

void list(TextWriter& w, const ir::List& l, std::size_t number) {
  if (l.pools()) w.line("    case {}: return pool_keys(a, {});", 2 * number, l.block);
  w.line("    case {}: {{", 2 * number + 1);
  w.line("      const ListRow row = open_row(a, a.lists[{}], {});", number, l.block);
  if (l.kind == ir::List::Kind::random) {
    w.line("      return draw(row, {}ull);", static_cast<std::uint64_t>(l.seed));
  } else {
    w.line("      return choose_best<{}>(a, shared, row, {}, {}, {});", l.pools(), l.block, std::max(0, l.input),
           l.causal);
  }
  w.line("    }}");
}

}  // namespace

bool has_summaries(const ir::Plan& plan) { return has_spans(plan) || has(plan, ir::List::Kind::meets); }
bool has_choosers(const ir::Plan& plan) { return has(plan, ir::List::Kind::choosers); }
bool has_spans(const ir::Plan& plan) { return has(plan, ir::List::Kind::spans); }

bool chooses_keys(const ir::Plan& plan) {
  return std::any_of(plan.lists.begin(), plan.lists.end(), [](const auto& l) { return l.chooses(); });
}

void write_prepass(TextWriter& w, const ir::Plan& plan) {
  w.blank();
  w.line("// ---- the prepass: phase 2 i pools the keys for list i, phase 2 i + 1 fills it ----");
  w.blank();
  w.line("extern \"C\" __global__ void __launch_bounds__(kPrepassThreads) weft_prepass(const weft_args a) {{");
  w.line("  WEFT_SHARED_MEMORY(memory);");
  const auto is_top = [](const ir::List& l) { return l.kind == ir::List::Kind::top; };
  if (std::any_of(plan.lists.begin(), plan.lists.end(), is_top)) w.line("  ListShared& shared = *(ListShared*)memory;");
  w.line("  switch (a.phase) {{");
  for (std::size_t i = 0; i < plan.lists.size(); ++i) {
    plan.lists[i].summarizes() ? summary(w, plan, plan.lists[i], i) : list(w, plan.lists[i], i);
  }
  w.line("  }}");
  w.line("}}");
}

std::int64_t prepass_shared_bytes(const ir::Plan& plan) { return 4 * (plan.bind.d + ir::kPrepassThreads); }

}  // namespace weft::codegen::cuda
