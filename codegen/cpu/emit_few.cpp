#include "codegen/cpu/kernel.h"
#include "compiler/ir/few_rows.h"

#include <fmt/format.h>

#include <algorithm>

/// Blocks of keys where a launch has few queries, as in decoding: lanes are columns of K and V, which are read where
/// they are, once, whatever their type. Lanes of rows would idle. Scores and weights stand as in other blocks.
namespace weft::codegen::cpu {
namespace {

const Value kZero = Part::i64(0);
constexpr int kRows = ir::kFewRowsOfScores;           // what 128 bits of sums hold
constexpr int kRowsOfOutput = ir::kFewRowsOfOutputs;  // their sums over a row of V fill the registers

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

/// Fours of two vectors: those whose number has `bit` clear or set, a's in front of b's.
Value fours(Part& f, const Value& a, const Value& b, int bit, bool set) {
  const int lanes = f.kernel.lanes, of_each = lanes / 8;
  return shuffled(f, a, b, [&](int group, int i) {
    const int n = group % of_each, low = n % bit, high = n / bit;
    return 4 * (low + (2 * high + set) * bit) + i + group / of_each * lanes;
  });
}

/// The sums over all lanes of as many vectors, in order.
Value sums_of_lanes(Part& f, std::vector<Value> v) {
  for (const auto& mixed : {interleaved, joined}) {
    std::vector<Value> halves;
    for (std::size_t i = 0; i < v.size(); i += 2)
      halves.push_back(f.fadd(mixed(f, v[i], v[i + 1], false), mixed(f, v[i], v[i + 1], true)));
    v = std::move(halves);
  }
  // Each four lanes hold the vectors' shares of one part.
  for (int bit = f.kernel.lanes / 8; bit > 0; bit /= 2) {
    std::vector<Value> halves;
    for (std::size_t i = 0; i < v.size(); i += 2)
      halves.push_back(f.fadd(fours(f, v[i], v[i + 1], bit, false), fours(f, v[i], v[i + 1], bit, true)));
    v = std::move(halves);
  }
  return v[0];
}

/// Four lanes of a vector.
Value four_of(Part& f, const Value& v, int first) {
  return f.emit("<4 x float>",
                fmt::format("shufflevector {0} {1}, {0} poison, <4 x i32> <i32 {2}, i32 {3}, i32 {4}, i32 {5}>", v.type,
                            v.name, first, first + 1, first + 2, first + 3));
}

/// Asks for the line of a row that column c is on.
void ask_for_column(Part& f, const Value& row, const Value& c) {
  f.ask_for_line(f.at(row, "i8", f.mul(c, Part::i64(f.kernel.element))), Part::Use::later);
}

/// Scores of some keys and of four rows from r on: dot products along the columns. Rows of K are read from end to end,
/// one behind the other, as the processor foresees it.
Value dot_products(Part& f, const std::vector<Value>& keys, const std::vector<Value>& ahead, const Value& r) {
  const Kernel& k = f.kernel;
  const Value q = f.at(f.in_scratch(k.q_lanes), "float", f.mul(r, Part::i64(k.d)));
  std::vector<Value> all;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const Value& key = keys[i];
    const std::vector<Value> zeros(kRows, f.vsplat(0));
    const auto sums = f.fold(kZero, Part::i64(k.d), k.lanes, zeros, [&](const Value& c, std::vector<Value> so_far) {
      const Value columns = load_columns(f, key, c);
      ask_for_column(f, ahead[i], c);
      for (int j = 0; j < kRows; ++j) {
        Value& sum = so_far[static_cast<std::size_t>(j)];
        sum = f.fma(columns, f.vload(q, f.add(c, Part::i64(j * k.d))), sum);
      }
      return so_far;
    });
    all.insert(all.end(), sums.begin(), sums.end());
  }
  return sums_of_lanes(f, std::move(all));
}

void few_scores(Part& f, const Value& count, const Value& rows) {
  const Kernel& k = f.kernel;
  const int at_once = k.lanes / kRows;  // keys; divides sub_k
  f.for_each(kZero, count, at_once, [&](const Value& key) {
    std::vector<Value> keys;
    for (int i = 0; i < at_once; ++i) {
      const Value of = f.add(key, Part::i64(i));
      keys.push_back(row_of(f, "keys", of));
      // Lanes without a row hold a number as well.
      f.for_each(kZero, rows, k.lanes,
                 [&](const Value& v) { f.vstore(f.vsplat(0), f.pair_at(k.scores, of, v), kZero); });
    }
    f.for_each(kZero, rows, kRows, [&](const Value& r) {
      std::vector<Value> ahead;
      const Value rows_ahead =
          f.select(f.icmp("eq", r, kZero), Part::argument("ptr", "next_keys"), Part::argument("ptr", "keys"));
      for (int i = 0; i < at_once; ++i)
        ahead.push_back(f.load("ptr", f.at(rows_ahead, "ptr", f.add(key, Part::i64(i))), 8));
      const Value scores = dot_products(f, keys, ahead, r);
      for (int i = 0; i < at_once; ++i)
        f.store(four_of(f, scores, 4 * i), f.pair_at(k.scores, f.add(key, Part::i64(i)), r), 16);
    });
  });
}

/// Of each row of a vector the largest score.
void find_top(Part& f, const Value& count, const Value& v) {
  const Kernel& k = f.kernel;
  const auto top = f.fold(kZero, count, 1, {f.splat({"float", "0xFFF0000000000000"}, k.lanes)},
                          [&](const Value& key, const std::vector<Value>& best) {
                            const Value s = f.vload(f.pair_at(k.scores, key, v), kZero);
                            return std::vector<Value>{f.select(f.fcmp("ogt", best[0], s), best[0], s)};
                          });
  f.vstore(top[0], f.in_scratch(k.top), v);
}

/// The weight of a pair for all lanes; pairs of bf16 stand in the row of every other key.
Value weight_at(Part& f, const Value& key, const Value& row) {
  const Kernel& k = f.kernel;
  if (k.pair == 1) return f.splat(f.load("float", f.pair_at(k.scores, key, row), 4), k.lanes);
  const Value words = f.load("i32", f.pair_at(k.scores, f.pair_row(key), row), 4);
  const Value to_the_top =
      f.op("shl", f.cast("trunc", f.op("xor", f.bit_and(key, Part::i64(1)), Part::i64(1)), "i32"), Part::i32(4));
  const Value bits = f.bit_and(f.op("shl", words, to_the_top), Part::i32(-0x10000));
  return f.splat(f.cast("bitcast", bits, "float"), k.lanes);
}

/// Sums of two rows and some columns from c on, added to those that stand column by column.
void add_to_sums(Part& f, const Value& row, const Value& next, const Value& c, const Value& r) {
  const Kernel& k = f.kernel;
  // Columns 0 1, 2 3 of each four, both rows of each side by side.
  const Value pairs[] = {interleaved(f, row, next, false), interleaved(f, row, next, true)};
  for (int i = 0; i < k.lanes; ++i) {
    const Value& of = pairs[i / 2 % 2];
    const int first = i / 4 * 4 + i % 2 * 2;
    const Value two =
        f.emit("<2 x float>", fmt::format("shufflevector {0} {1}, {0} poison, <2 x i32> <i32 {2}, i32 {3}>", of.type,
                                          of.name, first, first + 1));
    const Value at = f.pair_at(k.acc, f.add(c, Part::i64(i)), r);
    f.store(f.fadd(f.load(two.type, at, 8), two), at, 8);
  }
}

/// acc += V^T P. As much of a row of V as registers hold sums for, with two rows of O.
void few_outputs(Part& f, const Value& count, const Value& rows) {
  const Kernel& k = f.kernel;
  int chunks = k.target.vector_registers >= 32 ? 8 : 4;  // vectors of columns at a time
  while (k.d_v % (chunks * k.lanes) != 0) chunks /= 2;
  f.for_each(kZero, rows, kRowsOfOutput, [&](const Value& r) {
    const Value rows_ahead =
        f.select(f.icmp("eq", r, kZero), Part::argument("ptr", "next_values"), Part::argument("ptr", "values"));
    f.for_each(kZero, Part::i64(k.d_v), chunks * k.lanes, [&](const Value& c) {
      const std::vector<Value> zeros(static_cast<std::size_t>(chunks * kRowsOfOutput), f.vsplat(0));
      const auto totals = f.fold(kZero, count, 1, zeros, [&](const Value& key, std::vector<Value> sums) {
        const Value row = row_of(f, "values", key);
        const Value ahead = f.load("ptr", f.at(rows_ahead, "ptr", key), 8);
        std::vector<Value> p;
        for (int j = 0; j < kRowsOfOutput; ++j) p.push_back(weight_at(f, key, f.add(r, Part::i64(j))));
        for (int n = 0; n < chunks; ++n) {
          const Value columns = load_columns(f, row, f.add(c, Part::i64(n * k.lanes)));
          ask_for_column(f, ahead, f.add(c, Part::i64(n * k.lanes)));
          for (std::size_t j = 0; j < p.size(); ++j) {
            Value& sum = sums[static_cast<std::size_t>(n * kRowsOfOutput) + j];
            sum = f.fma(columns, p[j], sum);
          }
        }
        return sums;
      });
      for (int n = 0; n < chunks; ++n) {
        const auto first = totals.begin() + n * kRowsOfOutput;
        add_to_sums(f, first[0], first[1], f.add(c, Part::i64(n * k.lanes)), r);
      }
    });
  });
}

/// @few_block: a full block where the launch has few queries.
std::string few_block(const Kernel& k) {
  Part f(k, "few_block", "void", block_parameters(k));
  const Value count = Part::argument("i64", "count");
  const Value rows = f.tile(kCount);
  const Value groups = list_all_groups(f, count);
  few_scores(f, count, rows);
  f.for_each(kZero, rows, k.lanes, [&](const Value& v) {
    keep_all_pairs(f, count, v);
    if (!k.plan.score) find_top(f, count, v);
    weigh_vector(f, groups, v);
  });
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

Value is_few(Part& f) { return f.icmp("sle", f.arg(offsetof(weft_args, n_q)), Part::i64(ir::kFewQueries)); }

std::string emit_few(const Kernel& k) {
  if (!k.few) return "";
  return "; Few queries\n" + load_few(k) + few_block(k);
}

}  // namespace weft::codegen::cpu
