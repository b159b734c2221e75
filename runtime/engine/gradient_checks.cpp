#include "runtime/engine/gradient_checks.h"

#include "runtime/engine/view_checks.h"

#include <algorithm>

namespace weft {

namespace {

bool wants_any(const RunArgs& args) {
  return args.dq.data != nullptr || args.dk.data != nullptr || args.dv.data != nullptr || !args.d_inputs.empty();
}

bool gives_any(const RunArgs& args) {
  return wants_any(args) || args.d_out.data != nullptr || args.d_lse.data != nullptr;
}

/// LSE has been looked at, where it is given.
Status check_forward_results(const ir::Pattern& pattern, const RunArgs& args) {
  const auto missing = [](const char* name, const std::string& what) {
    return user_error(fmt::format("{} has no data; the backward pass reads {} that the forward wrote", name, what));
  };
  if (args.out.data == nullptr && !ir::has_lse(pattern)) return done;
  if (args.out.data == nullptr) return missing("out", "the O");
  WEFT_CHECK(check_rows_of_o("out", args.out, args));
  if (!ir::has_lse(pattern)) return done;
  const bool each = ir::per_branch(pattern.combine);
  if (!each && args.lse.data == nullptr) return missing("lse", "the LSE");
  if (!each || args.branch_lse.data != nullptr) return done;
  return missing("branch_lse", fmt::format("each branch's LSE (combine {})", ir::to_string(pattern.combine)));
}

/// Of the LSE that the combine mode has: of all branches together, or of each.
Status check_d_lse(const ir::Pattern& pattern, const RunArgs& args) {
  if (args.d_lse.data == nullptr) return done;
  if (!ir::has_lse(pattern)) return user_error("d_lse is given, and 'weights sigmoid' has no LSE");
  std::optional<std::int64_t> branches;
  if (ir::per_branch(pattern.combine)) branches = std::ssize(pattern.branches);
  return check_rows_of_lse("d_lse", args.d_lse, branches, args);
}

/// A gradient has the extents of what it is the gradient of.
Status check_like(const std::string& name, const OutputView& found, const char* what, const TensorView& of,
                  const Names& axes) {
  if (found.data == nullptr) return done;
  WEFT_CHECK(check_view(name, found, of.dtype, of.rank, axes));
  WEFT_CHECK(check_distinct(name, found, axes));
  for (int axis = 0; axis < of.rank; ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    WEFT_CHECK(expect_extent(name, found, axis, axes, of.extent[at], fmt::format("as in {}", what)));
  }
  return done;
}

Status order_inputs(const ir::Pattern& pattern, const RunArgs& args, Launch& launch) {
  launch.d_inputs.resize(pattern.inputs.size());
  for (const auto& named : args.d_inputs) {
    const auto is_named = [&](const ir::Input& input) { return input.name == named.name; };
    const auto input = std::find_if(pattern.inputs.begin(), pattern.inputs.end(), is_named);
    if (input == pattern.inputs.end()) return user_error(fmt::format("the pattern has no input '{}'", named.name));
    const auto name = fmt::format("the gradient of input '{}'", named.name);
    if (input->type != ir::InputType::f32) {
      return user_error(fmt::format("{}: only f32 inputs have one, this is {}", name, ir::to_string(input->type)));
    }
    const auto at = static_cast<std::size_t>(input - pattern.inputs.begin());
    if (launch.d_inputs[at].data != nullptr) return user_error(name + " is given twice");
    if (named.view.data == nullptr) return user_error(name + " has no data");
    constexpr Names kAxes = {"axis 0", "axis 1", "axis 2", "axis 3"};
    WEFT_CHECK(check_like(name, named.view, "the input", launch.inputs[at], kAxes));
    launch.d_inputs[at] = named.view;
  }
  return done;
}

}  // namespace

Status check_gradients(const LaunchContract& contract, const RunArgs& args, Launch& launch) {
  if (!contract.gradient) {
    if (!gives_any(args)) return done;
    return user_error("gradients are asked for, but the kernel was compiled without CompileOptions::gradient");
  }
  launch.gradient = true;
  WEFT_CHECK(check_forward_results(contract.pattern, args));
  WEFT_CHECK(check_rows_of_o("d_out", args.d_out, args));
  WEFT_CHECK(check_d_lse(contract.pattern, args));
  if (!wants_any(args)) {
    return user_error("no gradient is wanted: give at least one of dq, dk, dv and d_inputs");
  }
  WEFT_CHECK(check_like("dq", args.dq, "q", args.q, kRowAxes));
  WEFT_CHECK(check_like("dk", args.dk, "k", args.k, kRowAxes));
  WEFT_CHECK(check_like("dv", args.dv, "v", args.v, kRowAxes));
  return order_inputs(contract.pattern, args, launch);
}

}  // namespace weft
