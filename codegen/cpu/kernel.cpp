#include "codegen/cpu/kernel.h"

#include "compiler/ir/derivative.h"
#include "compiler/ir/few_rows.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::codegen::cpu {

namespace {

Kernel::OfPairs condition_of(const ir::Predicate& p) {
  constexpr auto kStationary = ir::Stationary::query;
  Kernel::OfPairs out;
  out.holds = p.holds ? p.holds
                      : ir::apply(ir::Op::logical_and, {ir::apply(ir::Op::less_equal, {p.lo, p.key}),
                                                        ir::apply(ir::Op::less, {p.key, p.hi})});
  out.parts = ir::row_parts(p, kStationary);
  out.on_row = ir::reads_row(p, kStationary) && !ir::reads_key(p, kStationary);
  out.unit = ir::key_unit(p, kStationary);
  out.periodic = ir::periodic_key(p, kStationary);
  const bool of_every_key = out.periodic && out.periodic->unit == 1;
  out.modulus = of_every_key ? out.periodic->modulus : p.modulus;
  return out;
}

}  // namespace

Kernel::Kernel(const ir::Plan& p, const Target& t, ir::Regime r) : Layout{}, plan(p), target(t), regime(r) {
  lanes = p.choices.sub_q;
  rows = p.choices.tile_q;
  keys = p.choices.tile_k;
  d = static_cast<int>(p.bind.d);
  d_v = static_cast<int>(p.bind.d_v);
  d_pad = (d + 7) / 8 * 8;
  v_pad = (d_v + 7) / 8 * 8;
  micro_k = p.choices.micro_k;
  micro_q = p.choices.micro_q;
  sub_k = p.choices.sub_k;
  element = ir::size_of(p.bind.dtype);
  pair = p.choices.products;
  few_queries = p.choices.few_q;
  positions = (p.score && ir::reads(*p.score, ir::Variable::k)) || p.dropout > 0;
  paged = p.bind.paged;
  mask_bytes = std::max(1, lanes / 8);
  dropout = p.dropout > 0;
  direct = p.weights == ir::Weights::direct;
  sink = p.sink_logit != nullptr;
  conditions = static_cast<int>(p.predicates.size());
  gradient = p.bind.gradient;
  sum_columns = gradient ? d : d_v;
  if (gradient) {
    const int step = std::max(lanes, 8);  // rows are put there by eights
    const auto whole_vectors = [step](int columns) { return (columns + step - 1) / step * step; };
    columns_k = whole_vectors(d);
    columns_v = whole_vectors(d_v);
    sum_row = columns_k + columns_v;
    if (p.score) slope = ir::derivative(p.score, ir::variable(ir::Variable::s));
    for (const auto& e : {p.score, p.sink_logit}) {
      if (!e) continue;
      const auto read = ir::real_elements(e);
      for (const auto& by : read) element_slopes.push_back(ir::derivative(e, by));
      of_elements.insert(of_elements.end(), read.begin(), read.end());
      if (e == p.sink_logit) sink_elements = static_cast<int>(read.size());
    }
    elements = static_cast<int>(of_elements.size());
  }
  branches = gradient && p.combine == ir::Combine::joint_detached ? p.branches : 0;
  mask_row = (keys + sub_k) * mask_bytes;
  const int sum_rows = (sum_columns + 7) / 8 * 8;
  d_words = d_pad / pair;
  keys_in_place = (p.bind.dtype == ir::DType::f32 || pair == 2) && d == d_pad;
  values_in_place = p.bind.dtype == ir::DType::f32 && d_v == v_pad;
  many_passes = std::any_of(p.phases.begin(), p.phases.end(), [](const ir::Phase& f) { return f.passes.size() > 1; });
  counts = std::any_of(p.phases.begin(), p.phases.end(), [](const ir::Phase& f) {
    return std::any_of(f.passes.begin(), f.passes.end(), [](const ir::Pass& pass) {
      return pass.weight == ir::Weight::count && pass.branches.size() > 1;
    });
  });
  std::int64_t end = kTileWords * 8;
  const auto take = [&](const char* name, std::int64_t bytes) {
    const std::int64_t at = end;
    if (bytes > 0) names[at] = name;
    end += (bytes + 63) / 64 * 64;
    return at;
  };
  x = take("x", rows * 8);
  bits = take("bits", rows * 8);
  q_row = take("q_row", rows * 8);
  o_row = take("o_row", rows * 8);
  idle_row = take("idle_row", sum_columns * element);
  score_factor = take("score_factor", pair == 2 ? 4 : 0);
  q = take("q", d_words * rows * 4);
  q_lanes = take("q_lanes", few_queries > 0 ? d * rows * 4 : 0);
  few_sums = take("few_sums", few_queries > 0 ? d_v * rows * 4 : 0);
  acc = take("acc", sum_rows * rows * 4);
  m = take("m", rows * 4);
  l = take("l", rows * 4);
  alpha = take("alpha", rows * 4);
  top = take("top", rows * 4);
  settled = take("settled", sum_rows * rows * 4);
  settled_m = take("settled_m", rows * 4);
  settled_l = take("settled_l", rows * 4);
  held = take("held", sum_rows * lanes * 4);
  scores = take("scores", keys * rows * 4);
  kept = take("kept", mask_row * rows / lanes);
  groups = take("groups", keys * 8);
  for (int i = 0; i < 2; ++i) {
    key_at[i] = take("key_at", keys * 8);
    value_at[i] = take("value_at", keys * 8);
    key_weight[i] = take("key_weight", keys * 4);
  }
  key_wide = take("key_wide", keys_in_place ? 0 : keys * d_words * 4);
  value_wide = take("value_wide", keys / pair * v_pad * 4);
  // What only some patterns have comes behind what all have, so that their functions are the same (llvm/parts.h).
  out = take("out", many_passes ? v_pad * rows * 4 : 0);
  weight = take("weight", counts ? keys * rows * 4 : 0);
  for (std::int64_t& at : key_position) at = take("key_position", positions ? keys * 8 : 0);
  round_keys = take("round_keys", p.dropout > 0 ? 20 * 4 : 0);
  random = take("random", p.dropout > 0 ? 4 * lanes * 4 : 0);
  mask = take("mask", p.predicates.empty() ? 0 : lanes * 4);
  const auto of_gradient = [&](const char* name, std::int64_t bytes) { return take(name, gradient ? bytes : 0); };
  d_o_row = of_gradient("d_o_row", rows * 8);
  out_row = of_gradient("out_row", rows * 8);
  zero_row = of_gradient("zero_row", std::max(d, d_v) * element);
  q_rows = of_gradient("q_rows", columns_k * rows * 4);
  d_o_rows = of_gradient("d_o_rows", columns_v * rows * 4);
  d_o = of_gradient("d_o", v_pad * rows * 4);
  row_dot = of_gradient("row_dot", rows * 4);
  delta = of_gradient("delta", rows * 4);
  d_scores = of_gradient("d_scores", keys * rows * 4);
  products = of_gradient("products", p.score ? keys * rows * 4 : 0);
  for (std::int64_t& at : branch_kept) at = take("branch_kept", std::int64_t{branches} * mask_row * rows / lanes);
  branch_dot = take("branch_dot", std::int64_t{branches} * rows * 4);
  branch_total = take("branch_total", std::int64_t{branches} * rows * 4);
  branch_delta = take("branch_delta", std::int64_t{branches} * rows * 4);
  for (std::int64_t& at : key_sums) at = of_gradient("key_sums", keys * 8);
  input_sums = of_gradient("input_sums", elements * static_cast<std::int64_t>(sizeof(ElementSums)));
  lane_values = of_gradient("lane_values", elements > 0 ? lanes * 4 : 0);
  lane_places = of_gradient("lane_places", elements > 0 ? lanes * 8 : 0);
  conditions_at = take("conditions_at", conditions * static_cast<std::int64_t>(sizeof(Condition)));
  for (const auto& predicate : p.predicates) {
    OfPairs c = condition_of(predicate);
    const auto parts = static_cast<std::int64_t>(c.parts.size());
    c.parts_at = take("parts", (parts + 2) * rows * 8);
    c.bounds_at = c.parts_at + parts * rows * 8;
    of_pairs.push_back(std::move(c));
  }
  terms = end;
  term_stride = static_cast<std::int64_t>(sizeof(walk::TermState)) + 2 * rows * 4;
}

