#include "codegen/cpu/kernel.h"
#include "codegen/cpu/products.h"

#include <limits>

namespace weft::codegen::cpu {
namespace {

/// Keys in one turn of a partial block's loops; divides sub_k, and is whole pairs.
constexpr int kPairs = 2;

const Value kZero = Part::i64(0);
const Value kOne = Part::i64(1);
const Value kMinusInfinity{"float", "0xFFF0000000000000"};

/// S of `keys` keys and `vectors` vectors of rows from lane v on: accumulators key by key.
std::vector<Value> score_tile(Part& f, const std::vector<Value>& rows, const Value& v, int vectors,
                              const std::function<void(const Value&)>& each_turn = {}) {
  const Kernel& k = f.kernel;
  const auto at = [&](const Value& column) {
    return Factors{.vectors = vectors_at(f, f.in_scratch(k.q), column, v, vectors),
                   .number = [&f, &rows, column](std::size_t i) { return broadcast(f, rows[i], column); }};
  };
  f.name_loop("column", "s");
  auto scores = products(f, kZero, Part::i64(k.d_words), kColumns, rows.size(), vectors, at, each_turn);
  if (k.pair == 2) {
    const Value factor = f.splat(f.load("float", f.in_scratch(k.score_factor), 4), k.lanes);
    for (Value& score : scores) score = f.fmul(score, factor);
  }
  return scores;
}

/// Weights of two neighbouring keys to pairs of bf16, rounded to nearest, half away from 0: they are not negative. A
/// NaN stays one.
Value paired_weights(Part& f, const Value& even, const Value& odd) {
  const auto splat = [&](std::int64_t v) { return f.splat(Part::i32(v), f.kernel.lanes); };
  const auto rounded = [&](const Value& p) { return f.add(f.cast("bitcast", p, f.kernel.vi()), splat(0x8000)); };
  const Value high = f.bit_and(rounded(odd), splat(-0x10000));
  return f.cast("bitcast", f.bit_or(high, f.op("lshr", rounded(even), splat(16))), f.kernel.vf());
}

/// Puts weights of keys from `key` on, key by key and vector by vector, in the place of their scores. Pairs of keys
/// move up to where every other key stood, which has been read.
void put_weights(Part& f, const Value& key, const Value& v, const std::vector<Value>& weights, int vectors, int pair) {
  const Kernel& k = f.kernel;
  const auto step = static_cast<std::size_t>(vectors);
  const auto turn = static_cast<std::size_t>(pair) * step;
  for (std::size_t u = 0; u < weights.size(); u += turn) {
    const Value at = f.add(key, Part::i64(static_cast<std::int64_t>(u / step)));
    const Value row = f.pair_at(k.scores, pair == 1 ? at : f.pair_row(at), v);
    for (std::size_t j = 0; j < step; ++j) {
      f.vstore(pair == 2 ? paired_weights(f, weights[u + j], weights[u + step + j]) : weights[u + j], row,
               Part::i64(static_cast<std::int64_t>(j) * k.lanes));
    }
  }
}

/// Dropout takes weights key by key, and then they are paired; else they are as soon as they are there.
int pair_of_weights(const Kernel& k) { return k.plan.dropout > 0 ? 1 : k.pair; }

/// Pairs the weights of keys from `key` on, which dropout has left.
void pair_weights(Part& f, const Value& key, const Value& end, const Value& v, int vectors) {
  const Kernel& k = f.kernel;
  f.for_each(key, end, k.pair, [&](const Value& first) {
    std::vector<Value> weights;
    for (int u = 0; u < k.pair; ++u) {
      const Value row = f.pair_at(k.scores, f.add(first, Part::i64(u)), v);
      for (int j = 0; j < vectors; ++j) weights.push_back(f.vload(row, Part::i64(j * k.lanes)));
    }
    put_weights(f, first, v, weights, vectors, k.pair);
  });
}

/// By how much, as an exponent of 2, scores may pass the number that they are measured from before it moves: then sums
/// are scaled in a row's first blocks only.
constexpr double kSlack = 8;

/// From the block's maxima (in `top`) to m, what scores are measured from (a row's maximum, or up to kSlack less), l,
/// and the factor of what was summed before. Returns whether m of any row moved.
Value update_maxima(Part& f, const Value& v) {
  const Kernel& k = f.kernel;
  const Value m_old = f.vload(f.in_scratch(k.m), v);
  const Value top = f.vload(f.in_scratch(k.top), v);
  // A NaN score must reach its row, so the comparison lets it through.
  const Value stays = f.fcmp("ule", top, f.fadd(m_old, f.vsplat(kSlack)));
  const Value m_new = f.select(stays, f.select(f.fcmp("uno", top, top), top, m_old), top);
  const Value none = f.splat(kMinusInfinity, k.lanes);
  const Value safe = f.select(f.fcmp("oeq", m_new, none), f.vsplat(0), m_new);
  const Value alpha = f.exp2(f.fsub(m_old, safe));
  f.vstore(m_new, f.in_scratch(k.m), v);
  f.vstore(safe, f.in_scratch(k.top), v);  // from here on: what scores are measured from
  f.vstore(alpha, f.in_scratch(k.alpha), v);
  f.vstore(f.fmul(f.vload(f.in_scratch(k.l), v), alpha), f.in_scratch(k.l), v);
  return f.any(f.fcmp("une", m_old, m_new));
}

/// acc *= alpha, for the rows from lane v to v + span.
void rescale(Part& f, const Value& v, int vectors) {
  const Kernel& k = f.kernel;
  std::vector<Value> alphas;
  for (int j = 0; j < vectors; ++j) alphas.push_back(f.vload(f.in_scratch(k.alpha), f.add(v, Part::i64(j * k.lanes))));
  f.name_loop("column");
  f.for_each(kZero, Part::i64(k.d_v), 1, [&](const Value& c) {
    const Value row = f.at(f.at(f.in_scratch(k.acc), "float", f.mul(c, Part::i64(k.rows))), "float", v);
    for (int j = 0; j < vectors; ++j) {
      const Value at = Part::i64(j * k.lanes);
      f.vstore(f.fmul(f.vload(row, at), alphas[static_cast<std::size_t>(j)]), row, at);
    }
  });
}

/// Scores of a full block, and each row's largest. Meanwhile the next block's rows are asked for. Behind the last
/// block the addresses are old ones, which does no harm.
void full_scores(Part& f, const Value& keys, const Value& count, const Value& v) {
  const Kernel& k = f.kernel;
  f.comment("S^T = K Q^T of a register tile of keys and rows, and the rows' maxima");
  std::vector<Value> lowest;
  if (!k.plan.score) lowest.assign(static_cast<std::size_t>(k.micro_q), f.splat(kMinusInfinity, k.lanes));
  f.name_loop("key", "top");
  const auto tops = f.fold(kZero, count, k.micro_k, lowest, [&](const Value& key, std::vector<Value> top) {
    std::vector<Value> rows;
    for (int i = 0; i < k.micro_k; ++i) rows.push_back(key_row(f, keys, f.add(key, Part::i64(i))));
    const auto sums = score_tile(f, rows, v, k.micro_q, [&](const Value& c) { ask_ahead(f, key, k.micro_k, c); });
    for (int i = 0; i < k.micro_k; ++i) {
      const Value to =
          f.at(f.at(f.in_scratch(k.scores), "float", f.mul(f.add(key, Part::i64(i)), Part::i64(k.rows))), "float", v);
      for (int j = 0; j < k.micro_q; ++j) {
        const auto at = static_cast<std::size_t>(j);
        const Value& s = sums[static_cast<std::size_t>(i * k.micro_q + j)];
        f.vstore(s, to, Part::i64(j * k.lanes));
        if (!k.plan.score) top[at] = f.select(f.fcmp("ogt", top[at], s), top[at], s);
      }
    }
    return top;
  });
  for (std::size_t j = 0; j < tops.size(); ++j) {
    f.vstore(tops[j], f.in_scratch(k.top), f.add(v, Part::i64(static_cast<std::int64_t>(j) * k.lanes)));
  }
}

/// One of the functions of emit_pairs.cpp on the block.
void on_pairs(Part& f, const char* function, const Value& count, const Value& v) {
  f.call_void(function, {f.a, f.s, Part::argument("ptr", "positions"), count, v});
}

/// The weight of a pair that one branch keeps: 2^(s - m), or s itself.
Value weight_of(Part& f, const Value& s, const Value& from) {
  return f.kernel.direct != 0 ? s : f.exp2(f.fsub(s, from), f.kernel.pair == 2);
}

/// Scores to weights times the key's multiplicity; adds their sum to l, where there is one.
void full_weights(Part& f, const Value& weights, const Value& count, const Value& v) {
  const Kernel& k = f.kernel;
  f.comment("P = 2^(S - what the row is measured from), times the key's multiplicity; l adds it up");
  std::vector<Value> from;
  for (int j = 0; j < k.micro_q; ++j) from.push_back(f.vload(f.in_scratch(k.top), f.add(v, Part::i64(j * k.lanes))));
  const std::vector<Value> zeros(from.size(), f.vsplat(0));
  const int pair = pair_of_weights(k);
  f.name_loop("key", "l");
  const auto totals = f.fold(kZero, count, pair, zeros, [&](const Value& first, std::vector<Value> l) {
    std::vector<Value> p;
    for (int u = 0; u < pair; ++u) {
      const Value key = f.add(first, Part::i64(u));
      const Value weight = broadcast(f, weights, key);
      for (std::size_t j = 0; j < from.size(); ++j) {
        const Value at = Part::i64(static_cast<std::int64_t>(j) * k.lanes);
        const Value s = f.vload(f.pair_at(k.scores, key, v), at);
        const Value of_key = weight_of(f, s, from[j]);
        f.name_next("p");
        p.push_back(f.fmul(of_key, weight));
        l[j] = f.fadd(l[j], p.back());
      }
    }
    put_weights(f, first, v, p, k.micro_q, pair);
    return l;
  });
  for (std::size_t j = 0; j < totals.size(); ++j) {
    const Value at = f.add(v, Part::i64(static_cast<std::int64_t>(j) * k.lanes));
    add_to(f, totals[j], f.at(f.in_scratch(k.l), "float", at));
  }
}

/// acc += V^T P over the block, which is summed up before.
void full_outputs(Part& f, const Value& count, const Value& v) {
  const Kernel& k = f.kernel;
  constexpr int kUnroll = 4;  // keys; divides micro_k
  f.comment("O^T += V^T P");
  const Value ends = f.op("udiv", count, Part::i64(k.pair));
  f.name_loop("column");
  f.for_each(kZero, Part::i64(k.v_pad), k.micro_k, [&](const Value& c) {
    const Value acc = f.at(f.at(f.in_scratch(k.acc), "float", f.mul(c, Part::i64(k.rows))), "float", v);
    const auto factors = [&](const Value& at) {
      const Value row = f.at(value_row(f, at), "float", c);
      return Factors{
          .vectors = vectors_at(f, f.in_scratch(k.scores), at, v, k.micro_q),
          .number = [&f, row](std::size_t i) { return broadcast(f, row, Part::i64(static_cast<std::int64_t>(i))); }};
    };
    f.name_loop("key", "o");
    const auto totals =
        products(f, kZero, ends, kUnroll / k.pair, static_cast<std::size_t>(k.micro_k), k.micro_q, factors);
    for (int i = 0; i < k.micro_k; ++i) {
      for (int j = 0; j < k.micro_q; ++j) {
        const Value at = f.at(acc, "float", Part::i64(i * k.rows + j * k.lanes));
        add_to(f, totals[static_cast<std::size_t>(i * k.micro_q + j)], at);
      }
    }
  });
}

/// What the rows of a register tile measure scores from follows the block's largest; sums are scaled where it moves.
void raise_full(Part& f, const Value& v) {
  const Kernel& k = f.kernel;
  const auto moved = f.fold(v, f.add(v, Part::i64(k.micro_q * k.lanes)), k.lanes, {Part::i1(false)},
                            [&](const Value& at, const std::vector<Value>& any) {
                              return std::vector<Value>{f.bit_or(any[0], update_maxima(f, at))};
                            });
  f.when(moved[0], [&] { rescale(f, v, k.micro_q); });
}

std::string full_block(const Kernel& k) {
  Part f(k, "full_block", "void", kBlockParameters);
  const Value keys = Part::argument("ptr", "keys");
  const Value values = Part::argument("ptr", "values");
  const Value count = Part::argument("i64", "count");
  if (k.takes_copies()) f.call_void("copy_rows", {f.a, f.s, keys, values, count});
  f.name_loop("row");
  f.for_each(kZero, Part::i64(k.rows), k.micro_q * k.lanes, [&](const Value& v) {
    full_scores(f, keys, count, v);
    if (k.plan.score) on_pairs(f, "rewrite", count, v);
    if (k.direct == 0) raise_full(f, v);
    full_weights(f, Part::argument("ptr", "weights"), count, v);
    if (k.plan.dropout > 0) on_pairs(f, "drop", count, v);
    if (k.pair != pair_of_weights(k)) pair_weights(f, kZero, count, v, k.micro_q);
    full_outputs(f, count, v);
  });
  f.ret();
  return f.finish();
}

/// @vector_scores: of listed groups of keys and one vector of rows, and of those that are kept the largest. `ask`: the
/// next block's rows are asked for meanwhile.
std::string vector_scores(const Kernel& k) {
  Part f(k, "vector_scores", "void", "ptr %keys, i64 %groups, i64 %v, ptr %next_keys, ptr %next_values, i1 %ask");
  const Value v = Part::argument("i64", "v");
  const Value none = f.splat(kMinusInfinity, k.lanes);
  f.describe("scores of the listed groups of keys for one vector of rows; of those that are kept the largest");
  f.name_loop("group", "top");
  const auto top =
      f.fold(kZero, Part::argument("i64", "groups"), 1, {none}, [&](const Value& i, std::vector<Value> best) {
        const Value key = f.group_key(i);
        std::vector<Value> rows;
        for (int u = 0; u < k.sub_k; ++u)
          rows.push_back(key_row(f, Part::argument("ptr", "keys"), f.add(key, Part::i64(u))));
        const auto sums = score_tile(f, rows, v, 1, [&](const Value& c) {
          f.when(Part::argument("i1", "ask"), [&] { ask_ahead(f, key, k.sub_k, c); });
        });
        for (int u = 0; u < k.sub_k; ++u) {
          const Value at = f.add(key, Part::i64(u));
          const Value& s = sums[static_cast<std::size_t>(u)];
          f.vstore(s, f.pair_at(k.scores, at, v), kZero);
          if (k.plan.score) continue;
          const Value of_kept = f.select(f.kept(at, v), s, none);
          best[0] = f.select(f.fcmp("ogt", best[0], of_kept), best[0], of_kept);
        }
        return best;
      });
  if (!k.plan.score) f.vstore(top[0], f.in_scratch(k.top), v);
  f.ret();
  return f.finish();
}

void partial_weights(Part& f, const Value& groups, const Value& v) {
  const Kernel& k = f.kernel;
  const Value from = f.vload(f.in_scratch(k.top), v);
  const auto total = f.fold(kZero, groups, 1, {f.vsplat(0)}, [&](const Value& i, const std::vector<Value>& before) {
    const Value key = f.group_key(i);
    return f.fold(key, f.add(key, Part::i64(k.sub_k)), kPairs, before, [&](const Value& first, std::vector<Value> l) {
      std::vector<Value> weights;
      for (int u = 0; u < kPairs; ++u) {
        const Value at = f.add(first, Part::i64(u));
        const Value s = f.vload(f.pair_at(k.scores, at, v), kZero);
        Value p = weight_of(f, s, from);
        if (k.counts) p = f.fmul(p, f.vload(f.pair_at(k.weight, at, v), kZero));
        weights.push_back(f.select(f.kept(at, v), p, f.vsplat(0)));
        l[0] = f.fadd(l[0], weights.back());
      }
      put_weights(f, first, v, weights, 1, pair_of_weights(k));
      return l;
    });
  });
  add_to(f, total[0], f.at(f.in_scratch(k.l), "float", v));
}

/// The share of one key, or of a pair of keys, of some columns of O.
void add_outputs(Part& f, const Value& key, const Value& c, const Value& v, std::vector<Value>& sums) {
  const Value at = f.pair_row(key);
  const Value row = f.at(value_row(f, at), "float", c);
  const Value p = f.vload(f.pair_at(f.kernel.scores, at, v), kZero);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    sums[i] = f.product(broadcast(f, row, Part::i64(static_cast<std::int64_t>(i))), p, sums[i]);
  }
}

/// Number `half` of pairs of bf16, as f32.
Value half_of(Part& f, const Value& pairs, int half) {
  const auto splat = [&](std::int64_t v) { return f.splat(Part::i32(v), f.kernel.lanes); };
  const Value bits = f.cast("bitcast", pairs, f.kernel.vi());
  return f.cast("bitcast", half == 0 ? f.op("shl", bits, splat(16)) : f.bit_and(bits, splat(-0x10000)), f.kernel.vf());
}

/// A pair's NaNs and infinities for the rows that keep their keys, all else for all rows, as without any.
Value add_guarded_pair(Part& f, const Value& value, const Value& p, const std::vector<Value>& kept, Value sum) {
  const auto splat = [&](std::int64_t v) { return f.splat(Part::i32(v), f.kernel.lanes); };
  const Value bits = f.cast("bitcast", value, f.kernel.vi());
  Value finite = bits;
  std::vector<Value> wild;
  for (const std::int64_t exponent : {0x7F80, 0x7F800000}) {
    wild.push_back(f.icmp("eq", f.bit_and(bits, splat(exponent)), splat(exponent)));
    finite = f.select(wild.back(), f.bit_and(finite, splat(exponent == 0x7F80 ? -0x10000 : 0xFFFF)), finite);
  }
  sum = f.product(f.cast("bitcast", finite, f.kernel.vf()), p, sum);
  for (std::size_t u = 0; u < 2; ++u) {
    const int half = static_cast<int>(u);
    const Value added = f.fma(half_of(f, value, half), half_of(f, p, half), sum);
    sum = f.select(f.bit_and(wild[u], kept[u]), added, sum);
  }
  return sum;
}

/// The same, but a NaN or infinity in V must stay with the rows that keep its key, so 0 * V is not added.
void add_guarded_outputs(Part& f, const Value& key, const Value& c, const Value& v, std::vector<Value>& sums) {
  const Kernel& k = f.kernel;
  const Value at = f.pair_row(key);
  const Value row = f.at(value_row(f, at), "float", c);
  const Value p = f.vload(f.pair_at(k.scores, at, v), kZero);
  std::vector<Value> kept;
  for (int u = 0; u < k.pair; ++u) {
    kept.push_back(f.kept(f.add(key, Part::i64(u)), v));
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const Value value = broadcast(f, row, Part::i64(static_cast<std::int64_t>(i)));
    sums[i] = k.pair == 2 ? add_guarded_pair(f, value, p, kept, sums[i])
                          : f.select(kept[0], f.fma(value, p, sums[i]), sums[i]);
  }
}

/// acc += V^T P for one vector of rows, `columns` columns of V at a time. Keys are taken a few at a time: lines of V,
/// which are asked for once for each of their columns, are then still in the first level of caches, even where rows are
/// a power of two apart.
void partial_outputs(Part& f, const Value& groups, const Value& v, int columns, bool guarded) {
  constexpr int kGroups = 4;
  const Kernel& k = f.kernel;
  f.for_each(kZero, groups, kGroups, [&](const Value& first_group) {
    const Value end_group = f.min(groups, f.add(first_group, Part::i64(kGroups)));
    f.for_each(kZero, Part::i64(k.v_pad), columns, [&](const Value& c) {
      const Value acc = f.at(f.at(f.in_scratch(k.acc), "float", f.mul(c, Part::i64(k.rows))), "float", v);
      std::vector<Value> sums;
      for (int i = 0; i < columns; ++i) sums.push_back(f.vload(acc, Part::i64(i * k.rows)));
      const auto totals =
          f.fold(first_group, end_group, 1, sums, [&](const Value& g, const std::vector<Value>& before) {
            const Value key = f.group_key(g);
            return f.fold(key, f.add(key, Part::i64(k.sub_k)), kPairs, before,
                          [&](const Value& first, std::vector<Value> s) {
                            for (int u = 0; u < kPairs; u += k.pair) {
                              const Value at = f.add(first, Part::i64(u));
                              guarded ? add_guarded_outputs(f, at, c, v, s) : add_outputs(f, at, c, v, s);
                            }
                            return s;
                          });
          });
      for (int i = 0; i < columns; ++i) f.vstore(totals[static_cast<std::size_t>(i)], acc, Part::i64(i * k.rows));
    });
  });
}

/// Does a row of V in the block hold a NaN or an infinity?
Value not_finite(Part& f, const Value& count) {
  const Kernel& k = f.kernel;
  return holds_wild(f, f.op("udiv", count, Part::i64(k.pair)), k.v_pad,
                    [&](const Value& key) { return value_row(f, key); });
}

/// Body for the places of a vector of rows: in each column of O, and where that is held meanwhile.
void each_held(Part& f, const Value& v, const std::function<void(const Value&, const Value&)>& body) {
  const Kernel& k = f.kernel;
  f.for_each(kZero, Part::i64(k.v_pad), 1, [&](const Value& c) {
    body(f.at(f.in_scratch(k.acc), "float", f.add(f.mul(c, Part::i64(k.rows)), v)),
         f.at(f.in_scratch(k.held), "float", f.mul(c, Part::i64(k.lanes))));
  });
}

/// @vector_block: from the scores of one vector of rows to its share of O. `whole`: of a full block, which is summed up
/// before it joins what stands for the tile, so that a row has the same bits however many rows stand beside it.
std::string vector_block(const Kernel& k) {
  Part f(k, "vector_block", "void", "ptr %values, i64 %groups, i64 %v, i1 %guarded, i1 %whole, ptr %positions");
  f.describe("a block for one vector of rows behind its scores: weights of the listed groups of keys, then O += P V");
  const Value groups = Part::argument("i64", "groups");
  const Value v = Part::argument("i64", "v");
  const Value whole = Part::argument("i1", "whole");
  weigh_vector(f, groups, v);
  f.when(whole, [&] {
    each_held(f, v, [&](const Value& at, const Value& held) {
      f.vstore(f.vload(at, kZero), held, kZero);
      f.vstore(f.vsplat(0), at, kZero);
    });
  });
  f.when(
      Part::argument("i1", "guarded"), [&] { partial_outputs(f, groups, v, 1, true); },
      [&] { partial_outputs(f, groups, v, 8, false); });
  f.when(whole,
         [&] { each_held(f, v, [&](const Value& at, const Value& held) { add_to(f, f.vload(held, kZero), at); }); });
  f.ret();
  return f.finish();
}

void run_vector(Part& f, const Value& groups, const Value& v, const Value& guarded, bool whole) {
  f.call_void("vector_block", {f.a, f.s, Part::argument("ptr", "values"), groups, v, guarded, Part::i1(whole),
                               Part::argument("ptr", "positions")});
}

std::string partial_block(const Kernel& k) {
  Part f(k, "partial_block", "void", "ptr %keys, ptr %values, i64 %count, ptr %positions");
  const Value keys = Part::argument("ptr", "keys");
  const Value values = Part::argument("ptr", "values");
  const Value count = Part::argument("i64", "count");
  if (k.takes_copies()) f.call_void("copy_rows", {f.a, f.s, keys, values, count});
  const Value guarded = not_finite(f, count);
  f.name_loop("row");
  f.for_each(kZero, Part::i64(k.rows), k.lanes, [&](const Value& v) {
    const Value groups = list_groups(f, v, count);
    f.when(f.icmp("sgt", groups, kZero), [&] {
      f.call_void("vector_scores", {f.a, f.s, keys, groups, v, keys, keys, Part::i1(false)});
      run_vector(f, groups, v, guarded, false);
    });
  });
  f.ret();
  return f.finish();
}

/// @narrow_block: a full block of a tile that has rows for at most half of the vectors, which are taken one by one.
std::string narrow_block(const Kernel& k) {
  Part f(k, "narrow_block", "void", kBlockParameters);
  const Value count = Part::argument("i64", "count");
  if (k.takes_copies())
    f.call_void("copy_rows", {f.a, f.s, Part::argument("ptr", "keys"), Part::argument("ptr", "values"), count});
  const Value groups = list_all_groups(f, count);
  f.name_loop("row");
  f.for_each(kZero, f.tile(kCount), k.lanes, [&](const Value& v) {
    keep_all_pairs(f, count, v);
    f.call_void("vector_scores",
                {f.a, f.s, Part::argument("ptr", "keys"), groups, v, Part::argument("ptr", "next_keys"),
                 Part::argument("ptr", "next_values"), Part::i1(true)});
    run_vector(f, groups, v, Part::i1(false), true);
  });
  f.ret();
  return f.finish();
}

}  // namespace

