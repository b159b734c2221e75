#include "codegen/cpu/kernel.h"

/// Sums over many keys in two levels, so that the rounding of a long row's sums does not grow with the row. A block of
/// keys is summed up before it joins what stands for the tile; after so many blocks that is settled: it joins the sums
/// of all blocks before, and what rounding would take from it stays behind and takes part in the next sum.
namespace weft::codegen::cpu {
namespace {

const Value kZero = Part::i64(0);

/// What settled sums of a vector of rows are multiplied by because scores are measured from something else now.
Value factor_of_settled(Part& f, const Value& v) {
  const Kernel& k = f.kernel;
  const Value m = f.vload(f.in_scratch(k.m), v);
  const Value none = f.splat({"float", "0xFFF0000000000000"}, k.lanes);
  const Value safe = f.select(f.fcmp("oeq", m, none), f.vsplat(0), m);
  return f.exp2(f.fsub(f.vload(f.in_scratch(k.settled_m), v), safe));
}

/// Body for the places of l and of each column of O, or dQ, of a vector of rows: in the tile's sums, and in the settled
/// ones.
void each_sum(Part& f, const Value& v, const std::function<void(const Value&, const Value&)>& body) {
  const Kernel& k = f.kernel;
  const auto places = [&](std::int64_t sums, std::int64_t settled, const Value& at) {
    body(f.at(f.in_scratch(sums), "float", at), f.at(f.in_scratch(settled), "float", at));
  };
  places(k.l, k.settled_l, v);
  f.for_each(kZero, Part::i64(k.sum_columns), 1,
             [&](const Value& c) { places(k.acc, k.settled, f.add(f.mul(c, Part::i64(k.rows)), v)); });
}

void each_vector(Part& f, const std::function<void(const Value&)>& body) {
  f.for_each(kZero, f.tile(kCount), f.kernel.lanes, body);
}

/// @settle: what the tile's sums hold goes to the settled ones, if there are any. The difference to what arrives there
/// stays, but where the sum is NaN or infinite.
std::string settle(const Kernel& k) {
  Part f(k, "settle", "void", "i64 %begun");
  const Value begun = f.icmp("ne", Part::argument("i64", "begun"), kZero);
  each_vector(f, [&](const Value& v) {
    const Value factor = factor_of_settled(f, v);
    each_sum(f, v, [&](const Value& at, const Value& settled_at) {
      const Value sum = f.vload(at, kZero);
      const Value before = f.select(begun, f.fmul(f.vload(settled_at, kZero), factor), f.vsplat(0));
      const Value after = f.fadd(before, sum);
      const Value is_finite = f.fcmp("oeq", f.fsub(after, after), f.vsplat(0));
      f.vstore(f.select(is_finite, f.fsub(sum, f.fsub(after, before)), f.vsplat(0)), at, kZero);
      f.vstore(after, settled_at, kZero);
    });
    f.vstore(f.vload(f.in_scratch(k.m), v), f.in_scratch(k.settled_m), v);
  });
  f.ret();
  return f.finish();
}

/// @collect: the tile's sums are those of all its blocks.
std::string collect(const Kernel& k) {
  Part f(k, "collect");
  f.seldom();
  each_vector(f, [&](const Value& v) {
    const Value factor = factor_of_settled(f, v);
    each_sum(f, v, [&](const Value& at, const Value& settled_at) {
      f.vstore(f.fma(f.vload(settled_at, kZero), factor, f.vload(at, kZero)), at, kZero);
    });
  });
  f.ret();
  return f.finish();
}

}  // namespace

std::string emit_sums(const Kernel& k) { return ";; Sums of long rows\n" + settle(k) + collect(k); }

}  // namespace weft::codegen::cpu