namespace {

/// Numbers of the argument block that kernels read.
const char* argument_name(std::size_t offset) {
  switch (offset) {
    case offsetof(weft_args, n_q):
      return "n_q";
    case offsetof(weft_args, n_k):
      return "n_k";
    case offsetof(weft_args, heads):
      return "heads";
    case offsetof(weft_args, scale):
      return "scale";
    case offsetof(weft_args, tables):
      return "tables";
    case offsetof(weft_args, tile_begin):
      return "tile_begin";
    default:
      return "";
  }
}

constexpr const char* kTileWordNames[] = {"b",         "h",       "offset",    "count",       "group",
                                          "rows_from", "rows_to", "states_at", "branches_at", "wild_rows"};

}  // namespace

Value Part::arg(std::size_t byte_offset, const std::string& type) {
  const Value pointer = at(a, "i8", i64(static_cast<std::int64_t>(byte_offset)));
  name_next(argument_name(byte_offset));
  return load(type, pointer, 8);
}

Value Part::in_scratch(std::int64_t byte_offset) {
  if (const auto found = kernel.names.find(byte_offset); found != kernel.names.end()) name_next(found->second);
  return at(s, "i8", i64(byte_offset));
}

Value Part::tile(TileWord w) {
  const Value pointer = at(s, "i64", i64(w));
  name_next(kTileWordNames[w]);
  return load("i64", pointer, 8);
}

