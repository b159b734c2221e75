#include "codegen/cpu/emit.h"

#include "codegen/cpu/expression.h"
#include "codegen/cpu/kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <set>
#include <string_view>

namespace weft::codegen::cpu {
namespace {

/// What the functions of a text are called. One pass over its lines: a search for each name reads it thirty times.
std::set<std::string_view> functions_in(std::string_view text) {
  constexpr std::string_view kDefine = "define ";
  std::set<std::string_view> out;
  for (std::size_t line = 0; line < text.size();) {
    const auto end = std::min(text.find('\n', line), text.size());
    if (text.compare(line, kDefine.size(), kDefine) == 0) {
      const auto name = text.find('@', line) + 1;
      out.insert(text.substr(name, text.find('(', name) - name));
    }
    line = end + 1;
  }
  return out;
}

/// @weft_kernel: hands over the layout and the addresses of the micro-kernels that the text has; the others stay.
std::string entry(const Kernel& k, const std::string& text) {
  Builder f("weft_kernel", "void", "ptr %to", false);
  f.describe("hands over the layout of the scratch and the addresses of what stands above");
  f.seldom();
  std::int64_t at = 0;
  const auto put = [&](const Value& v) {
    f.store(v, f.at(Builder::argument("ptr", "to"), "i64", Builder::i64(at)), 8);
  };
  for (const std::int64_t word : std::bit_cast<std::array<std::int64_t, sizeof(Layout) / 8>>(Layout(k))) {
    put(Builder::i64(word));
    ++at;
  }
  const auto functions = functions_in(text);
  for (const auto& [name, what] : kMicroKernels) {
    if (functions.contains(name)) put({"ptr", fmt::format("@{}", name)});
    ++at;
  }
  f.ret();
  return ";; What is there\n" + f.finish();
}

std::string preamble(const Kernel& k) {
  std::string text = fmt::format(
      "; weft kernel for {}, {}: d {}, d_v {}, {}, tiles of {} rows x {} keys, sub-tiles of {} x {}\n"
      "; {} phases{}. Lanes are rows; weft_args is codegen/args.h; who calls what: runtime/cpu.\n"
      "target triple = \"x86_64-unknown-linux-gnu\"\n\n",
      k.target.name, ir::to_string(k.regime), k.d, k.d_v, ir::to_string(k.plan.bind.dtype), k.rows, k.keys, k.lanes,
      k.sub_k, k.plan.phases.size(), k.many_passes ? ", O summed over passes" : "");
  text += fmt::format("declare {0} @llvm.fmuladd.v{1}f32({0}, {0}, {0})\n", k.vf(), k.lanes);
  text += "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n";
  if (k.target.has_scalef()) {
    text += fmt::format(
        "declare {0} @llvm.x86.avx512.mask.reduce.ps.512({0}, i32, {0}, i16, i32)\n"
        "declare {0} @llvm.x86.avx512.mask.scalef.ps.512({0}, {0}, {0}, i16, i32)\n",
        k.vf());
  }
  if (k.pair == 2) {
    text += fmt::format("declare {0} @llvm.x86.avx512bf16.dpbf16ps.512({0}, {1}, {1})\n", k.vf(), k.vi());
  }
  if (k.d != k.d_pad || k.d_v != k.v_pad) {
    text +=
        "declare <8 x float> @llvm.masked.load.v8f32.p0(ptr, i32, <8 x i1>, <8 x float>)\n"
        "declare <8 x i16> @llvm.masked.load.v8i16.p0(ptr, i32, <8 x i1>, <8 x i16>)\n"
        "declare void @llvm.masked.store.v8f32.p0(<8 x float>, ptr, i32, <8 x i1>)\n"
        "declare void @llvm.masked.store.v8i16.p0(<8 x i16>, ptr, i32, <8 x i1>)\n";
  }
  text += "\n";
  return text;
}

using Parts = std::vector<std::string (*)(const Kernel&)>;

Parts parts_of(const Kernel& k) {
  if (k.regime == ir::Regime::few_queries) return {emit_few};
  Parts parts = {emit_conditions, emit_summaries, emit_rows, emit_copies, emit_sums, emit_masks};
  const Parts more = k.plan.bind.gradient ? Parts{emit_gradient_rows, emit_gradient_pairs, emit_gradient_blocks}
                                          : Parts{emit_pairs, emit_blocks};
  parts.insert(parts.end(), more.begin(), more.end());
  return parts;
}

}  // namespace

Names names(const ir::Plan&, ir::Regime) { return {.symbol = "weft_kernel"}; }

Source emit(const ir::Plan& plan, const Target& target, ir::Regime regime) {
  const Kernel k(plan, target, regime);
  std::string text;
  for (const auto part : parts_of(k)) text += part(k);
  text += entry(k, text);
  text = preamble(k) + (k.has_expressions() ? expression_functions(k.lanes, text) : "") + text;
  // Frame pointers would cost a register; vectors are as wide as the target says.
  const auto attributes = [&](const char* number, const char* more) {
    text += fmt::format(
        "attributes {} = {{ nounwind{} \"prefer-vector-width\"=\"{}\" \"min-legal-vector-width\"=\"{}\" }}\n", number,
        more, target.vector_bits, target.vector_bits);
  };
  attributes("#0", "");
  attributes("#1", " noinline optnone");
  return {names(plan), std::move(text)};
}

}  // namespace weft::codegen::cpu
