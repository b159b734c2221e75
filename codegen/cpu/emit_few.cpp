#include "codegen/cpu/kernel.h"
#include "compiler/ir/few_rows.h"

#include <fmt/format.h>

#include <algorithm>

/// Blocks of keys where a launch has few queries, as in decoding: lanes are columns of K and V, which are read where
/// they are, once, whatever their type. Lanes of rows would idle.
namespace weft::codegen::cpu {
namespace {

const Value kZero = Part::i64(0);
const Value kMinusInfinity{"float", "0xFFF0000000000000"};
constexpr int kRows = ir::kFewRowsOfScores;           // what 128 bits of sums hold
constexpr int kRowsOfOutput = ir::kFewRowsOfOutputs;  // their sums over a row of V fill the registers

/// Where nothing asks for single pairs, scores of four rows stand key by key, so that no lane idles; else as in other
/// blocks.
bool is_packed(const Kernel& k) { return !k.plan.score && k.plan.dropout == 0; }

/// The scores, or weights, of one key and of four rows from r on, or of one row.
Value pairs_of_key(Part& f, const Value& key, const Value& r) {
  const Kernel& k = f.kernel;
  if (!is_packed(k)) return f.pair_at(k.scores, key, r);
  const Value of_rows = f.add(f.mul(f.bit_and(r, Part::i64(-kRows)), Part::i64(k.keys)), f.mul(key, Part::i64(kRows)));
  return f.at(f.in_scratch(k.scores), "float", f.add(of_rows, f.bit_and(r, Part::i64(kRows - 1))));
}

Value row_of(Part& f, const char* rows, const Value& key) {
  return f.load("ptr", f.at(Part::argument("ptr", rows), "ptr", key), 8);
}

/// Columns from c on of a stored row, as f32.
Value load_columns(Part& f, const Value& row, const Value& c) {
  const Kernel& k = f.kernel;
  const Value at = f.at(row, "i8", f.mul(c, Part::i64(k.element)));
  if (k.plan.bind.dtype == ir::DType::f32) return f.load(k.vf(), at, 4);
  return f.widened(f.load(vector_type(k.lanes, "i16"), at, 2), k.lanes);
}

/// Numbers of two vectors, four lanes at a time: `of(group, i)` is the lane, counted on through b, that goes to place i
/// of a group.
Value shuffled(Part& f, const Value& a, const Value& b, const std::function<int(int, int)>& of) {
  std::string order;
  for (int i = 0; i < f.kernel.lanes; ++i) order += fmt::format("{}i32 {}", i == 0 ? "" : ", ", of(i / 4, i % 4));
  return f.emit(a.type, fmt::format("shufflevector {0} {1}, {0} {2}, <{3} x i32> <{4}>", a.type, a.name, b.name,
                                    f.kernel.lanes, order));
}

/// Lanes a0 b0 a1 b1 of each four, or a2 b2 a3 b3.
Value interleaved(Part& f, const Value& a, const Value& b, bool upper) {
  const int lanes = f.kernel.lanes;
  return shuffled(f, a, b, [&](int group, int i) { return 4 * group + i / 2 + 2 * upper + i % 2 * lanes; });
}

/// Lanes a0 a1 b0 b1, or a2 a3 b2 b3.
Value joined(Part& f, const Value& a, const Value& b, bool upper) {
  const int lanes = f.kernel.lanes;
  return shuffled(f, a, b, [&](int group, int i) { return 4 * group + i % 2 + 2 * upper + i / 2 * lanes; });
}

/// Four lanes of a vector.
Value four_of(Part& f, const Value& v, int first) {
  return f.emit("<4 x float>",
                fmt::format("shufflevector {0} {1}, {0} poison, <4 x i32> <i32 {2}, i32 {3}, i32 {4}, i32 {5}>", v.type,
                            v.name, first, first + 1, first + 2, first + 3));
}

/// One number for each of four rows from those of all lanes, which are fours for some keys.
Value of_four_rows(Part& f, Value v, const std::function<Value(const Value&, const Value&)>& of_two) {
  for (int apart = f.kernel.lanes / 2; apart >= kRows; apart /= 2)
    v = of_two(v, shuffled(f, v, v, [&](int group, int i) { return (4 * group + i + apart) % f.kernel.lanes; }));
  return four_of(f, v, 0);
}

/// The sums over all lanes of a vector for each of four rows.
Value sums_of_lanes(Part& f, const std::vector<Value>& v) {
  const auto halves = [&](const auto& mixed, const Value& a, const Value& b) {
    return f.fadd(mixed(f, a, b, false), mixed(f, a, b, true));
  };
  const Value fours = halves(joined, halves(interleaved, v[0], v[1]), halves(interleaved, v[2], v[3]));
  return of_four_rows(f, fours, [&](const Value& a, const Value& b) { return f.fadd(a, b); });
}

/// Asks for the next block's row number `key` in the first turn over a block.
void ask_for_row(Part& f, const Value& turn, const char* next, const Value& key, int width) {
  f.when(f.icmp("eq", turn, kZero), [&] { f.ask_for(row_of(f, next, key), width, Part::Use::later); });
}

/// Vectors of columns that are taken at a time: at most `most`.
int vectors_at_once(const Kernel& k, int width, int most) {
  while (most > 1 && width % (most * k.lanes) != 0) most /= 2;
  return most;
}

/// Scores of a key and of four rows from r on: dot products along the columns. Rows of K are read from end to end, one
/// behind the other, and each load of the text sees them a row apart, as the processor foresees it.
Value dot_products(Part& f, const Value& row, const Value& r) {
  const Kernel& k = f.kernel;
  const Value q = f.at(f.in_scratch(k.q_lanes), "float", f.mul(r, Part::i64(k.d)));
  const int vectors = vectors_at_once(k, k.d, 8);
  const std::vector<Value> zeros(kRows, f.vsplat(0));
  const auto sums =
      f.fold(kZero, Part::i64(k.d), vectors * k.lanes, zeros, [&](const Value& first, std::vector<Value> so_far) {
        for (int n = 0; n < vectors; ++n) {
          const Value c = f.add(first, Part::i64(n * k.lanes));
          const Value columns = load_columns(f, row, c);
          for (int j = 0; j < kRows; ++j) {
            Value& sum = so_far[static_cast<std::size_t>(j)];
            sum = f.fma(columns, f.vload(q, f.add(c, Part::i64(j * k.d))), sum);
          }
        }
        return so_far;
      });
  return sums_of_lanes(f, sums);
}

/// Keys of which four rows' scores fill a vector; divides sub_k.
int keys_at_once(const Kernel& k) { return k.lanes / kRows; }

void few_scores(Part& f, const Value& count, const Value& rows) {
  const Kernel& k = f.kernel;
  f.for_each(kZero, count, 1, [&](const Value& key) {
    const Value row = row_of(f, "keys", key);
    if (!is_packed(k)) {
      // Lanes without a row hold a number as well.
      f.for_each(kZero, rows, k.lanes,
                 [&](const Value& v) { f.vstore(f.vsplat(0), f.pair_at(k.scores, key, v), kZero); });
    }
    f.for_each(kZero, rows, kRows, [&](const Value& r) {
      ask_for_row(f, r, "next_keys", key, k.d);
      f.store(dot_products(f, row, r), pairs_of_key(f, key, r), 16);
    });
  });
}

/// Of each row of a vector the largest score.
void find_top(Part& f, const Value& count, const Value& v) {
  const Kernel& k = f.kernel;
  const auto top = f.fold(kZero, count, 1, {f.splat(kMinusInfinity, k.lanes)},
                          [&](const Value& key, const std::vector<Value>& best) {
                            const Value s = f.vload(f.pair_at(k.scores, key, v), kZero);
                            return std::vector<Value>{f.select(f.fcmp("ogt", best[0], s), best[0], s)};
                          });
  f.vstore(top[0], f.in_scratch(k.top), v);
}

/// Sums of row r from column c on, as they stand while full blocks are summed up: row by row.
Value few_sums(Part& f, const Value& r, const Value& c) {
  return f.at(f.in_scratch(f.kernel.few_sums), "float", f.add(f.mul(r, Part::i64(f.kernel.d_v)), c));
}

/// Some numbers for all lanes: one each for the rows of every key, or for all rows of a key.
Value to_all_lanes(Part& f, const Value& numbers, bool of_keys) {
  const int lanes = f.kernel.lanes;
  if (numbers.type == "float") return f.splat(numbers, lanes);
  std::string order;
  for (int i = 0; i < lanes; ++i) order += fmt::format("{}i32 {}", i == 0 ? "" : ", ", of_keys ? i / kRows : i % kRows);
  return f.emit(f.kernel.vf(), fmt::format("shufflevector {0} {1}, {0} poison, <{2} x i32> <{3}>", numbers.type,
                                           numbers.name, lanes, order));
}

/// Of four rows the largest score.
void find_top_of_four(Part& f, const Value& count, const Value& r) {
  const Kernel& k = f.kernel;
  const auto larger = [&](const Value& a, const Value& b) { return f.select(f.fcmp("ogt", a, b), a, b); };
  const auto top = f.fold(kZero, count, keys_at_once(k), {f.splat(kMinusInfinity, k.lanes)},
                          [&](const Value& key, const std::vector<Value>& best) {
                            return std::vector<Value>{larger(best[0], f.vload(pairs_of_key(f, key, r), kZero))};
                          });
  f.store(of_four_rows(f, top[0], larger), f.at(f.in_scratch(k.top), "float", r), 16);
}

/// The weights of four rows, and their sums.
void weigh_four(Part& f, const Value& count, const Value& r) {
  const Kernel& k = f.kernel;
  const std::string four = "<4 x float>";
  const Value from = to_all_lanes(f, f.load(four, f.at(f.in_scratch(k.top), "float", r), 16), false);
  const std::string of_keys = vector_type(keys_at_once(k), "float");
  const auto total =
      f.fold(kZero, count, keys_at_once(k), {f.vsplat(0)}, [&](const Value& key, const std::vector<Value>& sum) {
        const Value at = pairs_of_key(f, key, r);
        const Value times = f.load(of_keys, f.at(Part::argument("ptr", "weights"), "float", key), 4);
        const Value p = f.fmul(f.exp2(f.fsub(f.vload(at, kZero), from)), to_all_lanes(f, times, true));
        f.vstore(p, at, kZero);
        return std::vector<Value>{f.fadd(sum[0], p)};
      });
  const Value l = f.at(f.in_scratch(k.l), "float", r);
  const Value sums = of_four_rows(f, total[0], [&](const Value& a, const Value& b) { return f.fadd(a, b); });
  f.store(f.fadd(f.load(four, l, 16), sums), l, 16);
}

/// From scores to weights, four rows at a time.
void weigh_packed(Part& f, const Value& count, const Value& rows) {
  const Kernel& k = f.kernel;
  // Lanes without a row hold a number as well.
  f.for_each(kZero, rows, k.lanes, [&](const Value& v) { f.vstore(f.vsplat(0), f.in_scratch(k.top), v); });
  f.for_each(kZero, rows, kRows, [&](const Value& r) { find_top_of_four(f, count, r); });
  f.for_each(kZero, rows, k.lanes, [&](const Value& v) { raise_maxima(f, v); });
  f.for_each(kZero, rows, kRows, [&](const Value& r) { weigh_four(f, count, r); });
}

/// The same, a vector of rows and one key at a time, for what is said of single pairs.
void weigh_by_pairs(Part& f, const Value& count, const Value& rows) {
  const Value groups = list_all_groups(f, count);
  f.for_each(kZero, rows, f.kernel.lanes, [&](const Value& v) {
    keep_all_pairs(f, count, v);
    if (!f.kernel.plan.score) find_top(f, count, v);
    weigh_vector(f, groups, v);
  });
}

/// The weight of a pair for all lanes; where they are not packed, pairs of bf16 stand in the row of every other key.
Value weight_at(Part& f, const Value& key, const Value& row) {
  const Kernel& k = f.kernel;
  if (k.pair == 1 || is_packed(k)) return f.splat(f.load("float", pairs_of_key(f, key, row), 4), k.lanes);
  const Value words = f.load("i32", f.pair_at(k.scores, f.pair_row(key), row), 4);
  const Value to_the_top =
      f.op("shl", f.cast("trunc", f.op("xor", f.bit_and(key, Part::i64(1)), Part::i64(1)), "i32"), Part::i32(4));
  const Value bits = f.bit_and(f.op("shl", words, to_the_top), Part::i32(-0x10000));
  return f.splat(f.cast("bitcast", bits, "float"), k.lanes);
}

/// sums += P V: as much of a row of V as registers hold sums for, with two rows of O.
void few_outputs(Part& f, const Value& count, const Value& rows) {
  const Kernel& k = f.kernel;
  const int chunks = vectors_at_once(k, k.d_v, k.target.vector_registers >= 32 ? 8 : 4);
  f.for_each(kZero, rows, kRowsOfOutput, [&](const Value& r) {
    f.for_each(kZero, Part::i64(k.d_v), chunks * k.lanes, [&](const Value& c) {
      const auto sums_at = [&](int n, int j) {
        return few_sums(f, f.add(r, Part::i64(j)), f.add(c, Part::i64(n * k.lanes)));
      };
      const std::vector<Value> zeros(static_cast<std::size_t>(chunks) * kRowsOfOutput, f.vsplat(0));
      const Value turn = f.bit_or(r, c);
      const auto totals = f.fold(kZero, count, 1, zeros, [&](const Value& key, std::vector<Value> sums) {
        ask_for_row(f, turn, "next_values", key, k.d_v);
        const Value row = row_of(f, "values", key);
        std::vector<Value> p;
        for (int j = 0; j < kRowsOfOutput; ++j) p.push_back(weight_at(f, key, f.add(r, Part::i64(j))));
        auto sum = sums.begin();
        for (int n = 0; n < chunks; ++n) {
          const Value columns = load_columns(f, row, f.add(c, Part::i64(n * k.lanes)));
          for (const Value& weight : p) {
            *sum = f.fma(columns, weight, *sum);
            ++sum;
          }
        }
        return sums;
      });
      auto total = totals.begin();
      for (int n = 0; n < chunks; ++n)
        for (int j = 0; j < kRowsOfOutput; ++j) add_to(f, *total++, sums_at(n, j));
    });
  });
}

/// Body for each row r of four and some columns from c on, of those that have sums.
void each_four_rows(Part& f, const std::function<void(const Value&, const Value&)>& body) {
  f.for_each(kZero, f.tile(kCount), kRows, [&](const Value& r) {
    f.for_each(kZero, Part::i64(f.kernel.d_v), f.kernel.lanes, [&](const Value& c) { body(r, c); });
  });
}

/// @scale_few: a vector of rows measures scores from something else now.
std::string scale_few(const Kernel& k) {
  Part f(k, "scale_few", "void", "i64 %v");
  f.describe("O of few queries times what their maxima moved by");
  f.seldom();
  const Value v = Part::argument("i64", "v");
  f.for_each(v, f.min(f.tile(kCount), f.add(v, Part::i64(k.lanes))), 1, [&](const Value& r) {
    const Value alpha = f.splat(f.load("float", f.at(f.in_scratch(k.alpha), "float", r), 4), k.lanes);
    f.for_each(kZero, Part::i64(k.d_v), k.lanes, [&](const Value& c) {
      const Value at = few_sums(f, r, c);
      f.vstore(f.fmul(f.vload(at, kZero), alpha), at, kZero);
    });
  });
  f.ret();
  return f.finish();
}

/// @clear_few: no sums yet.
std::string clear_few(const Kernel& k) {
  Part f(k, "clear_few");
  f.seldom();
  each_four_rows(f, [&](const Value& r, const Value& c) {
    for (int i = 0; i < kRows; ++i) f.vstore(f.vsplat(0), few_sums(f, f.add(r, Part::i64(i)), c), kZero);
  });
  f.ret();
  return f.finish();
}

/// @end_few: sums of full blocks go where those of other blocks are, column by column.
std::string end_few(const Kernel& k) {
  Part f(k, "end_few");
  each_four_rows(f, [&](const Value& r, const Value& c) {
    std::vector<Value> rows;
    for (int i = 0; i < kRows; ++i) {
      const Value at = few_sums(f, f.add(r, Part::i64(i)), c);
      rows.push_back(f.vload(at, kZero));
      f.vstore(f.vsplat(0), at, kZero);
    }
    std::vector<Value> columns;  // numbers of four rows for one column in each four
    for (const bool upper : {false, true}) {
      const Value ab = interleaved(f, rows[0], rows[1], upper), cd = interleaved(f, rows[2], rows[3], upper);
      for (const bool second : {false, true}) columns.push_back(joined(f, ab, cd, second));
    }
    for (int i = 0; i < k.lanes; ++i) {
      const Value at = f.pair_at(k.acc, f.add(c, Part::i64(i)), r);
      const Value four = four_of(f, columns[static_cast<std::size_t>(i % 4)], i / 4 * 4);
      f.store(f.fadd(f.load(four.type, at, 16), four), at, 16);
    }
  });
  f.ret();
  return f.finish();
}

/// @few_block: a full block where the launch has few queries.
std::string few_block(const Kernel& k) {
  Part f(k, "few_block", "void", kBlockParameters);
  const Value count = Part::argument("i64", "count");
  const Value rows = f.tile(kCount);
  few_scores(f, count, rows);
  is_packed(k) ? weigh_packed(f, count, rows) : weigh_by_pairs(f, count, rows);
  few_outputs(f, count, rows);
  f.ret();
  return f.finish();
}

/// @load_few: Q of the rows as it stands, row by row, times the scores' factor; whole fours of rows.
std::string load_few(const Kernel& k) {
  Part f(k, "load_few");
  const Value factor = f.splat(score_factor(f), k.lanes);
  const Value fours_of_rows = f.bit_and(f.add(f.tile(kCount), Part::i64(kRows - 1)), Part::i64(-kRows));
  f.for_each(kZero, fours_of_rows, 1, [&](const Value& r) {
    const Value from = f.load("ptr", f.at(f.in_scratch(k.q_row), "ptr", r), 8);
    const Value to = f.at(f.in_scratch(k.q_lanes), "float", f.mul(r, Part::i64(k.d)));
    f.for_each(kZero, Part::i64(k.d), k.lanes,
               [&](const Value& c) { f.vstore(f.fmul(load_columns(f, from, c), factor), to, c); });
  });
  f.ret();
  return f.finish();
}

}  // namespace

std::string emit_few(const Kernel& k) {
  const std::string of_pairs = is_packed(k) ? "" : emit_pairs(k) + emit_weigh_vector(k);
  return ";; Few queries\n" + of_pairs + load_few(k) + clear_few(k) + scale_few(k) + few_block(k) + end_few(k);
}

}  // namespace weft::codegen::cpu
