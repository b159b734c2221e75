#pragma once

#include "compiler/ir/pattern_gradients.h"

#include <weft/weft.h>

#include <optional>
#include <string>

/// Gradients as users get them: a forward and a backward kernel of one pattern, through the library.
namespace weft::test {

/// What a loss begins with. Everything holds values that the kernels' type holds exactly.
struct BackwardProblem {
  const ir::Pattern& pattern;
  ir::Shape shape;  ///< a slice of the rows: of dq only these
  ir::DType dtype = ir::DType::f32;
  const ir::Tensor& q;
  const ir::Tensor& k;
  const ir::Tensor& v;
  const ir::InputValues& inputs;
  ir::Tensor d_o;
  std::optional<ir::Tensor> d_lse = {};

  /// The meaning. With `only_lse`, of a dLSE of so much everywhere and no dO.
  Result<ir::Gradients> meant(std::optional<double> only_lse = {}) const;
};

/// dO, and with an odd seed dLSE, drawn by the seed, in the type's own values. `sum` and `mean` have an LSE a branch.
BackwardProblem draw_backward(const ir::Pattern& pattern, const ir::Shape& shape, ir::DType dtype, const ir::Tensor& q,
                              const ir::Tensor& k, const ir::Tensor& v, const ir::InputValues& inputs,
                              std::uint64_t seed);

class BackwardKernel {
 public:
  struct Options {
    int threads = 0;
    std::int64_t row_gap = 0;                ///< numbers between rows of everything with rows, which nobody may touch
    std::int64_t first_row = 0, rows = 0;    ///< the backward of a slice, after the forward of the whole; 0: all
    std::int64_t first_head = 0, heads = 0;  ///< likewise, of the heads
  };
  static Result<BackwardKernel> make(const ir::Pattern& pattern, const ir::Shape& shape, ir::DType dtype,
                                     const std::string& target);
  /// By an engine that may know the kernels already.
  static Result<BackwardKernel> make(const Engine& engine, const ir::Pattern& pattern, const ir::Shape& shape,
                                     ir::DType dtype, const std::string& target);
  /// Outputs hold NaN before; gradients still do where a slice has no rows and heads.
  Result<ir::Gradients> run(const BackwardProblem& problem, const Options& options) const;
  Result<ir::Gradients> run(const BackwardProblem& problem) const { return run(problem, {}); }

 private:
  BackwardKernel(Kernel forward, Kernel backward) : forward_(std::move(forward)), backward_(std::move(backward)) {}
  Kernel forward_, backward_;
};

/// The first gradient that is off by more than section 10 of the semantics allows, in words; empty: none. `worst`
/// grows to the largest error as a share of what is allowed.
std::string difference(const BackwardProblem& problem, const ir::Gradients& found, double* worst = nullptr);
/// The first bit that differs.
std::string difference_of_bits(const ir::Gradients& a, const ir::Gradients& b);

}  // namespace weft::test
