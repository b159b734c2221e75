#include "codegen/cpu/expression.h"
#include "codegen/cpu/kernel.h"

namespace weft::codegen::cpu {
namespace {

const Value kZero = Part::i64(0);

/// Two columns of numbers that were bf16, as pairs.
Value paired(Part& f, const Value& even, const Value& odd) {
  const std::string words = "<8 x i32>";
  const Value low = f.op("lshr", f.cast("bitcast", even, words), f.splat(Part::i32(16), 8));
  return f.bit_or(low, f.cast("bitcast", odd, words));
}

/// @fresh: state of rows that no key has reached.
std::string fresh(const Kernel& k) {
  Part f(k, "fresh");
  f.seldom();
  // Gradients measure scores from the LSE, direct weights from nothing.
  const Value lowest =
      k.gradient != 0 || k.direct != 0 ? f.vsplat(0) : f.splat({"float", "0xFFF0000000000000"}, k.lanes);
  f.for_each(kZero, Part::i64(k.rows), k.lanes, [&](const Value& v) {
    f.vstore(lowest, f.in_scratch(k.m), v);
    f.vstore(f.vsplat(0), f.in_scratch(k.l), v);
  });
  f.for_each(kZero, Part::i64(static_cast<std::int64_t>((k.sum_columns + 7) / 8 * 8) * k.rows), k.lanes,
             [&](const Value& at) { f.vstore(f.vsplat(0), f.in_scratch(k.acc), at); });
  f.ret();
  return f.finish();
}

/// @load_q: Q of the tile, transposed to [d][rows], times the scores' factor; or to [d / 2][rows] pairs as they are,
/// and the factor is left to the scores.
std::string load_q(const Kernel& k) {
  Part f(k, "load_q");
  const Value factor = score_factor(f);
  const bool pairs = k.pair == 2;
  if (pairs) f.store(factor, f.in_scratch(k.score_factor), 4);
  const Value factors = f.splat(factor, 8);
  f.name_loop("row");
  f.for_each(kZero, Part::i64(k.rows), 8, [&](const Value& r) {
    const std::vector<Value> from = eight_rows(f, k.q_row, r);
    // Of O as well: written only when all is done, its lines would be waited for.
    f.for_each(r, f.add(r, Part::i64(8)), 1, [&](const Value& i) {
      f.ask_for(f.load("ptr", f.at(f.in_scratch(k.o_row), "ptr", i), 8), k.sum_columns, Part::Use::to_write);
    });
    f.each_eight(k.d, [&](const Value& c, int count) {
      std::vector<Value> rows;
      for (const auto& row : from) {
        const Value eight = f.load8(f.at(row, "i8", f.mul(c, Part::i64(k.element))), count);
        rows.push_back(pairs ? eight : f.op("fmul", eight, factors));
      }
      const std::vector<Value> columns = f.transpose8(rows);
      const Value word = f.op("udiv", c, Part::i64(k.pair));
      const Value to = f.at(f.at(f.in_scratch(k.q), "float", f.mul(word, Part::i64(k.rows))), "float", r);
      for (std::size_t i = 0; i < 8; i += static_cast<std::size_t>(k.pair)) {
        const Value at = f.at(to, "float", Part::i64(static_cast<std::int64_t>(i) / k.pair * k.rows));
        f.store(pairs ? paired(f, columns[i], columns[i + 1]) : columns[i], at, 32);
      }
    });
  });
  f.ret();
  return f.finish();
}

/// 1 / l, or 0 for rows without weight; NaN stays.
Value inverse(Part& f, const Value& l, const Value& factor) {
  return f.select(f.fcmp("une", l, f.vsplat(0)), f.op("fdiv", factor, l), f.vsplat(0));
}

/// @sink_of: the sink's logit of a head.
std::string sink_of(const Kernel& k) {
  Part f(k, "sink_of", "float", "i64 %h");
  f.seldom();
  Expression e = expression_at(f, 1);
  e.let(ir::Variable::h, Part::argument("i64", "h"));
  f.ret(e.value(*k.plan.sink_logit));
  return f.finish();
}

/// @join_sink: a further term of each row's sum, in units of log 2; it has no value, so O only shrinks.
std::string join_sink(const Kernel& k) {
  Part f(k, "join_sink");
  f.seldom();
  const Value none = f.splat({"float", "0xFFF0000000000000"}, k.lanes);
  f.for_each(kZero, Part::i64(k.rows), k.lanes, [&](const Value& v) {
    const Value m = f.vload(f.in_scratch(k.m), v), sink = f.vload(f.in_scratch(k.top), v);
    const Value top = f.select(f.fcmp("olt", m, sink), sink, m);  // NaN stays
    const Value safe = f.select(f.fcmp("oeq", top, none), f.vsplat(0), top);
    const Value alpha = f.exp2(f.fsub(m, safe));
    const Value l = f.fmul(f.vload(f.in_scratch(k.l), v), alpha);
    f.vstore(f.fadd(l, f.exp2(f.fsub(sink, safe))), f.in_scratch(k.l), v);
    f.vstore(top, f.in_scratch(k.m), v);
    f.for_each(kZero, Part::i64(k.d_v), 1, [&](const Value& c) {
      const Value at = f.add(f.mul(c, Part::i64(k.rows)), v);
      f.vstore(f.fmul(f.vload(f.in_scratch(k.acc), at), alpha), f.in_scratch(k.acc), at);
    });
  });
  f.ret();
  return f.finish();
}

/// @store_lse: m + log2 l in natural units to [b, h, row]; NaN where a score was.
std::string store_lse(const Kernel& k) {
  Part f(k, "store_lse", "void", "ptr %base, i64 %stride_b, i64 %stride_h");
  f.seldom();
  const Value base = Part::argument("ptr", "base");
  const Value at_b = f.mul(f.tile(kB), Part::argument("i64", "stride_b"));
  const Value at_h = f.mul(f.tile(kH), Part::argument("i64", "stride_h"));
  const Value to = f.at(base, "float", f.add(at_b, at_h));
  const Value buffer = f.in_scratch(k.alpha);  // free once the last block is done
  f.for_each(kZero, Part::i64(k.rows), k.lanes, [&](const Value& v) {
    const Value l = f.vload(f.in_scratch(k.l), v);
    const Value lse = f.fmul(f.fadd(f.vload(f.in_scratch(k.m), v), f.log2(l)), f.vsplat(0.6931471805599453));
    const Value none = f.splat({"float", "0xFFF0000000000000"}, k.lanes);
    const Value of_weights = f.select(f.fcmp("one", l, f.vsplat(0)), lse, none);
    f.vstore(f.select(f.fcmp("uno", l, l), l, of_weights), buffer, v);
  });
  f.for_each(f.tile(kRowsFrom), f.tile(kRowsTo), 1, [&](const Value& r) {
    const Value x = f.load("i64", f.at(f.in_scratch(k.x), "i64", r), 8);
    const Value of_head = f.mul(f.op("urem", r, f.tile(kGroup)), Part::argument("i64", "stride_h"));
    f.store(f.load("float", f.at(buffer, "float", r), 4), f.at(to, "float", f.add(of_head, f.sub(x, f.tile(kOffset)))),
            4);
  });
  f.ret();
  return f.finish();
}

/// @finish_pass: the pass's share of O into `acc` (one pass) or added to `out` (several).
std::string finish_pass(const Kernel& k) {
  Part f(k, "finish_pass", "void", "double %share");
  Value share_of_pass = Part::argument("double", "share");
  if (k.plan.dropout > 0) share_of_pass = f.fmul(share_of_pass, Part::f64(1 / (1 - k.plan.dropout)));
  const Value factor = f.splat(f.cast("fptrunc", share_of_pass, "float"), k.lanes);
  f.for_each(kZero, Part::i64(k.rows), k.lanes, [&](const Value& v) {
    const Value share = k.direct != 0 ? factor : inverse(f, f.vload(f.in_scratch(k.l), v), factor);
    f.for_each(kZero, Part::i64(k.d_v), 1, [&](const Value& c) {
      const Value at = f.add(f.mul(c, Part::i64(k.rows)), v);
      const Value value = f.fmul(f.vload(f.in_scratch(k.acc), at), share);
      if (k.many_passes) {
        f.vstore(f.fadd(f.vload(f.in_scratch(k.out), at), value), f.in_scratch(k.out), at);
      } else {
        f.vstore(value, f.in_scratch(k.acc), at);
      }
    });
  });
  f.ret();
  return f.finish();
}

/// @store_rows: O, or dQ, of the tile from [columns][rows] to its rows.
std::string store_rows(const Kernel& k) {
  Part f(k, "store_rows");
  const Value from = f.in_scratch(k.many_passes && k.gradient == 0 ? k.out : k.acc);
  f.name_loop("row");
  f.for_each(kZero, f.tile(kCount), 8, [&](const Value& r) {
    const std::vector<Value> to = eight_rows(f, k.o_row, r);
    f.each_eight(k.sum_columns, [&](const Value& c, int count) {
      const Value column = f.at(f.at(from, "float", f.mul(c, Part::i64(k.rows))), "float", r);
      std::vector<Value> columns;
      for (int i = 0; i < 8; ++i)
        columns.push_back(f.load("<8 x float>", f.at(column, "float", Part::i64(i * k.rows)), 32));
      const std::vector<Value> rows = f.transpose8(columns);
      for (std::size_t i = 0; i < 8; ++i) f.store8(rows[i], f.at(to[i], "i8", f.mul(c, Part::i64(k.element))), count);
    });
  });
  f.ret();
  return f.finish();
}

}  // namespace

std::vector<Value> eight_rows(Part& f, std::int64_t pointers, const Value& r) {
  const Value at = f.at(f.in_scratch(pointers), "ptr", r);
  std::vector<Value> rows;
  for (int i = 0; i < 8; ++i) rows.push_back(f.load("ptr", f.at(at, "ptr", Part::i64(i)), 8));
  return rows;
}

/// What scores are multiplied by: scale and log2 e, so that they are exponents of 2. Score expressions want natural
/// units and change them themselves.
Value score_factor(Part& f) {
  const Value log2_e{"double", "0x3FF71547652B82FE"};
  Value scale = f.arg(offsetof(weft_args, scale), "double");
  if (!f.kernel.plan.score) scale = f.op("fmul", scale, log2_e);
  return f.cast("fptrunc", scale, "float");
}

std::string emit_rows(const Kernel& k) {
  const std::string both = load_q(k) + fresh(k) + store_rows(k), sink = k.sink != 0 ? sink_of(k) : "";
  if (k.gradient != 0) return ";; Rows of a tile: Q in, dQ out\n" + both + sink;
  return ";; Rows of a tile: Q in, O and LSE out\n" + both + (k.direct != 0 ? "" : store_lse(k)) + finish_pass(k) +
         (k.sink != 0 ? sink + join_sink(k) : "");
}

}  // namespace weft::codegen::cpu