Value Part::kept_at(const Value& key, const Value& v) {
  const std::int64_t bytes = kernel.mask_bytes;
  const Value vector = mul(op("sdiv", v, i64(kernel.lanes)), i64(kernel.mask_row));
  return at(at(in_scratch(kernel.kept), "i8", vector), "i8", mul(key, i64(bytes)));
}

Value Part::kept_by_branch_at(const Value& branch, const Value& key, const Value& v) {
  const int vectors = kernel.rows / kernel.lanes;
  const Value row = add(mul(branch, i64(vectors)), op("sdiv", v, i64(kernel.lanes)));
  const Value byte = add(mul(row, i64(kernel.mask_row)), mul(key, i64(kernel.mask_bytes)));
  return at(at(s, "i8", tile(kBranchesAt)), "i8", byte);
}

Value Part::kept(const Value& key, const Value& v) { return mask_at(kept_at(key, v)); }

Value Part::mask_at(const Value& address) {
  const std::string bits = fmt::format("i{}", kernel.lanes);
  const Value stored = load(fmt::format("i{}", 8 * kernel.mask_bytes), address, 1);
  return cast("bitcast", stored.type == bits ? stored : cast("trunc", stored, bits), kernel.vb());
}

Value Part::kept_of_group(const Value& key, const Value& v) {
  const std::string bits = fmt::format("i{}", kernel.sub_k * 8 * kernel.mask_bytes);
  return icmp("ne", load(bits, kept_at(key, v), 1), {bits, "0"});
}

void Part::set_kept(const Value& rows, const Value& key, const Value& v) { set_mask(rows, kept_at(key, v)); }

void Part::set_mask(const Value& rows, const Value& address) {
  const std::string stored = fmt::format("i{}", 8 * kernel.mask_bytes);
  const Value bits = cast("bitcast", rows, fmt::format("i{}", kernel.lanes));
  store(bits.type == stored ? bits : cast("zext", bits, stored), address, 1);
}

void Part::keep_none(const Value& key, const Value& v) {
  // fault(masks_left_where_a_vector_keeps_nothing) leaves this out
  store({fmt::format("i{}", kernel.sub_k * 8 * kernel.mask_bytes), "0"}, kept_at(key, v), 1);
}

Part::Part(const Kernel& k, const std::string& name, const std::string& result, const std::string& more)
    : Builder(name, result, "ptr %a, ptr %s" + (more.empty() ? "" : ", " + more), true), kernel(k) {
  const auto* const at = std::find_if(std::begin(kMicroKernels), std::end(kMicroKernels),
                                      [&](const MicroKernelName& known) { return name == known.name; });
  if (at != std::end(kMicroKernels)) describe(at->what);
}

void Part::each_condition(const Value& term, const std::function<void(Value, Value, Value)>& body) {
  const Value first = table(word(term, walk::kPairAt));
  for_each(i64(0), word(term, walk::kPairCount), 1, [&](const Value& i) {
    const Value use = at(first, "i64", mul(i, i64(walk::kPairWords)));
    const Value number = word(use, walk::kPairNumber);
    body(condition(number), number, icmp("ne", word(use, walk::kPairNegated), i64(0)));
  });
}

Value Part::fma(const Value& x, const Value& y, const Value& z) {
  // fmuladd becomes a fused instruction where there is one and never a library call.
  name_like(z);
  return emit(x.type, fmt::format("call {0} @llvm.fmuladd.v{1}f32({0} {2}, {0} {3}, {0} {4})", x.type, kernel.lanes,
                                  x.name, y.name, z.name));
}

