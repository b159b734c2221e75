#pragma once

#include "codegen/cpu/builder.h"

#include <string>

/// Arithmetic that no instruction does, spelled for single values and for vectors alike: the type of the operand
/// says which. Nothing here calls a library, so objects keep no undefined symbols. Errors are in units of the last
/// place (ulp), over all of f32 with infinities and subnormal numbers; NaN gives NaN.
namespace weft::codegen::cpu {

/// Lanes of a type: 1 for single values.
int lanes_of(const Value& v);
/// A type of the same lanes.
std::string with_element(const Value& v, const std::string& element);
/// The number `v` in the type of `x`, which is f32, f64, i32 or i64.
Value like(Builder& f, const Value& x, double v);
Value like(Builder& f, const Value& x, std::int64_t v);

/// x y + z, rounded once where the target has such an instruction.
Value multiply_add(Builder& f, const Value& x, const Value& y, const Value& z);

Value negative(Builder& f, const Value& x);
Value absolute(Builder& f, const Value& x);
Value floor(Builder& f, const Value& x);
/// The smaller, the larger; of a number and a NaN the number.
Value smaller(Builder& f, const Value& a, const Value& b);
Value larger(Builder& f, const Value& a, const Value& b);
Value square_root(Builder& f, const Value& x);
Value exp(Builder& f, const Value& x);      ///< 1 ulp
Value log(Builder& f, const Value& x);      ///< 2 ulp
Value tanh(Builder& f, const Value& x);     ///< 6 ulp, 2 for |x| < 0.001; never beyond 1
Value sigmoid(Builder& f, const Value& x);  ///< 3 ulp down to e^-88, 0 below

/// i64 to f32, rounded to nearest; `wide`: the target converts vectors of i64.
Value to_real(Builder& f, const Value& x, bool wide);
/// i64; see weft::whole_below().
Value whole_below(Builder& f, const Value& x);
/// The slope of head h of `heads`, semantics section 5; both i64.
Value alibi(Builder& f, const Value& h, const Value& heads);

/// Floor of a / b, and the rest that is never negative. 0 where b is 0; overflow wraps.
Value floor_divide(Builder& f, const Value& a, const Value& b);
Value floor_rest(Builder& f, const Value& a, const Value& b);

/// Declarations of the intrinsics that the functions above use for single values and vectors of `lanes`, but for
/// multiply_add of f32 vectors, which every kernel declares; and the functions that divide vectors, those that
/// `callers` call.
std::string elementary_declarations(int lanes);
std::string division_functions(int lanes, std::string_view callers);

}  // namespace weft::codegen::cpu
