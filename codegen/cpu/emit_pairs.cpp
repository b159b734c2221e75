#include "codegen/cpu/pairs.h"
#include "compiler/ir/philox.h"

#include <fmt/format.h>

/// What a pattern says about single pairs: its score expression and its dropout. Both work on a block's scores in the
/// scratch, one vector of rows and one key at a time.
namespace weft::codegen::cpu {
namespace {

using ir::Variable;

const Value kZero = Part::i64(0);
const Value kMinusInfinity{"float", "0xFFF0000000000000"};

Value rows_at(Part& f, const Value& v) {
  const std::string type = vector_type(f.kernel.lanes, "i64");
  return f.load(type, f.at(f.in_scratch(f.kernel.x), "i64", v), 32);
}

/// One pair's score in units of log 2, or its weight.
Value rewritten(Part& f, const Expression& rows, const Value& key, const Value& s) {
  Expression pair = rows;
  if (f.kernel.positions) pair.let(Variable::k, key_position(f, key));
  pair.let(Variable::s, s);
  const Value score = pair.vector(*f.kernel.plan.score);
  return f.kernel.direct != 0 ? score : f.fmul(score, f.vsplat(1.4426950408889634));
}

/// Of a full block, the rows from lane v to the end of their register tile.
void each_vector(Part& f, const std::function<void(const Value&)>& body) {
  const Value v = Part::argument("i64", "v");
  f.for_each(v, f.add(v, Part::i64(f.kernel.micro_q * f.kernel.lanes)), f.kernel.lanes, body);
}

void rewrite_rows(Part& f, bool kept, const Value& v) {
  const Kernel& k = f.kernel;
  const Value none = f.splat(kMinusInfinity, k.lanes);
  const Expression rows = score_of_rows(f, v);
  const std::vector<Value> lowest(k.direct != 0 ? 0 : 1, none);
  const auto top = each_key(f, kept, lowest, [&](const Value& key, std::vector<Value> best) {
    const Value at = f.pair_at(k.scores, key, v);
    Value s = rewritten(f, rows, key, f.vload(at, kZero));
    f.vstore(s, at, kZero);
    if (best.empty()) return best;
    if (kept) s = f.select(f.kept(key, v), s, none);
    return std::vector<Value>{f.select(f.fcmp("ogt", best[0], s), best[0], s)};
  });
  if (!top.empty()) f.vstore(top[0], f.in_scratch(k.top), v);
}

/// @rewrite, @rewrite_kept: scores of a block by the pattern's expression, and each row's largest.
std::string rewrite(const Kernel& k, bool kept) {
  Part f(k, kept ? "rewrite_kept" : "rewrite", "void", "ptr %positions, i64 %count, i64 %v");
  f.describe("scores of pairs as the pattern's expression makes them");
  kept ? rewrite_rows(f, true, Part::argument("i64", "v"))
       : each_vector(f, [&](const Value& v) { rewrite_rows(f, false, v); });
  f.ret();
  return f.finish();
}

// ---------------------------------------------------------------- dropout: semantics section 7

constexpr int kRounds = 10;

/// Both halves of a 32 by 32 bit product.
struct Product {
  Value low, high;
};

Product product(Part& f, const Value& x, std::int64_t by) {
  if (x.type == "i32") {
    const Value wide = f.mul(f.cast("zext", x, "i64"), Part::i64(by));
    return {f.cast("trunc", wide, "i32"), f.cast("trunc", f.op("lshr", wide, Part::i64(32)), "i32")};
  }
  // Even and odd lanes apart: that is how vectors multiply.
  const int lanes = f.kernel.lanes;
  const std::string pairs = vector_type(lanes / 2, "i64");
  const auto splat = [&](std::int64_t v) { return f.splat(Part::i64(v), lanes / 2); };
  const Value both = f.cast("bitcast", x, pairs);
  const auto halves = [&](const Value& of) { return f.cast("bitcast", f.mul(of, splat(by)), f.kernel.vi()); };
  const Value even = halves(f.bit_and(both, splat(0xFFFFFFFF)));
  const Value odd = halves(f.op("lshr", both, splat(32)));
  const auto interleave = [&](int half) {
    std::string lanes_text;
    for (int i = 0; i < lanes; ++i) {
      lanes_text += fmt::format("{}i32 {}", i == 0 ? "" : ", ", i / 2 * 2 + half + (i % 2) * lanes);
    }
    return f.emit(x.type, fmt::format("shufflevector {0} {1}, {0} {2}, <{3} x i32> <{4}>", x.type, even.name, odd.name,
                                      lanes, lanes_text));
  };
  return {interleave(0), interleave(1)};
}

/// Exclusive or of single values and vectors.
Value exclusive_or(Part& f, const Value& a, const Value& b) {
  const auto as = [&](const Value& v, const Value& other) {
    return v.type == "i32" && other.type != "i32" ? f.splat(v, f.kernel.lanes) : v;
  };
  return f.op("xor", as(a, b), as(b, a));
}

/// Philox4x32-10 at (keys / 4, row, head and batch entry, 1), into `random`. What is the same for all rows stays a
/// single value for as long as it is: two rounds.
void draw(Part& f, const Value& four, const Value& v) {
  const Kernel& k = f.kernel;
  const Value head = f.bit_or(f.tile(kH), f.op("shl", f.tile(kB), Part::i64(16)));
  std::vector<Value> c = {f.cast("trunc", four, "i32"), f.cast("trunc", rows_at(f, v), k.vi()),
                          f.cast("trunc", head, "i32"), Part::i32(1)};
  for (int round = 0; round < kRounds; ++round) {
    const auto key = [&](int i) {
      return f.load("i32", f.at(f.in_scratch(k.round_keys), "i32", Part::i64(2 * round + i)), 4);
    };
    const Product p0 = product(f, c[0], 0xD2511F53), p1 = product(f, c[2], 0xCD9E8D57);
    c = {exclusive_or(f, exclusive_or(f, p1.high, c[1]), key(0)), p1.low,
         exclusive_or(f, exclusive_or(f, p0.high, c[3]), key(1)), p0.low};
  }
  for (std::size_t i = 0; i < c.size(); ++i) {
    f.store(c[i], f.at(f.in_scratch(k.random), k.vi(), Part::i64(static_cast<std::int64_t>(i))), 4 * k.lanes);
  }
}

void drop_rows(Part& f, bool kept, const Value& v) {
  const Kernel& k = f.kernel;
  each_key(f, kept, {Part::i64(-1)}, [&](const Value& key, const std::vector<Value>& drawn) {
    const Drawn now = draw_for(f, key, drawn[0], v);
    const Value at = f.pair_at(k.scores, key, v);
    f.vstore(f.select(now.stays, f.vload(at, kZero), f.vsplat(0)), at, kZero);
    return std::vector<Value>{now.four};
  });
}

/// @drop, @drop_kept: weights that dropout takes become 0. The others are scaled with the row, in @finish_pass.
std::string drop(const Kernel& k, bool kept) {
  Part f(k, kept ? "drop_kept" : "drop", "void", "ptr %positions, i64 %count, i64 %v");
  f.describe("takes weights away, or makes them larger, by the pair's random number");
  kept ? drop_rows(f, true, Part::argument("i64", "v"))
       : each_vector(f, [&](const Value& v) { drop_rows(f, false, v); });
  f.ret();
  return f.finish();
}

}  // namespace

Value key_position(Part& f, const Value& key) {
  return f.load("i64", f.at(Part::argument("ptr", "positions"), "i64", key), 8);
}

Expression score_of_rows(Part& f, const Value& v) {
  const ir::Expr& score = *f.kernel.plan.score;
  Expression e = expression_at(f, f.kernel.lanes);
  e.let(Variable::q, rows_at(f, v));
  e.prepare(score);
  if (f.kernel.slope) e.prepare(*f.kernel.slope);
  for (const auto& by_element : f.kernel.element_slopes) e.prepare(*by_element);
  return e;
}

std::vector<Value> each_key(Part& f, bool kept, std::vector<Value> initial, const EachKey& body) {
  const Value count = Part::argument("i64", "count");
  if (!kept) return f.fold(kZero, count, 1, std::move(initial), body);
  return f.fold(kZero, count, 1, std::move(initial), [&](const Value& i, const std::vector<Value>& before) {
    const Value first = f.group_key(i);
    return f.fold(first, f.add(first, Part::i64(f.kernel.sub_k)), 1, before, body);
  });
}

Drawn draw_for(Part& f, const Value& key, const Value& drawn, const Value& v) {
  const Kernel& k = f.kernel;
  const auto threshold = static_cast<std::int32_t>(static_cast<std::uint32_t>(ir::dropout_threshold(k.plan.dropout)));
  const Value y = key_position(f, key);
  const Value four = f.op("ashr", y, Part::i64(2));
  f.when(f.icmp("ne", four, drawn), [&] { draw(f, four, v); });
  const Value word = f.load(k.vi(), f.at(f.in_scratch(k.random), k.vi(), f.bit_and(y, Part::i64(3))), 4 * k.lanes);
  return {.stays = f.icmp("uge", word, f.splat(Part::i32(threshold), k.lanes)), .four = four};
}

std::string emit_pairs(const Kernel& k) {
  const auto both = [&](std::string (*emit)(const Kernel&, bool kept)) {
    const bool full = k.regime == ir::Regime::many_queries;  // a full block's go with @full_block
    return (full ? emit(k, false) : "") + emit(k, true);
  };
  std::string text;
  if (k.plan.score) text += ";; Scores\n" + both(rewrite);
  if (k.plan.dropout > 0) text += ";; Dropout\n" + both(drop);
  return text;
}

}  // namespace weft::codegen::cpu
