#include "codegen/cpu/kernel.h"

namespace weft::codegen::cpu {
namespace {

const Value kZero = Part::i64(0);
const Value kOne = Part::i64(1);

/// Is `v` in the class's share of rows? Stores position and bits as the tile's next row.
void put_row(Part& f, const Value& count, const Value& x, const Value& bits) {
  const Value at = f.get(count);
  f.store(x, f.at(f.in_scratch(f.kernel.x), "i64", at), 8);
  f.store(bits, f.at(f.in_scratch(f.kernel.bits), "i64", at), 8);
  f.set(count, f.add(at, kOne));
}

void rows_of_contiguous(Part& f, const Value& count, const Value& begin, const Value& end, const Value& tile,
                        const Value& descending) {
  const Value rows = Part::i64(f.kernel.rows);
  const Value total = f.op("sdiv", f.add(f.sub(end, begin), Part::i64(f.kernel.rows - 1)), rows);
  f.when(f.icmp("slt", tile, total), [&] {
    const Value number = f.select(descending, f.sub(f.sub(total, kOne), tile), tile);
    const Value first = f.add(begin, f.mul(number, rows));
    f.for_each(first, f.min(f.add(first, rows), end), 1, [&](const Value& x) { put_row(f, count, x, kZero); });
  });
}

/// All rows of a sequence, and of each the tile's heads.
void rows_of_group(Part& f, const Value& count, const Value& begin, const Value& end) {
  f.for_each(begin, end, 1, [&](const Value& x) {
    f.for_each(kZero, f.tile(kGroup), 1, [&](const Value&) { put_row(f, count, x, kZero); });
  });
}

void rows_of_class(Part& f, const Value& head, const Value& count, const Value& begin, const Value& end,
                   const Value& tile, const Value& descending) {
  const Value cell = f.word(head, kCell);
  const Value per_cell = f.word(head, kTilesPerCell);
  const Value first = f.floor_div(begin, cell);
  const Value last = f.floor_div(f.sub(end, kOne), cell);
  const Value cell_number = f.op("sdiv", tile, per_cell);
  const Value c = f.select(descending, f.sub(last, cell_number), f.add(first, cell_number));
  const Value in_range = f.bit_and(f.icmp("sge", c, first), f.icmp("sle", c, last));
  f.when(in_range, [&] {
    const Value cells = f.table(f.word(head, kCellsAt));
    const Value cell_at = f.load("i64", f.at(cells, "i64", f.floor_mod(c, f.word(head, kPeriod))), 8);
    const Value table = f.table(cell_at);
    const Value in_cell = f.slot(f.op("srem", tile, per_cell));
    f.when(f.icmp("slt", f.get(in_cell), f.word(table, kCellTiles)), [&] {
      const Value classes = f.at(table, "i64", Part::i64(kCellClassesAt));
      const Value number = f.slot(kZero);
      const auto of_class = [&] { return f.table(f.load("i64", f.at(classes, "i64", f.get(number)), 8)); };
      f.repeat_while([&] { return f.icmp("sge", f.get(in_cell), f.word(of_class(), kClassTiles)); },
                     [&] {
                       f.set(in_cell, f.sub(f.get(in_cell), f.word(of_class(), kClassTiles)));
                       f.set(number, f.add(f.get(number), kOne));
                     });
      const Value of = of_class();
      const Value from = f.mul(f.get(in_cell), Part::i64(f.kernel.rows));
      const Value residues = f.word(of, kClassResidues);
      const Value residue_at = f.at(of, "i64", Part::i64(kClassAt));
      const Value bits_at = f.at(residue_at, "i64", residues);
      const Value lcm = f.word(head, kLcm);
      const Value turn = f.slot(f.op("sdiv", from, residues));
      const Value r = f.slot(f.op("srem", from, residues));
      const Value start = f.mul(c, cell);
      const Value to = f.min(f.add(from, Part::i64(f.kernel.rows)), f.word(of, kClassRows));
      // A cell is as long as its largest segment: where there are few rows, most of its tiles have none of them.
      const auto position = [&](const Value& i) {
        const Value residue = f.load("i64", f.at(residue_at, "i64", f.op("srem", i, residues)), 8);
        return f.add(f.add(start, f.mul(lcm, f.op("sdiv", i, residues))), residue);
      };
      const Value overlaps =
          f.bit_and(f.icmp("slt", position(from), end), f.icmp("sge", position(f.sub(to, kOne)), begin));
      f.for_each(from, f.select(overlaps, to, from), 1, [&](const Value&) {
        const Value now = f.get(r);
        const Value x = f.add(f.add(start, f.mul(lcm, f.get(turn))), f.load("i64", f.at(residue_at, "i64", now), 8));
        f.when(f.bit_and(f.icmp("sge", x, begin), f.icmp("slt", x, end)),
               [&] { put_row(f, count, x, f.load("i64", f.at(bits_at, "i64", now), 8)); });
        const Value next = f.add(now, kOne);
        const Value wraps = f.icmp("eq", next, residues);
        f.set(r, f.select(wraps, kZero, next));
        f.set(turn, f.add(f.get(turn), f.cast("zext", wraps, "i64")));
      });
    });
  });
}

/// Address of the row of position x of a tensor for this batch entry.
Value row_address(Part& f, std::size_t view, const Value& x, const Value& h) {
  const Value row = f.sub(x, f.tile(kOffset));
  const Value at_b = f.mul(f.tile(kB), f.arg(view + offsetof(weft_view, stride_b)));
  const Value at_n = f.mul(row, f.arg(view + offsetof(weft_view, stride_n)));
  const Value at_h = f.mul(h, f.arg(view + offsetof(weft_view, stride_h)));
  const Value offset = f.mul(f.add(f.add(at_b, at_n), at_h), Part::i64(f.kernel.element));
  return f.at(f.arg(view + offsetof(weft_view, data), "ptr"), "i8", offset);
}

/// Where the tile's rows of Q and O stand.
void find_rows(Part& f) {
  const Kernel& k = f.kernel;
  f.for_each(kZero, Part::i64(k.rows), 1, [&](const Value& r) {
    const Value x = f.load("i64", f.at(f.in_scratch(k.x), "i64", r), 8);
    const Value h = f.add(f.tile(kH), f.op("urem", r, f.tile(kGroup)));
    const Value q = row_address(f, offsetof(weft_args, q), x, h);
    f.store(q, f.at(f.in_scratch(k.q_row), "ptr", r), 8);
    f.ask_for(q, k.d);
    // Lanes behind the last row have no place in O.
    const Value o = f.select(f.icmp("slt", r, f.tile(kCount)), row_address(f, offsetof(weft_args, o), x, h),
                             f.in_scratch(k.idle_row));
    f.store(o, f.at(f.in_scratch(k.o_row), "ptr", r), 8);
  });
}

/// @rows: the rows of tile number `tile` of head table `head`; returns how many. The lanes behind the
/// last row repeat it, so that they neither widen an interval nor need a mask.
std::string rows(const Kernel& k) {
  Part f(k, "rows", "i64", "ptr %head, i64 %tile, i1 %descending");
  f.seldom();
  const Value head = Part::argument("ptr", "head");
  const Value tile = Part::argument("i64", "tile");
  const Value descending = Part::argument("i1", "descending");
  const Value begin = f.tile(kOffset);
  const Value end = f.add(begin, f.arg(offsetof(weft_args, n_q)));
  const Value count = f.slot(kZero);
  const Value by_class = f.icmp("ne", f.word(head, kCell), kZero);
  f.when(
      by_class, [&] { rows_of_class(f, head, count, begin, end, tile, descending); },
      [&] {
        f.when(
            f.icmp("eq", f.tile(kGroup), kOne), [&] { rows_of_contiguous(f, count, begin, end, tile, descending); },
            [&] { rows_of_group(f, count, begin, end); });
      });
  const Value n = f.get(count);
  f.ret_if(f.icmp("eq", n, kZero), &kZero);
  const Value xs = f.in_scratch(k.x);
  const Value bits = f.in_scratch(k.bits);
  const Value last = f.load("i64", f.at(xs, "i64", f.sub(n, kOne)), 8);
  // Bits that the class does not tell.
  const Value bits_table = f.table(f.word(head, kRowBitsAt));
  f.for_each(f.select(by_class, f.word(head, kClassBits), kZero), f.word(head, kRowBits), 1, [&](const Value& i) {
    const Value c = f.at(bits_table, "i64", f.mul(i, Part::i64(3)));
    const Value w = f.word(c, 0);
    const Value rate = f.word(c, 1);
    const Value residue = f.word(c, 2);
    const Value divisor = f.select(f.icmp("sgt", w, kZero), w, Part::i64(std::int64_t{1} << 62));
    const Value bit = f.op("shl", kOne, i);
    f.for_each(kZero, n, 1, [&](const Value& r) {
      const Value x = f.load("i64", f.at(xs, "i64", r), 8);
      // Positions are far from 2^62, so with the divisor of an endless segment only negative x would wrap.
      const Value in_segment = f.select(f.icmp("sgt", w, kZero), f.floor_mod(x, divisor), x);
      const Value holds = f.icmp("eq", f.floor_mod(in_segment, rate), residue);
      const Value at = f.at(bits, "i64", r);
      f.store(f.bit_or(f.load("i64", at, 8), f.select(holds, bit, kZero)), at, 8);
    });
  });
  const Value last_bits = f.load("i64", f.at(bits, "i64", f.sub(n, kOne)), 8);
  f.for_each(n, Part::i64(k.rows), 1, [&](const Value& r) {
    f.store(last, f.at(xs, "i64", r), 8);
    f.store(last_bits, f.at(bits, "i64", r), 8);
  });
  const Value every = f.slot(Part::i64(-1)), any = f.slot(kZero);
  f.for_each(kZero, Part::i64(k.rows), 1, [&](const Value& r) {
    const Value b = f.load("i64", f.at(bits, "i64", r), 8);
    f.set(every, f.bit_and(f.get(every), b));
    f.set(any, f.bit_or(f.get(any), b));
  });
  f.set_tile(kCount, n);
  f.set_tile(kFirst, f.load("i64", xs, 8));
  f.set_tile(kLast, last);
  f.set_tile(kEvery, f.get(every));
  f.set_tile(kAny, f.get(any));
  find_rows(f);
  f.ret(n);
  return f.finish();
}

/// The eight rows of Q or O from r on.
std::vector<Value> eight_rows(Part& f, std::int64_t pointers, const Value& r) {
  const Value at = f.at(f.in_scratch(pointers), "ptr", r);
  std::vector<Value> rows;
  for (int i = 0; i < 8; ++i) rows.push_back(f.load("ptr", f.at(at, "ptr", Part::i64(i)), 8));
  return rows;
}

/// Two columns of numbers that were bf16, as pairs.
Value paired(Part& f, const Value& even, const Value& odd) {
  const std::string words = "<8 x i32>";
  const Value low = f.op("lshr", f.cast("bitcast", even, words), f.splat(Part::i32(16), 8));
  return f.bit_or(low, f.cast("bitcast", odd, words));
}

/// @load_q: Q of the tile, transposed to [d][rows], times the scores' factor; or to [d / 2][rows] pairs as they are,
/// and the factor is left to the scores.
std::string load_q(const Kernel& k) {
  Part f(k, "load_q");
  const Value factor = score_factor(f);
  const bool pairs = k.pair == 2;
  when_few(f, [&] { f.call_void("load_few", {f.a, f.s}); });
  if (pairs) f.store(factor, f.in_scratch(k.score_factor), 4);
  const Value factors = f.splat(factor, 8);
  f.for_each(kZero, Part::i64(k.rows), 8, [&](const Value& r) {
    const std::vector<Value> from = eight_rows(f, k.q_row, r);
    // Of O as well: written only when all is done, its lines would be waited for.
    f.for_each(r, f.add(r, Part::i64(8)), 1, [&](const Value& i) {
      f.ask_for(f.load("ptr", f.at(f.in_scratch(k.o_row), "ptr", i), 8), k.d_v, Part::Use::to_write);
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

/// @store_lse: m + log2 l in natural units to [b, h, row].
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
    f.vstore(f.select(f.fcmp("une", l, f.vsplat(0)), lse, none), buffer, v);
  });
  f.for_each(kZero, f.tile(kCount), 1, [&](const Value& r) {
    const Value x = f.load("i64", f.at(f.in_scratch(k.x), "i64", r), 8);
    const Value of_head = f.mul(f.op("urem", r, f.tile(kGroup)), Part::argument("i64", "stride_h"));
    f.store(f.load("float", f.at(buffer, "float", r), 4), f.at(to, "float", f.add(of_head, f.sub(x, f.tile(kOffset)))),
            4);
  });
  f.ret();
  return f.finish();
}

/// @finish_pass: LSE of the pass, and its share of O into `acc` (one pass) or added to `out` (several).
std::string finish_pass(const Kernel& k) {
  Part f(k, "finish_pass", "void", "ptr %pass");
  const Value pass = Part::argument("ptr", "pass");
  const Value slot = f.word(pass, kLseSlot);
  const Value is_main = f.icmp("slt", slot, kZero);
  const Value main = f.arg(offsetof(weft_args, lse), "ptr");
  const Value branch = f.arg(offsetof(weft_args, branch_lse), "ptr");
  const Value present = f.icmp("ne", f.cast("ptrtoint", f.select(is_main, main, branch), "i64"), kZero);
  f.when(f.bit_and(present, f.icmp("ne", f.word(pass, kWritesLse), kZero)), [&] {
    f.when(
        is_main,
        [&] {
          f.call_void("store_lse", {f.a, f.s, main, f.arg(offsetof(weft_args, lse_stride_b)),
                                    f.arg(offsetof(weft_args, lse_stride_h))});
        },
        [&] {
          const Value at = f.at(branch, "float", f.mul(slot, f.arg(offsetof(weft_args, branch_lse_stride))));
          f.call_void("store_lse", {f.a, f.s, at, f.arg(offsetof(weft_args, branch_lse_stride_b)),
                                    f.arg(offsetof(weft_args, branch_lse_stride_h))});
        });
  });
  f.ret_if(f.icmp("eq", f.word(pass, kOut), kZero));
  Value share_of_pass = f.load("double", f.at(pass, "i64", Part::i64(kFactor)), 8);
  if (k.plan.dropout > 0) share_of_pass = f.fmul(share_of_pass, Part::f64(1 / (1 - k.plan.dropout)));
  const Value factor = f.splat(f.cast("fptrunc", share_of_pass, "float"), k.lanes);
  f.for_each(kZero, Part::i64(k.rows), k.lanes, [&](const Value& v) {
    const Value share = inverse(f, f.vload(f.in_scratch(k.l), v), factor);
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

/// @store_rows: O of the tile from [d_v][rows] to its rows.
std::string store_rows(const Kernel& k) {
  Part f(k, "store_rows");
  const Value from = f.in_scratch(k.many_passes ? k.out : k.acc);
  f.for_each(kZero, f.tile(kCount), 8, [&](const Value& r) {
    const std::vector<Value> to = eight_rows(f, k.o_row, r);
    f.each_eight(k.d_v, [&](const Value& c, int count) {
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

/// @carry_in, @carry_out: the f32 state of each row, [d_v] acc, m, l.
std::string carry(const Kernel& k, bool in) {
  Part f(k, in ? "carry_in" : "carry_out");
  f.seldom();
  const std::int64_t words = k.d_v + 2;
  const Value head = f.add(f.mul(f.tile(kB), f.arg(offsetof(weft_args, heads))), f.tile(kH));
  const Value first = f.mul(head, f.arg(offsetof(weft_args, n_q)));
  const Value base = f.arg(offsetof(weft_args, carry), "ptr");
  const auto copy = [&](const Value& there, const Value& here) {
    in ? f.store(f.load("float", there, 4), here, 4) : f.store(f.load("float", here, 4), there, 4);
  };
  // Coming in, the idle lanes get the last row's state as well: it is never stored.
  f.for_each(kZero, in ? Part::i64(k.rows) : f.tile(kCount), 1, [&](const Value& r) {
    const Value x = f.load("i64", f.at(f.in_scratch(k.x), "i64", r), 8);
    const Value row = f.add(first, f.sub(x, f.tile(kOffset)));
    const Value there = f.at(base, "float", f.mul(row, Part::i64(words)));
    f.for_each(kZero, Part::i64(k.d_v), 1, [&](const Value& c) {
      copy(f.at(there, "float", c), f.at(f.in_scratch(k.acc), "float", f.add(f.mul(c, Part::i64(k.rows)), r)));
    });
    copy(f.at(there, "float", Part::i64(k.d_v)), f.at(f.in_scratch(k.m), "float", r));
    copy(f.at(there, "float", Part::i64(k.d_v + 1)), f.at(f.in_scratch(k.l), "float", r));
  });
  f.ret();
  return f.finish();
}

}  // namespace

/// What scores are multiplied by: scale and log2 e, so that they are exponents of 2. Score expressions want natural
/// units and change them themselves.
Value score_factor(Part& f) {
  const Value log2_e{"double", "0x3FF71547652B82FE"};
  Value scale = f.arg(offsetof(weft_args, scale), "double");
  if (!f.kernel.plan.score) scale = f.op("fmul", scale, log2_e);
  return f.cast("fptrunc", scale, "float");
}

std::string emit_rows(const Kernel& k) {
  std::string text = ";; Rows of a tile: positions, Q in, O and LSE out\n" + rows(k) + load_q(k) + store_lse(k) +
                     finish_pass(k) + store_rows(k);
  if (k.plan.phases.size() > 1) text += carry(k, true) + carry(k, false);
  return text;
}

}  // namespace weft::codegen::cpu
