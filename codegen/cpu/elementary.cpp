#include "codegen/cpu/elementary.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <iterator>

namespace weft::codegen::cpu {
namespace {

/// Horner's rule; the first coefficient is that of the highest power.
Value polynomial(Builder& f, const Value& x, std::initializer_list<double> coefficients) {
  Value y = like(f, x, *coefficients.begin());
  for (const double* c = coefficients.begin() + 1; c != coefficients.end(); ++c)
    y = multiply_add(f, y, x, like(f, x, *c));
  return y;
}

Value bits_of(Builder& f, const Value& x) { return f.cast("bitcast", x, with_element(x, "i32")); }
Value from_bits(Builder& f, const Value& x) { return f.cast("bitcast", x, with_element(x, "float")); }

/// Not below and not above; NaN passes through.
Value clamped(Builder& f, const Value& x, double low, double high) {
  const Value lowest = like(f, x, low), highest = like(f, x, high);
  const Value raised = f.select(f.fcmp("olt", x, lowest), lowest, x);
  return f.select(f.fcmp("ogt", raised, highest), highest, raised);
}

/// Adding it rounds to an integer, which then stands in the low bits of the sum. For f32 and f64.
constexpr double kRound = 12582912.0;            // 1.5 * 2^23
constexpr double kRound64 = 6755399441055744.0;  // 1.5 * 2^52
constexpr std::int64_t kRound64Bits = 0x4338000000000000;

/// i64 of magnitude below 2^51 to f64 and back, for targets without such an instruction.
Value to_f64(Builder& f, const Value& x) {
  const Value shifted = f.cast("bitcast", f.add(x, like(f, x, kRound64Bits)), with_element(x, "double"));
  return f.fsub(shifted, like(f, shifted, kRound64));
}
Value to_i64(Builder& f, const Value& x) {
  const Value shifted = f.cast("bitcast", f.fadd(x, like(f, x, kRound64)), with_element(x, "i64"));
  return f.sub(shifted, like(f, shifted, kRound64Bits));
}

std::string intrinsic(const char* name, const Value& x, const char* element) {
  const int lanes = lanes_of(x);
  return lanes == 1 ? fmt::format("llvm.{}.{}", name, element) : fmt::format("llvm.{}.v{}{}", name, lanes, element);
}

}  // namespace

int lanes_of(const Value& v) {
  int lanes = 1;
  if (v.type.front() == '<') std::from_chars(v.type.data() + 1, v.type.data() + v.type.size(), lanes);
  return lanes;
}

std::string with_element(const Value& v, const std::string& element) { return vector_type(lanes_of(v), element); }

Value like(Builder& f, const Value& x, double v) {
  Value one = Builder::f32(v);
  if (x.type.find("double") != std::string::npos) one = Builder::f64(v);
  return lanes_of(x) == 1 ? one : f.splat(one, lanes_of(x));
}

Value like(Builder& f, const Value& x, std::int64_t v) {
  const bool is_short = x.type.find("i32") != std::string::npos;
  const Value one = is_short ? Builder::i32(v) : Builder::i64(v);
  return lanes_of(x) == 1 ? one : f.splat(one, lanes_of(x));
}

Value multiply_add(Builder& f, const Value& x, const Value& y, const Value& z) {
  return f.call(x.type, intrinsic("fmuladd", x, "f32"), {x, y, z});
}

Value negative(Builder& f, const Value& x) { return f.emit(x.type, fmt::format("fneg {} {}", x.type, x.name)); }

Value absolute(Builder& f, const Value& x) {
  const Value bits = bits_of(f, x);
  return from_bits(f, f.bit_and(bits, like(f, bits, std::int64_t{0x7FFFFFFF})));
}

Value floor(Builder& f, const Value& x) {
  // From 2^23 on there are no fractions; before, an i32 holds the integer.
  const Value small = f.fcmp("olt", absolute(f, x), like(f, x, 8388608.0));
  const Value inside = f.select(small, x, like(f, x, 0.0));
  const Value towards_zero = f.cast("sitofp", f.cast("fptosi", inside, with_element(x, "i32")), x.type);
  const Value below = f.fsub(towards_zero, like(f, x, 1.0));
  return f.select(small, f.select(f.fcmp("ogt", towards_zero, inside), below, towards_zero), x);
}

Value smaller(Builder& f, const Value& a, const Value& b) {
  const Value least = f.select(f.fcmp("olt", b, a), b, a);
  return f.select(f.fcmp("uno", a, a), b, least);
}

Value larger(Builder& f, const Value& a, const Value& b) {
  const Value most = f.select(f.fcmp("ogt", b, a), b, a);
  return f.select(f.fcmp("uno", a, a), b, most);
}

Value square_root(Builder& f, const Value& x) { return f.call(x.type, intrinsic("sqrt", x, "f32"), {x}); }

Value exp(Builder& f, const Value& x) {
  // e^x = 2^n e^r, r = x - n ln 2 with ln 2 in two parts, of which n times the first is exact. The power of two is
  // multiplied in twice, so that results may be subnormal or infinite.
  const Value in_range = clamped(f, x, -104, 89);
  const Value shifted = multiply_add(f, in_range, like(f, x, 1.4426950408889634), like(f, x, kRound));
  const Value n = f.fsub(shifted, like(f, x, kRound));
  Value r = multiply_add(f, n, like(f, x, -0.693359375), in_range);
  r = multiply_add(f, n, like(f, x, 2.12194440e-4), r);
  const Value p = polynomial(
      f, r, {1.9875691500E-4, 1.3981999507E-3, 8.3334519073E-3, 4.1665795894E-2, 1.6666665459E-1, 5.0000001201E-1});
  const Value y = f.fadd(multiply_add(f, f.fmul(r, r), p, r), like(f, x, 1.0));
  const Value bits = bits_of(f, shifted);
  const Value power = f.sub(bits, like(f, bits, std::int64_t{0x4B400000}));
  const Value half = f.op("ashr", power, like(f, power, std::int64_t{1}));
  const auto power_of_two = [&](const Value& e) {
    return from_bits(f, f.op("shl", f.add(e, like(f, e, std::int64_t{127})), like(f, e, std::int64_t{23})));
  };
  return f.fmul(f.fmul(y, power_of_two(half)), power_of_two(f.sub(power, half)));
}

Value log(Builder& f, const Value& x) {
  // x = 2^e (1 + g) with 1 + g in [sqrt(1/2), sqrt(2)); subnormal numbers are scaled up before.
  const Value tiny = f.fcmp("olt", x, like(f, x, 0x1p-126));
  const Value normal = f.select(tiny, f.fmul(x, like(f, x, 0x1p23)), x);
  const Value bits = bits_of(f, normal);
  const Value power =
      f.op("ashr", f.sub(bits, like(f, bits, std::int64_t{0x3F3504F3})), like(f, bits, std::int64_t{23}));
  const Value scaled = from_bits(f, f.sub(bits, f.op("shl", power, like(f, bits, std::int64_t{23}))));
  const Value g = f.fsub(scaled, like(f, x, 1.0));
  const Value e = f.fsub(f.cast("sitofp", power, x.type), f.select(tiny, like(f, x, 23.0), like(f, x, 0.0)));
  const Value p = polynomial(f, g,
                             {7.0376836292E-2, -1.1514610310E-1, 1.1676998740E-1, -1.2420140846E-1, 1.4249322787E-1,
                              -1.6668057665E-1, 2.0000714765E-1, -2.4999993993E-1, 3.3333331174E-1});
  const Value g2 = f.fmul(g, g);
  Value y = multiply_add(f, e, like(f, x, -2.12194440e-4), f.fmul(f.fmul(g2, g), p));
  y = multiply_add(f, g2, like(f, x, -0.5), y);
  y = multiply_add(f, e, like(f, x, 0.693359375), f.fadd(g, y));
  const Value infinity = like(f, x, HUGE_VAL);
  y = f.select(f.fcmp("olt", x, infinity), y, x);  // infinity and NaN stay
  y = f.select(f.fcmp("oeq", x, like(f, x, 0.0)), like(f, x, -HUGE_VAL), y);
  return f.select(f.fcmp("olt", x, like(f, x, 0.0)), like(f, x, std::nan("")), y);
}

Value tanh(Builder& f, const Value& x) {
  // x P(x^2) / Q(x^2), minimax on [-9.02, 9.02], beyond which tanh rounds to 1. P(0) = Q(0) = 1, and the quotient is
  // formed first: small x come back to the last bit.
  const Value y = clamped(f, x, -9.02, 9.02);
  const Value z = f.fmul(y, y);
  const Value p = polynomial(
      f, z, {1.3384231790853438e-08, 2.0635778520923802e-05, 0.0034974549910893374, 0.13382685011377074, 1.0});
  const Value q =
      polynomial(f, z, {7.790224558412862e-07, 0.0003288512961347183, 0.02588435072919166, 0.46716006259706544, 1.0});
  return clamped(f, f.fmul(y, f.op("fdiv", p, q)), -1, 1);
}

Value sigmoid(Builder& f, const Value& x) {
  const Value e = exp(f, negative(f, x));
  return f.op("fdiv", like(f, x, 1.0), f.fadd(like(f, x, 1.0), e));
}

Value whole_below(Builder& f, const Value& x) {
  const Value most = like(f, x, 0x1p30), least = like(f, x, -0x1p30);
  Value inside = f.select(f.fcmp("ogt", x, most), most, f.select(f.fcmp("olt", x, least), least, x));
  inside = f.select(f.fcmp("uno", x, x), like(f, x, 0.0), inside);
  const Value whole = f.cast("fptosi", floor(f, inside), with_element(x, "i32"));
  return f.cast("sext", whole, with_element(x, "i64"));
}

Value to_real(Builder& f, const Value& x, bool wide) {
  if (wide || lanes_of(x) == 1) return f.cast("sitofp", x, with_element(x, "float"));
  // Both halves fit in 51 bits; their sum is rounded once to f64.
  const Value high = to_f64(f, f.op("ashr", x, like(f, x, std::int64_t{32})));
  const Value low = to_f64(f, f.bit_and(x, like(f, x, std::int64_t{0xFFFFFFFF})));
  const Value sum = f.fadd(f.fmul(high, like(f, high, 0x1p32)), low);
  return f.cast("fptrunc", sum, with_element(x, "float"));
}

Value alibi(Builder& f, const Value& h, const Value& heads) {
  // The exponent is exact in f64, and so is the power of two P: only 2^r needs a polynomial, Taylor's of 2^r.
  const Value zeros = f.call("i64", "llvm.ctlz.i64", {heads, Builder::i1(false)});
  const Value p = f.op("shl", Builder::i64(1), f.sub(Builder::i64(63), zeros));
  const Value wide = lanes_of(h) == 1 ? p : f.splat(p, lanes_of(h));
  const Value first = f.icmp("slt", h, wide);
  const Value one = like(f, h, std::int64_t{1});
  const Value odd = f.add(f.op("shl", f.sub(h, wide), one), one);
  const std::string doubles = with_element(h, "double");
  const Value steps = f.cast("sitofp", f.select(first, f.add(h, one), odd), doubles);
  const Value of = f.cast("sitofp", f.select(first, wide, f.op("shl", wide, one)), doubles);
  const Value e = f.op("fdiv", f.fmul(steps, like(f, steps, -8.0)), of);
  // Beyond 2^200 an f32 is infinite, below 2^-200 it is 0.
  const Value low = f.select(f.fcmp("olt", e, like(f, e, -200.0)), like(f, e, -200.0), e);
  const Value exponent = f.select(f.fcmp("ogt", low, like(f, e, 200.0)), like(f, e, 200.0), low);
  const Value shifted = f.fadd(exponent, like(f, e, kRound64));
  const Value r = f.fsub(exponent, f.fsub(shifted, like(f, e, kRound64)));
  constexpr double kLn2Powers[] = {1.0178086009239699e-07, 1.3215486790144308e-06,
                                   1.5252733804059841e-05, 1.5403530393381608e-04,
                                   1.3333558146428441e-03, 9.6181291076284772e-03,
                                   5.5504108664821576e-02, 2.4022650695910072e-01,
                                   6.9314718055994529e-01, 1.0};
  Value y = like(f, e, kLn2Powers[0]);
  for (std::size_t i = 1; i < std::size(kLn2Powers); ++i) y = f.fadd(f.fmul(y, r), like(f, e, kLn2Powers[i]));
  const Value bits = f.cast("bitcast", shifted, h.type);
  const Value biased = f.add(f.sub(bits, like(f, bits, kRound64Bits)), like(f, bits, std::int64_t{1023}));
  const Value power = f.cast("bitcast", f.op("shl", biased, like(f, bits, std::int64_t{52})), doubles);
  return f.cast("fptrunc", f.fmul(y, power), with_element(h, "float"));
}

namespace {

/// The number that a literal stands for.
bool literal(const Value& v, std::int64_t& number) {
  const char* end = v.name.data() + v.name.size();
  return std::from_chars(v.name.data(), end, number).ptr == end;
}

struct Division {
  Value floor, rest;
};

/// Of single values, for every pair of them: idiv faults at 0 and at overflow.
Division divide_one(Builder& f, const Value& a, const Value& b) {
  const Value zero = Builder::i64(0);
  const Value by_zero = f.icmp("eq", b, zero);
  const Value by_minus_one = f.icmp("eq", b, Builder::i64(-1));
  const Value divisor = f.select(f.bit_or(by_zero, by_minus_one), Builder::i64(1), b);
  const Value quotient = f.op("sdiv", a, divisor);
  const Value rest = f.sub(a, f.mul(quotient, divisor));
  const Value is_negative = f.icmp("slt", rest, zero);
  const Value signs_differ = f.icmp("slt", f.op("xor", a, divisor), zero);
  const Value down = f.bit_and(f.icmp("ne", rest, zero), signs_differ);
  const Value floored = f.sub(quotient, f.cast("zext", down, "i64"));
  const Value magnitude = f.select(f.icmp("slt", divisor, zero), f.sub(zero, divisor), divisor);
  const Value raised = f.select(is_negative, f.add(rest, magnitude), rest);
  const Value total = f.select(by_minus_one, f.sub(zero, a), f.select(by_zero, zero, floored));
  return {total, f.select(f.bit_or(by_zero, by_minus_one), zero, raised)};
}

/// Of vectors whose numbers are below 2^51 in magnitude: the quotient in f64 is on the right side of every integer,
/// and quotient times divisor is exact.
Division divide_small(Builder& f, const Value& a, const Value& b) {
  const Value zero = like(f, a, std::int64_t{0});
  const Value x = to_f64(f, a), y = to_f64(f, b);
  const Value none = f.fcmp("oeq", y, like(f, y, 0.0));
  const Value divisor = f.select(none, like(f, y, 1.0), y);
  const Value quotient = f.op("fdiv", x, divisor);
  const Value nearest = f.fsub(f.fadd(quotient, like(f, y, kRound64)), like(f, y, kRound64));
  const Value less = f.fsub(nearest, like(f, y, 1.0));
  const Value floored = f.select(f.fcmp("ogt", nearest, quotient), less, nearest);
  const Value rest = f.fsub(x, f.fmul(floored, divisor));
  const Value raised = f.select(f.fcmp("olt", rest, like(f, y, 0.0)), f.fsub(rest, divisor), rest);
  return {f.select(none, zero, to_i64(f, floored)), f.select(none, zero, to_i64(f, raised))};
}

/// @floor_divide, @floor_rest: of vectors; one lane after the other where some number is large.
std::string division_function(int lanes, const char* name, Value Division::*wanted) {
  const std::string type = vector_type(lanes, "i64");
  Builder f(name, type, fmt::format("{0} %a, {0} %b", type), true);
  const Value a = Builder::argument(type, "a"), b = Builder::argument(type, "b");
  const auto is_small = [&](const Value& x) {
    return f.icmp("ult", f.add(x, like(f, x, std::int64_t{1} << 51)), like(f, x, std::int64_t{1} << 52));
  };
  const std::string word = fmt::format("i{}", lanes);
  const Value small = f.cast("bitcast", f.bit_and(is_small(a), is_small(b)), word);
  const Value quick = divide_small(f, a, b).*wanted;
  f.ret_if(f.icmp("eq", small, {word, "-1"}), &quick);
  const auto result = f.fold(Builder::i64(0), Builder::i64(lanes), 1, {a}, [&](const Value& i, std::vector<Value> out) {
    const auto lane = [&](const Value& v) {
      return f.emit("i64", fmt::format("extractelement {} {}, i64 {}", type, v.name, i.name));
    };
    const Value one = divide_one(f, lane(a), lane(b)).*wanted;
    return std::vector<Value>{
        f.emit(type, fmt::format("insertelement {} {}, i64 {}, i64 {}", type, out[0].name, one.name, i.name))};
  });
  f.ret(result[0]);
  return f.finish();
}

bool is_power_of_two(std::int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

Value divide(Builder& f, const Value& a, const Value& b, const char* name, Value Division::*wanted) {
  const int lanes = std::max(lanes_of(a), lanes_of(b));
  if (lanes == 1) return divide_one(f, a, b).*wanted;
  const auto wide = [&](const Value& x) { return lanes_of(x) == 1 ? f.splat(x, lanes) : x; };
  return f.call(vector_type(lanes, "i64"), name, {wide(a), wide(b)});
}

}  // namespace

Value floor_divide(Builder& f, const Value& a, const Value& b) {
  std::int64_t by = 0;
  if (literal(b, by) && is_power_of_two(by)) {
    return f.op("ashr", a, like(f, a, std::int64_t{std::countr_zero(static_cast<std::uint64_t>(by))}));
  }
  return divide(f, a, b, "floor_divide", &Division::floor);
}

Value floor_rest(Builder& f, const Value& a, const Value& b) {
  std::int64_t by = 0;
  if (literal(b, by) && is_power_of_two(by)) return f.bit_and(a, like(f, a, by - 1));
  return divide(f, a, b, "floor_rest", &Division::rest);
}

std::string division_functions(int lanes, std::string_view callers) {
  std::string text;
  if (callers.find("@floor_divide(") != callers.npos)
    text += division_function(lanes, "floor_divide", &Division::floor);
  if (callers.find("@floor_rest(") != callers.npos) text += division_function(lanes, "floor_rest", &Division::rest);
  return text.empty() ? text : "; Integers divided by lanes\n" + text;
}

std::string elementary_declarations(int lanes) {
  return fmt::format(
      "declare float @llvm.fmuladd.f32(float, float, float)\n"
      "declare float @llvm.sqrt.f32(float)\n"
      "declare {0} @llvm.sqrt.v{1}f32({0})\n"
      "declare i64 @llvm.ctlz.i64(i64, i1)\n",
      vector_type(lanes, "float"), lanes);
}

}  // namespace weft::codegen::cpu