Value list_groups(Part& f, const Value& v, const Value& count) {
  const Kernel& k = f.kernel;
  return f.fold(kZero, count, k.sub_k, {kZero}, [&](const Value& key, const std::vector<Value>& n) {
    f.store(key, f.at(f.in_scratch(k.groups), "i64", n[0]), 8);
    return std::vector<Value>{f.add(n[0], f.cast("zext", f.kept_of_group(key, v), "i64"))};
  })[0];
}

void add_to(Part& f, const Value& sum, const Value& at) { f.vstore(f.fadd(f.vload(at, kZero), sum), at, kZero); }

Value list_all_groups(Part& f, const Value& count) {
  const Kernel& k = f.kernel;
  const Value groups = f.op("sdiv", count, Part::i64(k.sub_k));
  f.for_each(kZero, groups, 1,
             [&](const Value& i) { f.store(f.mul(i, Part::i64(k.sub_k)), f.at(f.in_scratch(k.groups), "i64", i), 8); });
  return groups;
}

void keep_all_pairs(Part& f, const Value& count, const Value& v) {
  f.for_each(kZero, count, 1, [&](const Value& key) {
    const Value weight = broadcast(f, Part::argument("ptr", "weights"), key);
    f.set_kept(f.fcmp("une", weight, f.vsplat(0)), key, v);
    if (f.kernel.counts) f.vstore(weight, f.pair_at(f.kernel.weight, key, v), kZero);
  });
}

