#pragma once

#include "compiler/base/text_writer.h"
#include "compiler/ir/expr.h"
#include "compiler/ir/pattern.h"

#include <string>
#include <string_view>
#include <vector>

/// `ir::Expr` → CUDA C++ over what device code knows of a pair: `a` (weft_args), `t` (Tile), `s`, `q`, `k`; helpers
/// are those of codegen/cuda/device/expressions.cuh.
///
/// Integers are `int` where intervals show that nothing overflows, else 64 bits; reals are f32. Everything is
/// evaluated, also what a `select` does not take: no operation traps, and indices are clamped before they are used.
/// The text grows with the number of different nodes: what is used twice, or would make a line long, gets a name.
namespace weft::codegen::cuda {

/// `head { … return …; }`, behind the expression as a comment. `inputs` are the pattern's, by number; their names are
/// not written.
void write_function(TextWriter& w, std::string_view head, const ir::Expr& e, const std::vector<ir::Input>& inputs);

/// Where the element of an input that `e` is stands in the table of its gradient (weft_args::input_sums).
void write_place(TextWriter& w, std::string_view head, const ir::Expr& e, const std::vector<ir::Input>& inputs);

/// The nearest number that f32 holds.
std::string real_literal(double value);

/// About how many instructions one evaluation takes, and so how often its text may stand in a kernel.
int cost_of(const ir::Expr& e, const std::vector<ir::Input>& inputs);

}  // namespace weft::codegen::cuda
