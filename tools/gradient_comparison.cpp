#include "tools/gradient_comparison.h"

#include "runtime/engine/chosen_lists.h"
#include "runtime/engine/front.h"
#include "runtime/engine/launch_checks.h"
#include "runtime/engine/reference.h"
#include "tools/comparison.h"
#include "tools/progress.h"

#include <algorithm>

namespace weft::tools {

namespace {

class GradientCheck {
 public:
  GradientCheck(const ir::Pattern& pattern, const Launch& launch, const RunArgs& args,
                const std::optional<std::vector<std::int64_t>>& rows)
      : pattern_(pattern),
        launch_(launch),
        args_(args),
        rows_(rows ? &*rows : nullptr),
        chosen_(read_lists(pattern, launch)),
        reference_(pattern, launch, args) {}

  Result<std::vector<GradientError>> run(const ir::Bounds& bounds) {
    WEFT_TRY(const auto meant, reference_.gradients(to_f64(args_.d_out), {}, &chosen_, rows_));
    std::vector<GradientError> out;
    const auto compare = [&](std::string name, const OutputView& found, const ir::Tensor& right) {
      if (found.data == nullptr) return;
      const auto got = values_of(found);
      double most = 0;
      for (std::size_t i = 0; i < got.data.size(); ++i) most = std::max(most, distance(got.data[i], right.data[i]));
      out.push_back({.tensor = std::move(name), .max_error = most, .bound = bounds.gradient * largest(right)});
    };
    for_each(meant, compare);
    const bool ok = std::all_of(out.begin(), out.end(), [](const GradientError& error) { return error.ok(); });
    if (!ok && ir::has_lse(pattern_)) WEFT_CHECK(add_what_o_passes_on(bounds, out));
    return out;
  }

 private:
  template <typename Visit>
  void for_each(const ir::Gradients& gradients, const Visit& visit) const {
    visit("dq", args_.dq, gradients.dq);
    visit("dk", args_.dk, gradients.dk);
    visit("dv", args_.dv, gradients.dv);
    for (std::size_t i = 0; i < launch_.d_inputs.size(); ++i) {
      visit(pattern_.inputs[i].name, launch_.d_inputs[i], gradients.inputs[i]);
    }
  }

  /// A backward pass takes rowsum(dO * O) from an O that may be off by its own bound, and what it is off by acts as a
  /// dLSE of that size. This is all that bounds gradients that are 0, as those of a row's only key are.
  Status add_what_o_passes_on(const ir::Bounds& bounds, std::vector<GradientError>& errors) const {
    const auto& s = launch_.shape;
    const double passed_on = bounds.o * largest(to_f64(args_.d_out));
    std::vector<std::int64_t> extents = {s.batch, s.heads, s.rows_computed()};
    if (ir::per_branch(pattern_.combine)) extents.insert(extents.begin(), std::ssize(pattern_.branches));
    ir::Tensor d_lse(extents);
    std::fill(d_lse.data.begin(), d_lse.data.end(), passed_on);
    const ir::Tensor zero({s.batch, s.rows_computed(), s.heads, s.d_v});
    WEFT_TRY(const auto more, reference_.gradients(zero, std::move(d_lse), &chosen_, rows_));
    auto error = errors.begin();
    for_each(more, [&](const std::string&, const OutputView& found, const ir::Tensor& tensor) {
      if (found.data != nullptr) (error++)->bound += largest(tensor);
    });
    return done;
  }

  const ir::Pattern& pattern_;
  const Launch& launch_;
  const RunArgs& args_;
  const std::vector<std::int64_t>* rows_;
  std::vector<ir::ChosenKeys> chosen_;
  Reference reference_;
};

}  // namespace

Result<std::vector<GradientError>> compare_gradients(const ir::Pattern& pattern, const RunArgs& args, DType dtype,
                                                     const Comparison& forward,
                                                     const std::optional<std::vector<std::int64_t>>& rows,
                                                     const Console& console) {
  const LaunchContract contract{.pattern = pattern, .dtype = dtype, .any_float = true, .gradient = true};
  WEFT_TRY(const auto launch, check_launch(contract, args));
  const Progress progress(console, "interpreting gradients");
  const auto bounds = ir::error_bounds(pattern, to_ir(dtype), launch.shape.n_k, largest(to_f64(args.v)),
                                       forward.max_abs_score, forward.largest_sum);
  return GradientCheck(pattern, launch, args, rows).run(bounds);
}

}  // namespace weft::tools
