#include "codegen/cpu/products.h"

/// Gradients: rows of a tile come in, and what was added up for rows and keys goes out.
namespace weft::codegen::cpu {
namespace {

const Value kZero = Part::i64(0);

/// rowsum(dO * O) of the eight rows from r on.
Value dots(Part& f, const std::vector<Value>& a, const std::vector<Value>& b) {
  const Kernel& k = f.kernel;
  const int whole = k.d_v / 8 * 8;
  const Value zero = f.splat(Part::f32(0), 8);
  const auto step = [&](const Value& c, std::vector<Value> sums, int count) {
    const auto at = [&](const Value& row) { return f.at(row, "i8", f.mul(c, Part::i64(k.element))); };
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const Value x = f.load8(at(a[i]), count), y = f.load8(at(b[i]), count), product = f.fmul(x, y);
      // A row without keys has O = 0 and a sink all the same: a NaN in its dO is nobody's.
      sums[i] = f.fadd(sums[i], k.sink != 0 ? f.select(f.fcmp("oeq", y, zero), zero, product) : product);
    }
    return sums;
  };
  std::vector<Value> sums(8, zero);
  if (whole > 0) {
    sums = f.fold(kZero, Part::i64(whole), 8, sums,
                  [&](const Value& c, const std::vector<Value>& before) { return step(c, before, 8); });
  }
  if (whole < k.d_v) sums = step(Part::i64(whole), sums, k.d_v - whole);
  const std::vector<Value> columns = f.transpose8(sums);
  Value out = columns[0];
  for (std::size_t i = 1; i < 8; ++i) out = f.fadd(out, columns[i]);
  return out;
}

/// Row r to f32, with zeros up to `columns`.
void put_row(Part& f, std::int64_t pointers, std::int64_t to, const Value& r, int width, int columns,
             const Value& factor) {
  const Value from = f.load("ptr", f.at(f.in_scratch(pointers), "ptr", r), 8);
  const Value row = f.at(f.in_scratch(to), "float", f.mul(r, Part::i64(columns)));
  f.each_eight(width, [&](const Value& c, int count) {
    const Value eight = f.load8(f.at(from, "i8", f.mul(c, Part::i64(f.kernel.element))), count);
    f.store(f.fmul(eight, f.splat(factor, 8)), f.at(row, "float", c), 32);
  });
  for (int c = (width + 7) / 8 * 8; c < columns; c += 8)
    f.store(f.splat(Part::f32(0), 8), f.at(row, "float", Part::i64(c)), 32);
}

/// @load_rows: rows of Q times the scale and of dO as they are, dO again as [d_v][rows], and rowsum(dO * O). Is there a
/// NaN or an infinity among them?
std::string load_rows(const Kernel& k) {
  Part f(k, "load_rows", "i64");
  const Value scale = f.cast("fptrunc", f.arg(offsetof(weft_args, scale), "double"), "float");
  f.for_each(kZero, Part::i64(k.rows), 8, [&](const Value& r) {
    f.for_each(r, f.add(r, Part::i64(8)), 1, [&](const Value& row) {
      put_row(f, k.q_row, k.q_rows, row, k.d, k.columns_k, scale);
      put_row(f, k.d_o_row, k.d_o_rows, row, k.d_v, k.columns_v, Part::f32(1));
    });
    f.store(dots(f, eight_rows(f, k.d_o_row, r), eight_rows(f, k.out_row, r)),
            f.at(f.in_scratch(k.row_dot), "float", r), 32);
    f.for_each(kZero, Part::i64(k.v_pad), 8, [&](const Value& c) {
      std::vector<Value> rows;
      for (int i = 0; i < 8; ++i) {
        const Value at = f.add(f.mul(f.add(r, Part::i64(i)), Part::i64(k.columns_v)), c);
        rows.push_back(f.load("<8 x float>", f.at(f.in_scratch(k.d_o_rows), "float", at), 32));
      }
      const auto columns = f.transpose8(rows);
      for (std::size_t i = 0; i < 8; ++i) {
        const Value at = f.mul(f.add(c, Part::i64(static_cast<std::int64_t>(i))), Part::i64(k.rows));
        f.store(columns[i], f.at(f.in_scratch(k.d_o), "float", f.add(at, r)), 32);
      }
    });
  });
  const auto wild = [&](std::int64_t base, int columns) {
    return holds_wild(f, Part::i64(k.rows), columns,
                      [&](const Value& r) { return f.at(f.in_scratch(base), "float", f.mul(r, Part::i64(columns))); });
  };
  f.ret(f.cast("zext", f.bit_or(wild(k.q_rows, k.columns_k), wild(k.d_o_rows, k.columns_v)), "i64"));
  return f.finish();
}

/// @input_of: number of the input that an element is of.
std::string input_of(const Kernel& k) {
  Part f(k, "input_of", "i64", "i64 %element");
  f.seldom();
  Value out = kZero;
  for (std::size_t i = 0; i < k.of_elements.size(); ++i) {
    const Value is = f.icmp("eq", Part::argument("i64", "element"), Part::i64(static_cast<std::int64_t>(i)));
    out = f.select(is, Part::i64(k.of_elements[i]->input), out);
  }
  f.ret(out);
  return f.finish();
}

/// @scale_sums: dQ is what was summed up times the scale.
std::string scale_sums(const Kernel& k) {
  Part f(k, "scale_sums");
  const Value scale = f.splat(f.cast("fptrunc", f.arg(offsetof(weft_args, scale), "double"), "float"), k.lanes);
  f.for_each(kZero, Part::i64(static_cast<std::int64_t>(k.d) * k.rows), k.lanes, [&](const Value& at) {
    f.vstore(f.fmul(f.vload(f.in_scratch(k.acc), at), scale), f.in_scratch(k.acc), at);
  });
  f.ret();
  return f.finish();
}

/// @add_sums: whole vectors of them.
std::string add_sums(const Kernel& k) {
  Part f(k, "add_sums", "void", "ptr %to, ptr %from, i64 %count");
  f.for_each(kZero, Part::argument("i64", "count"), k.lanes, [&](const Value& at) {
    const Value to = f.at(Part::argument("ptr", "to"), "float", at);
    f.store(f.fadd(f.load(k.vf(), to, 4), f.load(k.vf(), f.at(Part::argument("ptr", "from"), "float", at), 4)), to, 4);
  });
  f.ret();
  return f.finish();
}

/// @store_sums: rows of dK, or of dV, of `count` keys, `stride` bytes apart.
std::string store_sums(const Kernel& k) {
  Part f(k, "store_sums", "void", "ptr %from, ptr %to, i64 %stride, i64 %count, i64 %of_values");
  const auto store = [&](int at, int width) {
    f.for_each(kZero, Part::argument("i64", "count"), 1, [&](const Value& key) {
      const Value from =
          f.at(Part::argument("ptr", "from"), "float", f.add(f.mul(key, Part::i64(k.sum_row)), Part::i64(at)));
      const Value to = f.at(Part::argument("ptr", "to"), "i8", f.mul(key, Part::argument("i64", "stride")));
      f.each_eight(width, [&](const Value& c, int count) {
        f.store8(f.load("<8 x float>", f.at(from, "float", c), 4), f.at(to, "i8", f.mul(c, Part::i64(k.element))),
                 count);
      });
    });
  };
  f.when(
      f.icmp("ne", Part::argument("i64", "of_values"), kZero), [&] { store(k.columns_k, k.d_v); },
      [&] { store(0, k.d); });
  f.ret();
  return f.finish();
}

}  // namespace

std::string emit_gradient_rows(const Kernel& k) {
  return ";; Gradients: rows of a tile in, sums out\n" + load_rows(k) + input_of(k) + scale_sums(k) + add_sums(k) +
         store_sums(k);
}

}  // namespace weft::codegen::cpu