Value Part::product(const Value& x, const Value& y, const Value& sum) {
  if (kernel.pair == 1) return fma(x, y, sum);
  const Value pairs_x = cast("bitcast", x, kernel.vi()), pairs_y = cast("bitcast", y, kernel.vi());
  name_like(sum);
  return emit(sum.type, fmt::format("call {0} @llvm.x86.avx512bf16.dpbf16ps.512({0} {1}, {2} {3}, {2} {4})", sum.type,
                                    sum.name, pairs_x.type, pairs_x.name, pairs_y.name));
}

namespace {

/// One of AVX-512's own instructions on f32, of which lanes outside of `mask` give 0.
Value of_avx512(Part& f, const char* name, const Value& x, const std::string& operand, const Value& mask) {
  return f.emit(x.type,
                fmt::format("call {0} @llvm.x86.avx512.mask.{1}.ps.512({0} {2}, {3}, {0} zeroinitializer, i16 {4}, "
                            "i32 4)",
                            x.type, name, x.name, operand, mask.name));
}

template <std::size_t n>
Value polynomial(Part& f, const double (&from_the_highest)[n], const Value& x) {
  Value y = f.vsplat(from_the_highest[0]);
  for (std::size_t i = 1; i < n; ++i) y = f.fma(y, x, f.vsplat(from_the_highest[i]));
  return y;
}

/// 2^x is 2^n 2^f with n = round(x). Minimax among polynomials with 2^0 = 1 to the last bit, so that a row whose
/// maximum stays is not scaled, and the largest key weighs 1. Degree 5 has a relative error of 9.2e-8, degree 3
/// of 1.1e-4, which is a twentieth of what bf16 rounds by.
Value exp2_of_fraction(Part& f, const Value& x, bool for_bf16) {
  constexpr double kCubic[] = {0.0550090578, 0.242210975, 0.693282898, 1.0};
  constexpr double kQuintic[] = {0.0013264746108522182, 0.009671520395253158, 0.05550733769896179,
                                 0.24022241968493493,   0.6931469775385204,   1.0};
  return for_bf16 ? polynomial(f, kCubic, x) : polynomial(f, kQuintic, x);
}

}  // namespace

Value Part::exp2(const Value& x, bool for_bf16) {
  constexpr double kLeast = -126;
  if (kernel.target.has_scalef()) {
    const Value kept = cast("bitcast", fcmp("uge", x, vsplat(kLeast)), "i16");
    constexpr const char* kToNearest = "i32 8";
    const Value f = of_avx512(*this, "reduce", x, kToNearest, {"i16", "-1"});
    const Value n = fsub(x, f);
    return of_avx512(*this, "scalef", exp2_of_fraction(*this, f, for_bf16), n.type + " " + n.name, kept);
  }
  // Adding 1.5 * 2^23 rounds and leaves n in the low bits, which the shift moves into the exponent.
  const Value tiny = fcmp("olt", x, vsplat(kLeast));
  const Value clamped = select(tiny, vsplat(kLeast), x);
  const Value shifted = fadd(clamped, vsplat(12582912.0));
  const Value f = fsub(clamped, fsub(shifted, vsplat(12582912.0)));
  const Value y = exp2_of_fraction(*this, f, for_bf16);
  const Value exponent = op("shl", cast("bitcast", shifted, kernel.vi()), splat(i32(23), kernel.lanes));
  const Value scaled = cast("bitcast", add(cast("bitcast", y, kernel.vi()), exponent), kernel.vf());
  return select(tiny, vsplat(0), scaled);
}

Value Part::log2(const Value& x) {
  // x = 2^e f with f in [sqrt(1/2), sqrt(2)); log f = 2 atanh(t), t = (f - 1) / (f + 1), |t| < 0.172.
  const auto isplat = [&](std::int64_t v) { return splat(i32(v), kernel.lanes); };
  const Value bits = cast("bitcast", x, kernel.vi());
  const Value e = op("ashr", sub(bits, isplat(0x3F3504F3)), isplat(23));
  const Value f = cast("bitcast", sub(bits, op("shl", e, isplat(23))), kernel.vf());
  const Value t = op("fdiv", fsub(f, vsplat(1)), fadd(f, vsplat(1)));
  const Value t2 = fmul(t, t);
  constexpr double kScale = 2.885390081777926815;  // 2 / ln 2
  Value y = vsplat(kScale / 9);
  for (double n : {7.0, 5.0, 3.0, 1.0}) y = fma(y, t2, vsplat(kScale / n));
  return fma(y, t, cast("sitofp", e, kernel.vf()));
}

