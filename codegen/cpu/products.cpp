#include "codegen/cpu/products.h"

namespace weft::codegen::cpu {
namespace {

const Value kZero = Part::i64(0);

Value load_row(Part& f, const Value& rows, const Value& key) { return f.load("ptr", f.at(rows, "ptr", key), 8); }

}  // namespace

Value key_row(Part& f, const Value& rows, const Value& key) {
  if (f.kernel.keys_in_place) return load_row(f, rows, key);
  return f.at(f.in_scratch(f.kernel.key_wide), "float", f.mul(key, Part::i64(f.kernel.d_words)));
}

Value value_row(Part& f, const Value& key) {
  if (f.kernel.values_in_place) return load_row(f, Part::argument("ptr", "values"), key);
  return f.at(f.in_scratch(f.kernel.value_wide), "float", f.mul(key, Part::i64(f.kernel.v_pad)));
}

Value broadcast(Part& f, const Value& row, const Value& column) {
  return f.splat(f.load("float", f.at(row, "float", column), 4 / f.kernel.pair), f.kernel.lanes);
}

std::vector<Value> vectors_at(Part& f, const Value& base, const Value& row, const Value& v, int vectors) {
  const Value at = f.at(f.at(base, "float", f.mul(row, Part::i64(f.kernel.rows))), "float", v);
  std::vector<Value> out;
  for (int j = 0; j < vectors; ++j) out.push_back(f.vload(at, Part::i64(j * f.kernel.lanes)));
  return out;
}

std::vector<Value> products(Part& f, const Value& begin, const Value& end, int unroll, std::size_t numbers, int vectors,
                            const std::function<Factors(const Value&)>& at,
                            const std::function<void(const Value&)>& each_turn) {
  const std::vector<Value> zeros(numbers * static_cast<std::size_t>(vectors), f.vsplat(0));
  return f.fold(begin, end, unroll, zeros, [&](const Value& first, std::vector<Value> sums) {
    if (each_turn) each_turn(first);
    for (int u = 0; u < unroll; ++u) {
      const Factors factors = at(f.add(first, Part::i64(u)));
      for (std::size_t i = 0; i < numbers; ++i) {
        const Value number = factors.number(i);
        for (std::size_t j = 0; j < factors.vectors.size(); ++j) {
          Value& sum = sums[i * factors.vectors.size() + j];
          sum = f.product(number, factors.vectors[j], sum);
        }
      }
    }
    return sums;
  });
}

void ask_ahead(Part& f, const Value& key, int keys, const Value& c) {
  const Kernel& k = f.kernel;
  constexpr int kLine = 64, kTurns = 4;
  const int per_line = kLine / k.element;
  const Value turn = f.bit_and(f.op("udiv", c, Part::i64(kColumns)), Part::i64(kTurns - 1));
  const Value line = f.bit_and(f.mul(c, Part::i64(k.pair)), Part::i64(-per_line));
  const auto ask = [&](const char* rows, const Value& of, int width) {
    const Value row = load_row(f, Part::argument("ptr", rows), of);
    for (int at = 0; at < width; at += k.d_pad) {
      const Value address = f.at(row, "i8", f.mul(f.add(line, Part::i64(at)), Part::i64(k.element)));
      f.ask_for_line(address, Part::Use::later);
    }
  };
  for (int first = 0; first < keys; first += kTurns) {
    const Value of = f.add(f.add(key, Part::i64(first)), turn);
    ask("next_keys", of, k.d);
    ask("next_values", of, k.d_v);
  }
}

Value holds_wild(Part& f, const Value& rows, int words, const std::function<Value(const Value&)>& row) {
  const Kernel& k = f.kernel;
  // Of f32, or of bf16, which is its upper half. They have the largest magnitudes, as integers.
  const std::string number = k.pair == 2 ? "i16" : "i32";
  const int shift = k.pair == 2 ? 16 : 0;
  const int step = words % k.lanes == 0 ? k.lanes : 8, lanes = step * k.pair;
  const auto splat = [&](std::int64_t v) { return f.splat({number, std::to_string(v >> shift)}, lanes); };
  const std::string type = vector_type(lanes, number);
  const auto largest = f.fold(kZero, rows, 1, {splat(0)}, [&](const Value& at, const std::vector<Value>& so_far) {
    const Value first = row(at);
    return f.fold(kZero, Part::i64(words), step, so_far, [&](const Value& c, const std::vector<Value>& before) {
      const Value magnitude = f.bit_and(f.load(type, f.at(first, "i32", c), 4), splat(0x7FFFFFFF));
      return std::vector<Value>{f.max(before[0], magnitude)};
    });
  });
  const std::string mask = "i" + std::to_string(lanes);
  return f.icmp("ne", f.cast("bitcast", f.icmp("sge", largest[0], splat(0x7F800000)), mask), {mask, "0"});
}

}  // namespace weft::codegen::cpu
