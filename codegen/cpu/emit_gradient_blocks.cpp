#include "codegen/cpu/products.h"

#include <fmt/format.h>

/// The backward pass of a block of keys: five products where the forward has two, over the same walk. P comes from the
/// LSE alone. With P = m exp(s - LSE) and dP = dO V^T
///
///     dS = P (dP - delta),  dV += P^T dO,  dK += dS^T Q,  dQ += dS K
///
/// where delta = rowsum(dO * O) - dLSE, and Q stands with its scale. dQ is summed up in the scratch as O is in the
/// forward, [d][rows]; dK and dV in f32 rows of the keys, whose addresses the walk hands over.
/// Forms and measurements: docs/how-the-cpu-gradients-work.md.
namespace weft::codegen::cpu {
namespace {

const Value kZero = Part::i64(0);
/// Rows, or keys, of one turn of a product; divides micro_k and lanes.
constexpr int kTurn = 4;

Value argument_keys() { return Part::argument("ptr", "keys"); }
Value argument_count() { return Part::argument("i64", "count"); }

// ---------------------------------------------------------------- S and dP of keys, by vectors of rows

/// Puts the products of `keys` keys from `key` on, and `vectors` vectors from lane v on, to their places.
void put_pairs(Part& f, std::int64_t base, const Value& key, int keys, const Value& v, int vectors,
               const std::vector<Value>& sums) {
  for (int i = 0; i < keys; ++i) {
    const Value to = f.pair_at(base, f.add(key, Part::i64(i)), v);
    for (int j = 0; j < vectors; ++j)
      f.vstore(sums[static_cast<std::size_t>(i * vectors + j)], to, Part::i64(j * f.kernel.lanes));
  }
}

/// One of both: rows of K against Q, or rows of V against dO.
struct Side {
  std::int64_t rows;  ///< [columns][rows] in the scratch
  int columns;
  std::int64_t to;
  bool of_values;
};

void multiply(Part& f, const Side& side, const Value& key, int keys, const Value& v, int vectors,
              const std::function<void(const Value&)>& each_turn = {}) {
  std::vector<Value> rows;
  f.comment(side.of_values ? "dP^T = V dO^T of a register tile" : "S^T = K Q^T of a register tile");
  for (int i = 0; i < keys; ++i) {
    const Value at = f.add(key, Part::i64(i));
    rows.push_back(side.of_values ? value_row(f, at) : key_row(f, argument_keys(), at));
  }
  const auto factors = [&](const Value& column) {
    return Factors{.vectors = vectors_at(f, f.in_scratch(side.rows), column, v, vectors),
                   .number = [&f, &rows, column](std::size_t i) { return broadcast(f, rows[i], column); }};
  };
  put_pairs(f, side.to, key, keys, v, vectors,
            products(f, kZero, Part::i64(side.columns), kColumns, static_cast<std::size_t>(keys), vectors, factors,
                     each_turn));
}

Side of_scores(const Kernel& k) { return {.rows = k.q, .columns = k.d_pad, .to = k.scores, .of_values = false}; }
Side of_weights(const Kernel& k) { return {.rows = k.d_o, .columns = k.v_pad, .to = k.d_scores, .of_values = true}; }

void on_pairs(Part& f, const char* function, const Value& count, const Value& v) {
  f.call_void(function, {f.a, f.s, Part::argument("ptr", "weights"), Part::argument("ptr", "positions"), count, v,
                         Part::argument("i64", "only_delta")});
}

// ---------------------------------------------------------------- dV, dK and dQ

/// Rows of a key's dV or dK, and what is summed up for them: numbers of pairs times rows.
struct RowSums {
  std::int64_t pairs, rows;
  int columns, at;  ///< in the key's row of sums
};
RowSums of_d_v(const Kernel& k) {
  return {.pairs = k.scores, .rows = k.d_o_rows, .columns = k.columns_v, .at = k.columns_k};
}
RowSums of_d_k(const Kernel& k) { return {.pairs = k.d_scores, .rows = k.q_rows, .columns = k.columns_k, .at = 0}; }

Value sums_row(Part& f, const Value& key) { return f.load("ptr", f.at(Part::argument("ptr", "sums"), "ptr", key), 8); }

/// A row's bit among those that keep a key; `v` is the first lane of its vector.
Value keeps(Part& f, const Value& key, const Value& v, const Value& r) {
  const std::string word = fmt::format("i{}", 8 * f.kernel.mask_bytes);
  const Value bits = f.load(word, f.kept_at(key, v), 1);
  const Value lane = f.sub(r, v);
  const Value shift = word == "i64" ? lane : f.cast("trunc", lane, word);
  return f.cast("trunc", f.op("lshr", bits, shift), "i1");
}

/// Columns [c, c + vectors x lanes) of `keys` keys from `key` on, over rows from `begin` to `end`. With `guard`, the
/// first lane of their vector, a NaN in a row stays with the keys that it keeps.
void add_rows(Part& f, const RowSums& of, const Value& key, int keys, const Value& c, int vectors, const Value& begin,
              const Value& end, const Value* guard) {
  const Kernel& k = f.kernel;
  const auto row_vectors = [&](const Value& r) {
    const Value row = f.at(f.at(f.in_scratch(of.rows), "float", f.mul(r, Part::i64(of.columns))), "float", c);
    std::vector<Value> out;
    for (int j = 0; j < vectors; ++j) out.push_back(f.vload(row, Part::i64(j * k.lanes)));
    return out;
  };
  const auto key_at = [&](std::size_t i) { return f.add(key, Part::i64(static_cast<std::int64_t>(i))); };
  const auto number = [&](std::size_t i, const Value& r) {
    return f.splat(f.load("float", f.pair_at(of.pairs, key_at(i), r), 4), k.lanes);
  };
  std::vector<Value> sums;
  if (guard == nullptr) {
    sums = products(f, begin, end, kTurn, static_cast<std::size_t>(keys), vectors, [&](const Value& r) {
      return Factors{.vectors = row_vectors(r), .number = [&number, r](std::size_t i) { return number(i, r); }};
    });
  } else {
    const std::vector<Value> zeros(static_cast<std::size_t>(keys * vectors), f.vsplat(0));
    sums = f.fold(begin, end, 1, zeros, [&](const Value& r, std::vector<Value> so_far) {
      const auto rows = row_vectors(r);
      for (std::size_t i = 0; i < static_cast<std::size_t>(keys); ++i) {
        const Value held = f.splat(keeps(f, key_at(i), *guard, r), k.lanes), of_pair = number(i, r);
        for (std::size_t j = 0; j < rows.size(); ++j) {
          Value& sum = so_far[i * rows.size() + j];
          sum = f.select(held, f.fma(of_pair, rows[j], sum), sum);
        }
      }
      return so_far;
    });
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(keys); ++i) {
    const Value to = f.at(f.at(sums_row(f, key_at(i)), "float", Part::i64(of.at)), "float", c);
    for (int j = 0; j < vectors; ++j) {
      const Value at = f.at(to, "float", Part::i64(j * k.lanes));
      add_to(f, sums[i * static_cast<std::size_t>(vectors) + static_cast<std::size_t>(j)], at);
    }
  }
}

/// dV and dK of keys from `first` to `last`, whole register tiles of them. With `guard` one key and one vector at a
/// time: NaN is rare, and selects in register tiles would be a quarter of what there is to compile.
void add_tiles(Part& f, const Value& first, const Value& last, const Value& begin, const Value& end,
               const Value* guard = nullptr) {
  const Kernel& k = f.kernel;
  const int keys = guard == nullptr ? k.micro_k : 1, vectors = guard == nullptr ? k.micro_q : 1;
  f.for_each(first, last, keys, [&](const Value& key) {
    for (const RowSums& of : {of_d_v(k), of_d_k(k)}) {
      f.comment(of.at > 0 ? "dV += P^T dO" : "dK += dS^T Q");
      const int step = vectors * k.lanes, whole = of.columns / step * step;
      if (whole > 0) {
        f.for_each(kZero, Part::i64(whole), step,
                   [&](const Value& c) { add_rows(f, of, key, keys, c, vectors, begin, end, guard); });
      }
      if (whole < of.columns)
        add_rows(f, of, key, keys, Part::i64(whole), (of.columns - whole) / k.lanes, begin, end, guard);
    }
  });
}

/// @add_keys: what both kinds of block add over rows from `begin` to `end`; once, for it is long.
std::string add_keys(const Kernel& k) {
  Part f(k, "add_keys", "void", "ptr %sums, i64 %first, i64 %last, i64 %begin, i64 %end");
  f.describe("what a register tile adds to rows of dK and dV");
  const auto number = [](const char* name) { return Part::argument("i64", name); };
  add_tiles(f, number("first"), number("last"), number("begin"), number("end"));
  f.ret();
  return f.finish();
}

void call_add_keys(Part& f, const Value& first, const Value& last, const Value& begin, const Value& end) {
  f.call_void("add_keys", {f.a, f.s, Part::argument("ptr", "sums"), first, last, begin, end});
}

/// dQ of a full block, which is summed up before it joins what stands for the tile.
void full_rows(Part& f, const Value& v) {
  const Kernel& k = f.kernel;
  f.comment("dQ^T += K^T dS");
  f.for_each(kZero, Part::i64(k.d_pad), k.micro_k, [&](const Value& c) {
    const auto factors = [&](const Value& key) {
      const Value row = f.at(key_row(f, argument_keys(), key), "float", c);
      return Factors{
          .vectors = vectors_at(f, f.in_scratch(k.d_scores), key, v, k.micro_q),
          .number = [&f, row](std::size_t i) { return broadcast(f, row, Part::i64(static_cast<std::int64_t>(i))); }};
    };
    const auto sums =
        products(f, kZero, argument_count(), kTurn, static_cast<std::size_t>(k.micro_k), k.micro_q, factors);
    const Value acc = f.at(f.at(f.in_scratch(k.acc), "float", f.mul(c, Part::i64(k.rows))), "float", v);
    for (int i = 0; i < k.micro_k; ++i) {
      for (int j = 0; j < k.micro_q; ++j)
        add_to(f, sums[static_cast<std::size_t>(i * k.micro_q + j)],
               f.at(acc, "float", Part::i64(i * k.rows + j * k.lanes)));
    }
  });
}

/// dQ of one vector of rows and the listed groups. `is_full`: as of a full block, so that a row has the same bits
/// however many rows stand beside it.
void vector_rows(Part& f, const Value& groups, const Value& v, const Value& is_full, bool guarded) {
  const Kernel& k = f.kernel;
  const int columns = guarded ? 1 : 8;
  f.for_each(kZero, Part::i64(k.d_pad), columns, [&](const Value& c) {
    const Value acc = f.at(f.at(f.in_scratch(k.acc), "float", f.mul(c, Part::i64(k.rows))), "float", v);
    std::vector<Value> before, begun;
    for (int i = 0; i < columns; ++i) {
      before.push_back(f.vload(acc, Part::i64(i * k.rows)));
      begun.push_back(f.select(is_full, f.vsplat(0), before.back()));
    }
    const auto sums = f.fold(kZero, groups, 1, begun, [&](const Value& g, const std::vector<Value>& handed) {
      const Value key = f.group_key(g);
      return f.fold(key, f.add(key, Part::i64(k.sub_k)), 1, handed, [&](const Value& at, std::vector<Value> s) {
        const Value row = f.at(key_row(f, argument_keys(), at), "float", c);
        const Value d_score = f.vload(f.pair_at(k.d_scores, at, v), kZero);
        for (std::size_t i = 0; i < s.size(); ++i) {
          const Value number = broadcast(f, row, Part::i64(static_cast<std::int64_t>(i)));
          const Value sum = f.fma(number, d_score, s[i]);
          s[i] = guarded ? f.select(f.kept(at, v), sum, s[i]) : sum;
        }
        return s;
      });
    });
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const Value at = Part::i64(static_cast<std::int64_t>(i) * k.rows);
      f.vstore(f.select(is_full, f.fadd(before[i], sums[i]), sums[i]), acc, at);
    }
  });
}

// ---------------------------------------------------------------- blocks

constexpr const char* kParameters =
    "ptr %keys, ptr %values, ptr %weights, i64 %count, ptr %next_keys, ptr %next_values, ptr %positions, ptr %sums";

/// Neither dQ nor dK and dV: the walk finds deltas.
Value only_delta() { return Part::argument("i64", "only_delta"); }

/// Asks for rows of the next block's dK and dV, as ask_ahead() does for K and V.
void ask_for_sums(Part& f, const Value& key, int keys, const Value& c) {
  const Kernel& k = f.kernel;
  constexpr int kLine = 16, kTurns = 4;
  const Value turn = f.bit_and(f.op("udiv", c, Part::i64(kColumns)), Part::i64(kTurns - 1));
  const Value line = f.bit_and(c, Part::i64(-kLine));
  for (int first = 0; first < keys; first += kTurns) {
    const Value of = f.add(f.add(key, Part::i64(first)), turn);
    const Value row = f.load("ptr", f.at(Part::argument("ptr", "next_sums"), "ptr", of), 8);
    for (int at = 0; at < k.sum_row; at += std::max(kLine, k.v_pad / kLine * kLine))
      f.ask_for_line(f.at(row, "float", f.add(line, Part::i64(at))), Part::Use::to_write);
  }
}

std::string gradient_block(const Kernel& k) {
  Part f(k, "gradient_block", "void", std::string(kParameters) + ", ptr %next_sums, i64 %only_delta");
  const Value count = argument_count();
  if (k.takes_copies()) f.call_void("copy_rows", {f.a, f.s, argument_keys(), Part::argument("ptr", "values"), count});
  const Value adds = f.icmp("eq", only_delta(), kZero);
  f.for_each(kZero, Part::i64(k.rows), k.micro_q * k.lanes, [&](const Value& v) {
    f.for_each(kZero, count, k.micro_k, [&](const Value& key) {
      multiply(f, of_scores(k), key, k.micro_k, v, k.micro_q, [&](const Value& c) { ask_ahead(f, key, k.micro_k, c); });
    });
    f.for_each(kZero, count, k.micro_k, [&](const Value& key) {
      multiply(f, of_weights(k), key, k.micro_k, v, k.micro_q,
               [&](const Value& c) { ask_for_sums(f, key, k.micro_k, c); });
    });
    f.for_each(v, f.add(v, Part::i64(k.micro_q * k.lanes)), k.lanes,
               [&](const Value& at) { on_pairs(f, "pair_gradients", count, at); });
    f.when(adds, [&] { full_rows(f, v); });
  });
  f.when(adds, [&] {
    const Value end = f.bit_and(f.add(f.tile(kRowsTo), Part::i64(kTurn - 1)), Part::i64(-kTurn));
    call_add_keys(f, kZero, count, kZero, end);
  });
  f.ret();
  return f.finish();
}

/// @gradient_vectors: a block of which rows keep some keys, or a full one of a tile that has rows for at most half of
/// the vectors; vector by vector, groups of keys that none of its rows keeps left out.
std::string gradient_vectors(const Kernel& k) {
  Part f(k, "gradient_vectors", "void", std::string(kParameters) + ", i64 %only_delta, i64 %is_full");
  const Value count = argument_count();
  if (k.takes_copies()) f.call_void("copy_rows", {f.a, f.s, argument_keys(), Part::argument("ptr", "values"), count});
  const Value adds = f.icmp("eq", only_delta(), kZero), is_full = f.icmp("ne", Part::argument("i64", "is_full"), kZero);
  const auto wild = [&](int columns, const std::function<Value(const Value&)>& row) {
    return holds_wild(f, count, columns, row);
  };
  const Value of_keys = f.bit_or(wild(k.d_pad, [&](const Value& key) { return key_row(f, argument_keys(), key); }),
                                 wild(k.v_pad, [&](const Value& key) { return value_row(f, key); }));
  const Value guarded = f.bit_or(of_keys, f.icmp("ne", f.tile(kWildRows), kZero));
  f.for_each(kZero, f.tile(kCount), k.lanes, [&](const Value& v) {
    f.when(is_full, [&] { keep_all_pairs(f, count, v); });
    const Value groups = list_groups(f, v, count);
    f.for_each(kZero, groups, 1, [&](const Value& g) {
      const Value key = f.group_key(g);
      multiply(f, of_scores(k), key, k.sub_k, v, 1);
      multiply(f, of_weights(k), key, k.sub_k, v, 1);
    });
    on_pairs(f, "pair_gradients_kept", groups, v);
    f.when(adds, [&] {
      const Value end = f.add(v, Part::i64(k.lanes));
      const auto add_groups = [&](bool is_guarded) {
        f.for_each(kZero, groups, 1, [&](const Value& g) {
          const Value key = f.group_key(g), last = f.add(key, Part::i64(k.sub_k));
          is_guarded ? add_tiles(f, key, last, v, end, &v) : call_add_keys(f, key, last, v, end);
        });
      };
      f.when(
          guarded,
          [&] {
            vector_rows(f, groups, v, is_full, true);
            add_groups(true);
          },
          [&] {
            vector_rows(f, groups, v, is_full, false);
            add_groups(false);
          });
    });
  });
  f.ret();
  return f.finish();
}

}  // namespace

std::string emit_gradient_blocks(const Kernel& k) {
  return ";; Gradients: blocks of keys, five products\n" + add_keys(k) + gradient_block(k) + gradient_vectors(k);
}

}  // namespace weft::codegen::cpu