Value Part::any(const Value& mask) {
  const std::string word = fmt::format("i{}", kernel.lanes);
  return icmp("ne", cast("bitcast", mask, word), {word, "0"});
}

namespace {
const std::string kF8 = "<8 x float>";
const std::string kI8 = "<8 x i32>";
const std::string kH8 = "<8 x i16>";

/// A mask of the first lanes of eight.
std::string first(int count) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += fmt::format("{}i1 {}", i == 0 ? "<" : ", ", i < count ? "true" : "false");
  return out + ">";
}
Value read8(Part& f, const std::string& type, const Value& address, int count) {
  const int bytes = type == kF8 ? 4 : 2;
  if (count == 8) return f.load(type, address, bytes);
  return f.emit(type, fmt::format("call {0} @llvm.masked.load.{1}.p0(ptr {2}, i32 {3}, <8 x i1> {4}, {0} "
                                  "zeroinitializer)",
                                  type, type == kF8 ? "v8f32" : "v8i16", address.name, bytes, first(count)));
}

}  // namespace

Value Part::load8_halves(const Value& address, int count) { return read8(*this, kH8, address, count); }

Value Part::load8(const Value& address, int count) {
  if (kernel.plan.bind.dtype == ir::DType::f32) return read8(*this, kF8, address, count);
  return widened(load8_halves(address, count), 8);
}

Value Part::widened(const Value& halves, int lanes) {
  const std::string floats = vector_type(lanes, "float"), words = vector_type(lanes, "i32");
  const auto isplat = [&](std::int64_t v) { return splat(i32(v), lanes); };
  if (kernel.plan.bind.dtype == ir::DType::bf16) {
    return cast("bitcast", op("shl", cast("zext", halves, words), isplat(16)), floats);
  }
  if (kernel.target.has_f16c) return cast("fpext", cast("bitcast", halves, vector_type(lanes, "half")), floats);
  // Without F16C: move exponent and mantissa up; a multiplication by 2^112 mends the exponent's bias, subnormal
  // numbers included. Infinity and NaN keep the largest exponent.
  const Value h = cast("zext", halves, words);
  const Value sign = op("shl", bit_and(h, isplat(0x8000)), isplat(16));
  const Value magnitude = op("shl", bit_and(h, isplat(0x7FFF)), isplat(13));
  const Value scaled =
      cast("bitcast", op("fmul", cast("bitcast", magnitude, floats), splat(f32(0x1p112), lanes)), words);
  const Value special = icmp("uge", magnitude, isplat(0x7C00 << 13));
  const Value finite_or_not = select(special, bit_or(magnitude, isplat(0x7F800000)), scaled);
  return cast("bitcast", bit_or(finite_or_not, sign), floats);
}

