#include "codegen/cuda/lists.h"

#include "codegen/cuda/headers.h"
#include "compiler/base/text_writer.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace weft::codegen::cuda {
namespace {

constexpr std::array<std::string_view, 5> kParts = {"args.h", "ptx.cuh", "numbers.cuh", "philox.cuh", "lists.cuh"};

void list(TextWriter& w, const ir::List& l, std::size_t number) {
  if (pools(l)) w.line("    case {}: return pool_keys(a, {});", 2 * number, l.block);
  w.line("    case {}: {{", 2 * number + 1);
  w.line("      const ListRow row = open_row(a, a.lists[{}], {});", number, l.block);
  if (l.kind == ir::List::Kind::random) {
    w.line("      return draw(row, {}ull);", static_cast<std::uint64_t>(l.seed));
  } else {
    w.line("      return choose_best<{}>(a, shared, row, {}, {}, {});", pools(l), l.block, std::max(0, l.input),
           l.causal);
  }
  w.line("    }}");
}

}  // namespace

Source emit_lists(const ir::Plan& plan) {
  const char* const elements[] = {"f32", "f16", "bf16"};
  TextWriter w;
  w.line("// Made by Weft: which key blocks each row of blocks attends to, as lists.");
  w.blank();
  w.line("constexpr int kThreads = {};  // of a block", kListThreads);
  w.line("constexpr int kDim = {};  // columns of Q and K", plan.bind.d);
  w.line("constexpr bool kPaged = {};  // K and V come in pages", plan.bind.paged);
  for (int i = 0; i < kHeaderCount; ++i) {
    const std::string_view name = kHeaders[i].name;
    if (std::find(kParts.begin(), kParts.end(), name) == kParts.end()) continue;
    write_header(w, kHeaders[i]);
    if (name == "numbers.cuh") {
      w.blank();
      w.line("constexpr Element kStored = Element::{};", elements[static_cast<int>(plan.bind.dtype)]);
    }
  }
  w.blank();
  w.line("// ---- the kernel: phase 2 i pools the keys for list i, phase 2 i + 1 fills it ----");
  w.blank();
  w.line("extern \"C\" __global__ void __launch_bounds__(kThreads) weft_lists(const weft_args a) {{");
  w.line("  WEFT_SHARED_MEMORY(memory);");
  w.line("  ListShared& shared = *(ListShared*)memory;");
  w.line("  switch (a.phase) {{");
  for (std::size_t i = 0; i < plan.lists.size(); ++i) list(w, plan.lists[i], i);
  w.line("  }}");
  w.line("}}");
  return {.text = std::move(w).take(), .symbol = "weft_lists"};
}

std::int64_t list_shared_bytes(const ir::Plan& plan) { return 4 * (plan.bind.d + kListThreads); }

}  // namespace weft::codegen::cuda
