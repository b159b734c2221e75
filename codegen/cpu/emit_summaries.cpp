#include "codegen/cpu/expression.h"
#include "codegen/cpu/kernel.h"
#include "compiler/ir/predicates.h"

#include <fmt/format.h>

#include <algorithm>

/// Summaries of conditions (ir::List): how a prepass fills them. What a tile reads from them:
/// runtime/cpu/conditions.cpp.
///
/// `spans`, for each (batch entry, head): the least and the largest key value of each block of keys, two i32 each; then
/// the same for each kSummaryBlock blocks. `meets`, for each row of blocks: a word a block of keys, bit 0 where some
/// pair meets the condition and bit 1 where some fails it.
namespace weft::codegen::cpu {
namespace {

using ir::Variable;

const Value kZero = Part::i64(0);
const Value kOne = Part::i64(1);
constexpr std::int64_t kBlock = ir::kSummaryBlock;
constexpr std::int64_t kLowest = INT32_MIN, kHighest = INT32_MAX;

Value list_word(Part& f, int list, std::size_t member, const char* type = "i64") {
  return f.arg(offsetof(weft_args, lists) + static_cast<std::size_t>(list) * sizeof(weft_list) + member, type);
}

/// First element of the tile's (batch entry, head).
Value list_data(Part& f, int list) {
  const Value of_b = f.mul(f.tile(kB), list_word(f, list, offsetof(weft_list, stride_b)));
  const Value of_h = f.mul(f.tile(kH), list_word(f, list, offsetof(weft_list, stride_h)));
  return f.at(list_word(f, list, offsetof(weft_list, data), "ptr"), "i32", f.add(of_b, of_h));
}

Value clamped(Part& f, const Value& v) { return f.min(f.max(v, Part::i64(kLowest)), Part::i64(kHighest)); }

void store_i32(Part& f, const Value& v, const Value& data, const Value& at) {
  f.store(f.cast("trunc", clamped(f, v), "i32"), f.at(data, "i32", at), 4);
}

Value blocks_of_keys(Part& f) {
  return f.op("sdiv", f.add(f.arg(offsetof(weft_args, n_k)), Part::i64(kBlock - 1)), Part::i64(kBlock));
}

/// Calls body(so far, positions) for the keys of a block, by vectors; those behind the last repeat it.
std::vector<Value> each_key(Part& f, const Value& block, std::vector<Value> initial,
                            const std::function<std::vector<Value>(const std::vector<Value>&, const Value&)>& body) {
  const int lanes = f.kernel.lanes;
  const Value first = f.mul(block, Part::i64(kBlock));
  const Value last = f.splat(f.sub(f.arg(offsetof(weft_args, n_k)), kOne), lanes);
  std::string text = "<";
  for (int i = 0; i < lanes; ++i) text += fmt::format("{}i64 {}", i > 0 ? ", " : "", i);
  const Value steps{vector_type(lanes, "i64"), text + ">"};
  return f.fold(first, f.add(first, Part::i64(kBlock)), lanes, std::move(initial),
                [&](const Value& y, const std::vector<Value>& so_far) {
                  return body(so_far, f.min(f.add(f.splat(y, lanes), steps), last));
                });
}

Value across(Part& f, const char* how, const Value& vector) {
  const int lanes = f.kernel.lanes;
  return f.call("i64", fmt::format("llvm.vector.reduce.{}.v{}i64", how, lanes), {vector});
}

/// One unit: kSummaryBlock blocks of keys, and what they come to together.
void fill_spans(Part& f, int list, const Value& unit) {
  const Kernel& k = f.kernel;
  const ir::Expr& key =
      *k.plan.predicates[static_cast<std::size_t>(k.plan.lists[static_cast<std::size_t>(list)].predicate)].key;
  const Value data = list_data(f, list), blocks = blocks_of_keys(f);
  const Value first = f.mul(unit, Part::i64(kBlock));
  const auto store = [&](const Value& at, const std::vector<Value>& span) {
    store_i32(f, span[0], data, f.mul(at, Part::i64(2)));
    store_i32(f, span[1], data, f.add(f.mul(at, Part::i64(2)), kOne));
  };
  const std::vector<Value> none = {Part::i64(INT64_MAX), Part::i64(INT64_MIN)};
  const auto all = f.fold(
      first, f.min(f.add(first, Part::i64(kBlock)), blocks), 1, none,
      [&](const Value& block, const std::vector<Value>& so_far) {
        const auto lanes_of_block = each_key(f, block, {f.splat(none[0], k.lanes), f.splat(none[1], k.lanes)},
                                             [&](const std::vector<Value>& seen, const Value& keys) {
                                               Expression e = expression_at(f, k.lanes);
                                               e.let(Variable::k, keys);
                                               const Value v = e.vector(key);
                                               return std::vector<Value>{f.min(seen[0], v), f.max(seen[1], v)};
                                             });
        const std::vector<Value> span = {across(f, "smin", lanes_of_block[0]), across(f, "smax", lanes_of_block[1])};
        store(block, span);
        return std::vector<Value>{f.min(so_far[0], span[0]), f.max(so_far[1], span[1])};
      });
  store(f.add(blocks, unit), all);
}

/// Bits of one block of queries [q, end) and one of keys.
Value pairs_of_block(Part& f, const ir::Expr& holds, const Value& first_q, const Value& end_q, const Value& block) {
  const Kernel& k = f.kernel;
  const Value words = f.splat(kZero, k.lanes);
  const Value q = f.slot(first_q), bits = f.slot(kZero);
  f.repeat_while([&] { return f.bit_and(f.icmp("slt", f.get(q), end_q), f.icmp("ne", f.get(bits), Part::i64(3))); },
                 [&] {
                   Expression row = expression_at(f, k.lanes);
                   row.let(Variable::q, f.get(q));
                   row.prepare(holds);
                   const auto seen =
                       each_key(f, block, {words, words}, [&](const std::vector<Value>& so_far, const Value& keys) {
                         Expression e = row;
                         e.let(Variable::k, keys);
                         const Value meets = f.cast("zext", e.vector(holds), words.type);
                         return std::vector<Value>{f.bit_or(so_far[0], meets),
                                                   f.bit_or(so_far[1], f.op("xor", meets, f.splat(kOne, k.lanes)))};
                       });
                   const Value some = across(f, "or", seen[0]), fails = f.op("shl", across(f, "or", seen[1]), kOne);
                   f.set(bits, f.bit_or(f.get(bits), f.bit_or(some, fails)));
                   f.set(q, f.add(f.get(q), kOne));
                 });
  return f.get(bits);
}

/// One unit: a row of blocks.
void fill_meets(Part& f, int list, const Value& unit) {
  const Kernel& k = f.kernel;
  const auto predicate = static_cast<std::size_t>(k.plan.lists[static_cast<std::size_t>(list)].predicate);
  const Value row = f.add(unit, f.arg(offsetof(weft_args, tile_begin)));
  const Value data = f.at(list_data(f, list), "i32", f.mul(row, list_word(f, list, offsetof(weft_list, stride_row))));
  const Value from = f.max(f.mul(row, Part::i64(kBlock)), f.tile(kOffset));
  const Value end =
      f.min(f.mul(f.add(row, kOne), Part::i64(kBlock)), f.add(f.tile(kOffset), f.arg(offsetof(weft_args, n_q))));
  f.for_each(kZero, blocks_of_keys(f), 1, [&](const Value& block) {
    store_i32(f, pairs_of_block(f, *k.plan.predicates[predicate].holds, from, end, block), data, block);
  });
}

}  // namespace

std::string emit_summaries(const Kernel& k) {
  const auto& lists = k.plan.lists;
  if (std::none_of(lists.begin(), lists.end(), [](const ir::List& l) { return l.summarizes(); })) return {};
  std::string text = ";; Summaries of conditions\n";
  for (const char* how : {"smin", "smax", "or"}) {
    text += fmt::format("declare i64 @llvm.vector.reduce.{}.v{}i64({})\n", how, k.lanes, vector_type(k.lanes, "i64"));
  }
  Part f(k, "summarize", "void", "i64 %list, i64 %unit");
  const Value unit = Part::argument("i64", "unit");
  for (std::size_t i = 0; i < lists.size(); ++i) {
    if (!lists[i].summarizes()) continue;
    f.when(f.icmp("eq", Part::argument("i64", "list"), Part::i64(static_cast<std::int64_t>(i))), [&] {
      lists[i].kind == ir::List::Kind::spans ? fill_spans(f, static_cast<int>(i), unit)
                                             : fill_meets(f, static_cast<int>(i), unit);
    });
  }
  f.ret();
  return text + f.finish();
}

}  // namespace weft::codegen::cpu