void raise_maxima(Part& f, const Value& v) {
  f.when(update_maxima(f, v), [&] {
    rescale(f, v, 1);
    if (f.kernel.regime == ir::Regime::few_queries) f.call_void("scale_few", {f.a, f.s, v});
  });
}

void weigh_vector(Part& f, const Value& groups, const Value& v) {
  f.call_void("weigh_vector", {f.a, f.s, groups, v, Part::argument("ptr", "positions")});
}

/// `groups` of keys are listed, multiplicities stand pair by pair.
std::string emit_weigh_vector(const Kernel& k) {
  Part f(k, "weigh_vector", "void", "i64 %groups, i64 %v, ptr %positions");
  f.describe("from the scores of one vector of rows to weights; sums are scaled where a maximum moves");
  const Value groups = Part::argument("i64", "groups");
  const Value v = Part::argument("i64", "v");
  if (k.plan.score) on_pairs(f, "rewrite_kept", groups, v);
  if (k.direct == 0) raise_maxima(f, v);
  partial_weights(f, groups, v);
  if (k.plan.dropout > 0) on_pairs(f, "drop_kept", groups, v);
  if (k.pair != pair_of_weights(k)) {
    f.for_each(kZero, groups, 1, [&](const Value& g) {
      const Value key = f.group_key(g);
      pair_weights(f, key, f.add(key, Part::i64(k.sub_k)), v, 1);
    });
  }
  f.ret();
  return f.finish();
}

std::string emit_blocks(const Kernel& k) {
  return ";; Blocks of keys: scores, weights, outputs\n" + full_block(k) + emit_weigh_vector(k) + vector_block(k) +
         vector_scores(k) + partial_block(k) + narrow_block(k);
}

}  // namespace weft::codegen::cpu