void Part::store8(const Value& v, const Value& address, int count) {
  const auto isplat = [&](std::int64_t n) { return splat(i32(n), 8); };
  const auto write = [&](const Value& value, int bytes) {
    if (count == 8) return store(value, address, bytes);
    const bool halves = value.type != kF8;
    const Value stored = value.type == "<8 x half>" ? cast("bitcast", value, kH8) : value;
    if (count == 1) {
      // LLVM (19, AVX-512) makes a masked store of one truncated lane a store of the lane as it was before.
      const char* type = halves ? "i16" : "float";
      const Value lane = emit(type, fmt::format("extractelement {} {}, i32 0", stored.type, stored.name));
      return store(lane, address, bytes);
    }
    emit(fmt::format("call void @llvm.masked.store.{}.p0({} {}, ptr {}, i32 {}, <8 x i1> {})",
                     halves ? "v8i16" : "v8f32", stored.type, stored.name, address.name, bytes, first(count)));
  };
  const auto narrow = [&](const Value& bits32) { write(cast("trunc", bits32, kH8), 2); };
  const auto dtype = kernel.plan.bind.dtype;
  if (dtype == ir::DType::f32) return write(v, 4);
  if (dtype == ir::DType::f16 && kernel.target.has_f16c) return write(cast("fptrunc", v, "<8 x half>"), 2);
  const Value bits = cast("bitcast", v, kI8);
  const Value is_nan = fcmp("uno", v, v);
  if (dtype == ir::DType::bf16) {
    // To nearest, ties to even; NaN stays NaN.
    const Value odd = bit_and(op("lshr", bits, isplat(16)), isplat(1));
    const Value rounded = op("lshr", add(add(bits, isplat(0x7FFF)), odd), isplat(16));
    return narrow(select(is_nan, isplat(0x7FC0), rounded));
  }
  const Value sign = bit_and(op("lshr", bits, isplat(16)), isplat(0x8000));
  const Value magnitude = bit_and(bits, isplat(0x7FFFFFFF));
  // Normal halves: rebias, round to nearest even. Below them: adding 0.5 leaves the rounded mantissa.
  const Value odd = bit_and(op("lshr", magnitude, isplat(13)), isplat(1));
  const Value normal = op("lshr", add(add(sub(magnitude, isplat(112 << 23)), isplat(0xFFF)), odd), isplat(13));
  const Value small =
      sub(cast("bitcast", op("fadd", cast("bitcast", magnitude, kF8), splat(f32(0.5), 8)), kI8), isplat(0x3F000000));
  Value half = select(icmp("ult", magnitude, isplat(113 << 23)), small, normal);
  half = select(icmp("uge", magnitude, isplat(0x477FF000)), isplat(0x7C00), half);
  half = select(is_nan, isplat(0x7E00), half);
  narrow(bit_or(half, sign));
}

void Part::each_eight(int width, const std::function<void(const Value&, int)>& body) {
  const int whole = width / 8 * 8;
  if (whole > 0) for_each(i64(0), i64(whole), 8, [&](const Value& c) { body(c, 8); });
  if (whole < width) body(i64(whole), width - whole);
}

void Part::ask_for_line(const Value& address, Use use) {
  const int nearness = use == Use::later ? 2 : 3;  // the second level of caches, or the first
  emit(fmt::format("call void @llvm.prefetch.p0(ptr {}, i32 {}, i32 {}, i32 1)", address.name,
                   use == Use::to_write ? 1 : 0, nearness));
}

void Part::ask_for(const Value& row, int width, Use use) {
  for (int c = 0; c < width * kernel.element; c += 64) ask_for_line(at(row, "i8", i64(c)), use);
}

std::vector<Value> Part::transpose8(const std::vector<Value>& rows) {
  const auto shuffle = [&](const Value& left, const Value& right, const char* lanes) {
    return emit(kF8, fmt::format("shufflevector {0} {1}, {0} {2}, <8 x i32> <{3}>", kF8, left.name, right.name, lanes));
  };
  constexpr const char* kPairsLow = "i32 0, i32 8, i32 1, i32 9, i32 4, i32 12, i32 5, i32 13";
  constexpr const char* kPairsHigh = "i32 2, i32 10, i32 3, i32 11, i32 6, i32 14, i32 7, i32 15";
  constexpr const char* kQuadsLow = "i32 0, i32 1, i32 8, i32 9, i32 4, i32 5, i32 12, i32 13";
  constexpr const char* kQuadsHigh = "i32 2, i32 3, i32 10, i32 11, i32 6, i32 7, i32 14, i32 15";
  constexpr const char* kHalvesLow = "i32 0, i32 1, i32 2, i32 3, i32 8, i32 9, i32 10, i32 11";
  constexpr const char* kHalvesHigh = "i32 4, i32 5, i32 6, i32 7, i32 12, i32 13, i32 14, i32 15";
  std::vector<Value> pairs, quads, out;
  for (std::size_t i = 0; i < 8; i += 2) {
    pairs.push_back(shuffle(rows[i], rows[i + 1], kPairsLow));
    pairs.push_back(shuffle(rows[i], rows[i + 1], kPairsHigh));
  }
  for (std::size_t i : {0U, 1U, 4U, 5U}) {
    quads.push_back(shuffle(pairs[i], pairs[i + 2], kQuadsLow));
    quads.push_back(shuffle(pairs[i], pairs[i + 2], kQuadsHigh));
  }
  for (std::size_t i = 0; i < 4; ++i) out.push_back(shuffle(quads[i], quads[i + 4], kHalvesLow));
  for (std::size_t i = 0; i < 4; ++i) out.push_back(shuffle(quads[i], quads[i + 4], kHalvesHigh));
  return out;
}

}  // namespace weft::codegen::cpu
