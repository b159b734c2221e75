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
  if (l.kind == ir::List::Kind::random) {
    w.line("    case {}: return draw(open_row(a, a.lists[{}], {}), {}ull);", 2 * number + 1, number, l.block,
           static_cast<std::uint64_t>(l.seed));
  } else {
    w.line("    case {}: return choose_best<{}, {}>(a, shared, a.lists[{}], {}, {}, {});", 2 * number + 1, l.pools(),
           l.count <= 32, number, l.block, std::max(0, l.input), l.causal);
  }
}

}  // namespace

bool has_summaries(const ir::Plan& plan) { return has_spans(plan) || has(plan, ir::List::Kind::meets); }
bool has_choosers(const ir::Plan& plan) { return has(plan, ir::List::Kind::choosers); }
bool has_spans(const ir::Plan& plan) { return has(plan, ir::List::Kind::spans); }

bool chooses_keys(const ir::Plan& plan) {
  return std::any_of(plan.lists.begin(), plan.lists.end(), [](const auto& l) { return l.chooses(); });
}

bool chooses_best(const ir::Plan& plan) { return has(plan, ir::List::Kind::top); }

void write_prepass(TextWriter& w, const ir::Plan& plan) {
  w.blank();
  w.line("// ---- the prepass: phase 2 i pools the keys for list i, phase 2 i + 1 fills it ----");
  w.blank();
  w.line("extern \"C\" __global__ void __launch_bounds__(kPrepassThreads) weft_prepass(const weft_args a) {{");
  w.line("  WEFT_SHARED_MEMORY(memory);");
  if (chooses_best(plan)) w.line("  ListShared& shared = *(ListShared*)memory;");
  w.line("  switch (a.phase) {{");
  for (std::size_t i = 0; i < plan.lists.size(); ++i) {
    plan.lists[i].summarizes() ? summary(w, plan, plan.lists[i], i) : list(w, plan.lists[i], i);
  }
  w.line("  }}");
  w.line("}}");
}

std::int64_t prepass_shared_bytes(const ir::Plan& plan) {
  // Of struct ListShared, and of SummaryShared.
  return chooses_best(plan) ? 4 * ir::kListedRows * (plan.bind.d + ir::kPrepassThreads) : 4 * ir::kPrepassThreads;
}

}  // namespace weft::codegen::cuda
