#include "codegen/cpu/emit.h"

#include "codegen/cpu/expression.h"
#include "codegen/cpu/kernel.h"

#include <fmt/format.h>

namespace weft::codegen::cpu {
namespace {

const Value kZero = Part::i64(0);

/// @fresh: state of rows that no key has reached.
std::string fresh(const Kernel& k) {
  Part f(k, "fresh");
  f.seldom();
  const Value lowest = f.splat({"float", "0xFFF0000000000000"}, k.lanes);
  f.for_each(kZero, Part::i64(k.rows), k.lanes, [&](const Value& v) {
    f.vstore(lowest, f.in_scratch(k.m), v);
    f.vstore(f.vsplat(0), f.in_scratch(k.l), v);
  });
  f.for_each(kZero, Part::i64(static_cast<std::int64_t>(k.v_pad) * k.rows), k.lanes,
             [&](const Value& at) { f.vstore(f.vsplat(0), f.in_scratch(k.acc), at); });
  f.ret();
  return f.finish();
}

/// @sweep: the zones between cut points that are full (1) or partial (0).
std::string sweep(const Kernel& k) {
  Part f(k, "sweep", "void", "ptr %pass, i64 %full");
  f.seldom();
  const Value pass = Part::argument("ptr", "pass");
  const Value full = Part::argument("i64", "full");
  f.for_each(Part::i64(1), f.tile(kCuts), 1, [&](const Value& i) {
    const Value hi = f.load("i64", f.at(f.cuts(), "i64", i), 8);
    const Value lo = f.load("i64", f.at(f.cuts(), "i64", f.sub(i, Part::i64(1))), 8);
    f.when(f.icmp("slt", lo, hi), [&] {
      const Value zone = f.call("i64", "zone", {f.a, f.s, pass, lo, hi});
      const Value count = f.op("ashr", zone, Part::i64(1));
      const Value wanted = f.icmp("eq", f.bit_and(zone, Part::i64(1)), full);
      f.when(f.bit_and(wanted, f.icmp("sgt", count, kZero)), [&] {
        f.when(
            f.icmp("ne", full, kZero),
            [&] {
              f.call_void("full_zone", {f.a, f.s, pass, count, hi});
            },
            [&] {
              f.call_void("partial_zone", {f.a, f.s, pass, count, hi});
            });
      });
    });
  });
  f.ret();
  return f.finish();
}

/// @run_pass: one softmax over the tile's keys.
std::string run_pass(const Kernel& k) {
  Part f(k, "run_pass", "void", "ptr %pass");
  f.seldom();
  const Value pass = Part::argument("ptr", "pass");
  for (TileWord w : {kLanesReady, kBuffer, kPending, kFilled}) f.set_tile(w, kZero);
  when_few(f, [&] { f.call_void("clear_few", {f.a, f.s}); });
  f.call_void("sweep", {f.a, f.s, pass, Part::i64(1)});
  f.call_void("flush_full", {f.a, f.s});
  f.call_void("flush_partial", {f.a, f.s});
  f.call_void("sweep", {f.a, f.s, pass, kZero});
  f.call_void("flush_partial", {f.a, f.s});
  f.ret();
  return f.finish();
}

Value pass_of(Part& f, const Value& head, const Value& number) {
  return f.table(f.load("i64", f.at(f.at(head, "i64", Part::i64(kPassesAt)), "i64", number), 8));
}

/// @run_tile for plans of one phase: every pass, then O.
std::string run_tile(const Kernel& k) {
  Part f(k, "run_tile", "void", "ptr %head, i64 %passes");
  f.seldom();
  const Value head = Part::argument("ptr", "head");
  f.call_void("load_q", {f.a, f.s});
  if (k.many_passes) {
    f.for_each(kZero, Part::i64(static_cast<std::int64_t>(k.v_pad) * k.rows), k.lanes,
               [&](const Value& at) { f.vstore(f.vsplat(0), f.in_scratch(k.out), at); });
  }
  f.for_each(kZero, Part::argument("i64", "passes"), 1, [&](const Value& p) {
    const Value pass = pass_of(f, head, p);
    f.call_void("spans", {f.a, f.s, pass});
    f.call_void("fresh", {f.a, f.s});
    f.call_void("run_pass", {f.a, f.s, pass});
    f.call_void("finish_pass", {f.a, f.s, pass});
  });
  f.call_void("store_rows", {f.a, f.s});
  f.ret();
  return f.finish();
}

/// @run_tile for plans of several phases: one pass, with state taken from the phase before and handed on.
std::string run_tile_of_phases(const Kernel& k) {
  Part f(k, "run_tile", "void", "ptr %head, i64 %passes");
  f.seldom();
  const Value pass = pass_of(f, Part::argument("ptr", "head"), kZero);
  const Value phase = f.arg(offsetof(weft_args, phase));
  const Value first = f.icmp("eq", phase, kZero);
  const Value last = f.icmp("eq", phase, Part::i64(static_cast<std::int64_t>(k.plan.phases.size()) - 1));
  f.call_void("spans", {f.a, f.s, pass});
  const Value idle = f.icmp("eq", f.tile(kCuts), kZero);
  // Rows that this phase adds nothing to keep their state where it is.
  f.ret_if(f.bit_and(idle, f.bit_and(f.op("xor", first, Part::i1(true)), f.op("xor", last, Part::i1(true)))));
  f.when(
      first,
      [&] {
        f.call_void("fresh", {f.a, f.s});
      },
      [&] {
        f.call_void("carry_in", {f.a, f.s});
      });
  f.when(
      idle, [] {},
      [&] {
        f.call_void("load_q", {f.a, f.s});
        f.call_void("run_pass", {f.a, f.s, pass});
      });
  f.when(
      last,
      [&] {
        f.call_void("finish_pass", {f.a, f.s, pass});
        f.call_void("store_rows", {f.a, f.s});
      },
      [&] {
        f.call_void("carry_out", {f.a, f.s});
      });
  f.ret();
  return f.finish();
}

/// Facts of one (batch, head), for all of its tiles.
void open_head(Part& f, const Value& b, const Value& h) {
  const Kernel& k = f.kernel;
  const Value group = f.op("sdiv", f.arg(offsetof(weft_args, heads)), f.arg(offsetof(weft_args, kv_heads)));
  const Value hk = f.op("sdiv", h, group);
  f.set_tile(kB, b);
  f.set_tile(kH, h);
  f.set_offset(b);
  const auto open = [&](std::size_t view, TileWord base, TileWord step, TileWord page_step) {
    const Value stride_b = f.arg(view + offsetof(weft_view, stride_b));
    const Value of_head = f.mul(hk, f.arg(view + offsetof(weft_view, stride_h)));
    const Value start = k.plan.bind.paged ? of_head : f.add(f.mul(b, stride_b), of_head);
    if (k.plan.bind.paged) f.set_tile(page_step, f.mul(stride_b, Part::i64(k.element)));
    f.set_tile(base, f.add(f.arg(view + offsetof(weft_view, data)), f.mul(start, Part::i64(k.element))));
    f.set_tile(step, f.mul(f.arg(view + offsetof(weft_view, stride_n)), Part::i64(k.element)));
  };
  open(offsetof(weft_args, k), kKeyBase, kKeyStep, kKeyPage);
  open(offsetof(weft_args, v), kValueBase, kValueStep, kValuePage);
}

std::string entry(const Kernel& k) {
  Builder head("weft_kernel", "void", "ptr %a", false);
  head.seldom();
  head.emit(fmt::format("%s = load ptr, ptr {}, align 8",
                        head.at(Builder::argument("ptr", "a"), "i8", Builder::i64(offsetof(weft_args, scratch))).name));
  head.call_void("tiles", {Builder::argument("ptr", "a"), Builder::argument("ptr", "s")});
  head.ret();

  Part f(k, "tiles");
  f.seldom();
  if (has_summaries(k)) {
    const Value prepass = f.icmp("slt", f.arg(offsetof(weft_args, phase)), kZero);
    f.when(prepass, [&] { f.call_void("summarize", {f.a, f.s}); });
    f.ret_if(prepass);
  }
  const Value phase = f.table(f.load("i64", f.at(f.table(Part::i64(1)), "i64", f.arg(offsetof(weft_args, phase))), 8));
  const Value per_head = f.arg(offsetof(weft_args, tiles_per_head));
  const Value group = f.arg(offsetof(weft_args, heads_per_tile));
  f.set_tile(kGroup, group);
  f.set_tile(kStatesAt, Part::i64(k.terms));
  const Value groups = f.op("sdiv", f.arg(offsetof(weft_args, heads)), group);
  const Value descending = f.icmp("ne", f.word(phase, 1), kZero);
  if (k.plan.dropout > 0) f.call_void("seed", {f.a, f.s});
  f.for_each(f.arg(offsetof(weft_args, tile_begin)), f.arg(offsetof(weft_args, tile_end)), 1, [&](const Value& number) {
    const Value bh = f.op("sdiv", number, per_head);
    const Value tile = f.op("srem", number, per_head);
    const Value h = f.mul(f.op("srem", bh, groups), group);
    open_head(f, f.op("sdiv", bh, groups), h);
    const Value table = f.table(f.load("i64", f.at(f.at(phase, "i64", Part::i64(2)), "i64", h), 8));
    const Value rows = f.call("i64", "rows", {f.a, f.s, table, tile, descending});
    f.when(f.icmp("sgt", rows, kZero), [&] {
      if (!k.conditions.empty()) f.call_void("describe", {f.a, f.s});
      f.call_void("run_tile", {f.a, f.s, table, f.word(phase, 0)});
    });
  });
  f.ret();
  return ";; All tiles\n" + f.finish() + head.finish();
}

std::string preamble(const Kernel& k) {
  std::string text = fmt::format(
      "; weft kernel for {}: d {}, d_v {}, {}, tiles of {} rows x {} keys, sub-tiles of {} x {}\n"
      "; {} phases{}. Lanes are rows; weft_args is codegen/args.h, the tables are codegen/tables_image.h.\n"
      "target triple = \"x86_64-unknown-linux-gnu\"\n\n",
      k.target.name, k.d, k.d_v, ir::to_string(k.plan.bind.dtype), k.rows, k.keys, k.lanes, k.sub_k,
      k.plan.phases.size(), k.many_passes ? ", O summed over passes" : "");
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

}  // namespace

Names names(const ir::Plan&) { return {.symbol = "weft_kernel"}; }

Source emit(const ir::Plan& plan, const Target& target) {
  const Kernel k(plan, target);
  std::string text;
  const auto tile = plan.phases.size() > 1 ? run_tile_of_phases : run_tile;
  for (const auto part : {emit_conditions, emit_summaries, emit_schedule, emit_rows, emit_pairs, emit_copies,
                          emit_blocks, emit_few, emit_walk, fresh, sweep, run_pass, tile, entry}) {
    text += part(k);
  }
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

std::int64_t scratch_bytes(const ir::Plan& plan, const Target& target, std::int64_t most_terms) {
  const Kernel k(plan, target);
  // Behind the terms: four cut points each and the zone's list.
  return (k.terms + most_terms * (k.term_stride + 5 * 8) + 127) / 64 * 64;
}

}  // namespace weft::codegen::cpu
