#include "tests/support/backward.h"

#include "compiler/ir/pattern_interpreter_rows.h"
#include "runtime/cuda/memory.h"
#include "runtime/engine/cuda_executor.h"
#include "runtime/engine/front.h"
#include "runtime/engine/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <type_traits>

namespace weft::test {

namespace {

using Extents = std::vector<std::int64_t>;

using Device = std::shared_ptr<const cuda::Device>;

/// A tensor as a type stores it, rows `gap` numbers apart; on a GPU, where it is placed there.
class Stored {
 public:
  Stored(const Extents& extents, DType dtype, std::int64_t gap = 0) {
    view_ = {.data = nullptr, .dtype = dtype, .rank = static_cast<int>(extents.size()), .extent = {}, .stride = {}};
    std::int64_t step = 1;
    for (std::size_t axis = extents.size(); axis-- > 0;) {
      view_.extent[axis] = extents[axis];
      view_.stride[axis] = step;
      step *= extents[axis];
      if (axis + 1 == extents.size()) step += gap;
    }
    bytes_.assign(static_cast<std::size_t>(std::max<std::int64_t>(step, 1)) * size_of(dtype), std::byte{0xff});  // NaN
    view_.data = bytes_.data();
  }
  Stored(const ir::Tensor& values, DType dtype, std::int64_t gap = 0) : Stored(values.shape, dtype, gap) {
    from_f64(values, view_);
  }
  Stored(Stored&&) noexcept = default;

  /// As it is now.
  Status place_on(const Device& device) {
    WEFT_TRY(buffer_, cuda::Buffer::upload(device, bytes_.data(), bytes_.size()));
    view_.data = buffer_.data();
    return done;
  }
  const OutputView& output() const { return view_; }
  TensorView view() const { return viewed(view_.data); }
  /// Waits for what was launched on a GPU.
  Result<ir::Tensor> values() {
    if (buffer_.size() > 0) WEFT_CHECK(buffer_.copy_out(bytes_.data(), bytes_.size()));
    return to_f64(viewed(bytes_.data()));
  }

 private:
  TensorView viewed(const void* data) const {
    return {.data = data, .dtype = view_.dtype, .rank = view_.rank, .extent = view_.extent, .stride = view_.stride};
  }

  std::vector<std::byte> bytes_;
  cuda::Buffer buffer_;
  OutputView view_;
};

/// What the type makes of values.
ir::Tensor rounded(const ir::Tensor& values, DType dtype) { return Stored(values, dtype).values().value(); }

/// Some rows of a tensor, which are its axis number `axis`.
template <typename View>
void cut_rows(View& view, int axis, const BackwardKernel::Options& options) {
  if (view.data == nullptr || options.rows == 0) return;
  using Byte = std::conditional_t<std::is_same_v<View, TensorView>, const std::byte, std::byte>;
  const auto at = static_cast<std::size_t>(axis);
  view.data = static_cast<Byte*>(view.data) +
              options.first_row * view.stride[at] * static_cast<std::int64_t>(size_of(view.dtype));
  view.extent[at] = options.rows;
}

/// Some heads, which are axis number `axis`.
template <typename View>
void cut_heads(View& view, int axis, std::int64_t first, std::int64_t heads) {
  cut_rows(view, axis, {.first_row = first, .rows = heads});
}

double largest(const ir::Tensor& t) {
  double most = 0;
  for (const double x : t.data) most = std::max(most, std::fabs(x));
  return most;
}

template <typename Visit>
void each_tensor(const ir::Pattern& pattern, const ir::Gradients& a, const ir::Gradients& b, const Visit& visit) {
  visit("dq", a.dq, b.dq);
  visit("dk", a.dk, b.dk);
  visit("dv", a.dv, b.dv);
  for (std::size_t i = 0; i < a.inputs.size(); ++i)
    visit("the gradient of " + pattern.inputs[i].name, a.inputs[i], b.inputs[i]);
}

}  // namespace

Result<ir::Gradients> BackwardProblem::meant(std::optional<double> only_lse) const {
  if (!only_lse) return ir::interpret_gradients(pattern, shape, q, k, v, inputs, d_o, d_lse ? &*d_lse : nullptr);
  const ir::Tensor nothing(d_o.shape);
  Extents extents = {shape.batch, shape.heads, shape.n_q};
  if (ir::per_branch(pattern.combine)) extents.insert(extents.begin(), std::ssize(pattern.branches));
  ir::Tensor everywhere(extents);
  std::fill(everywhere.data.begin(), everywhere.data.end(), *only_lse);
  return ir::interpret_gradients(pattern, shape, q, k, v, inputs, nothing, &everywhere);
}

BackwardProblem draw_backward(const ir::Pattern& pattern, const ir::Shape& shape, ir::DType dtype, const ir::Tensor& q,
                              const ir::Tensor& k, const ir::Tensor& v, const ir::InputValues& inputs,
                              std::uint64_t seed) {
  std::mt19937_64 random(seed ^ 0xBAC7);
  std::normal_distribution<double> normal;
  const auto draw = [&](const Extents& extents) {
    ir::Tensor out(extents);
    for (double& x : out.data) x = normal(random);
    return out;
  };
  BackwardProblem problem{.pattern = pattern,
                          .shape = shape,
                          .dtype = dtype,
                          .q = q,
                          .k = k,
                          .v = v,
                          .inputs = inputs,
                          .d_o = rounded(draw({shape.batch, shape.n_q, shape.heads, shape.d_v}), from_ir(dtype))};
  if (seed % 2 == 0 || !ir::has_lse(pattern)) return problem;
  Extents extents = {shape.batch, shape.heads, shape.n_q};
  if (ir::per_branch(pattern.combine)) extents.insert(extents.begin(), std::ssize(pattern.branches));
  problem.d_lse = rounded(draw(extents), DType::f32);
  return problem;
}

Result<BackwardKernel> BackwardKernel::make(const ir::Pattern& pattern, const ir::Shape& shape, ir::DType dtype,
                                            const std::string& target) {
  static const Engine engine({.no_cache = true});
  return make(engine, pattern, shape, dtype, target);
}

Result<BackwardKernel> BackwardKernel::make(const Engine& engine, const ir::Pattern& pattern, const ir::Shape& shape,
                                            ir::DType dtype, const std::string& target) {
  CompileOptions options{.pattern = pattern.name,
                         .dim = shape.d,
                         .dim_v = shape.d_v,
                         .dtype = from_ir(dtype),
                         .branch_lse = ir::per_branch(pattern.combine),
                         .target = target};
  const auto text = ir::print(pattern);
  WEFT_TRY(auto forward, engine.compile(text, options));
  options.gradient = true;
  options.branch_lse = false;
  WEFT_TRY(auto backward, engine.compile(text, options));
  return BackwardKernel(std::move(forward), std::move(backward));
}

Result<ir::Gradients> BackwardKernel::run(const BackwardProblem& problem, const Options& options) const {
  const auto& s = problem.shape;
  const auto dtype = from_ir(problem.dtype);
  const auto gap = options.row_gap;
  const bool each = ir::per_branch(problem.pattern.combine);
  const Device device = device_of(backward_);
  const auto place = [&](std::initializer_list<Stored*> tensors) -> Status {
    for (Stored* tensor : tensors) {
      if (device != nullptr) WEFT_CHECK(tensor->place_on(device));
    }
    return done;
  };
  Stored q(problem.q, dtype, gap), k(problem.k, dtype, gap), v(problem.v, dtype, gap), d_o(problem.d_o, dtype, gap);
  Stored out(problem.d_o.shape, dtype, gap), lse({s.batch, s.heads, s.n_q}, DType::f32),
      branch_lse({std::ssize(problem.pattern.branches), s.batch, s.heads, s.n_q}, DType::f32);
  WEFT_CHECK(place({&q, &k, &v, &d_o, &out, &lse, &branch_lse}));
  std::vector<Stored> inputs, d_inputs;
  std::vector<NamedInput> named;
  std::vector<NamedOutput> wanted;
  inputs.reserve(problem.inputs.size());
  d_inputs.reserve(problem.inputs.size());
  for (std::size_t i = 0; i < problem.inputs.size(); ++i) {
    const auto& input = problem.pattern.inputs[i];
    inputs.emplace_back(problem.inputs[i], from_ir(input.type));
    WEFT_CHECK(place({&inputs.back()}));
    named.push_back({.name = input.name, .view = inputs.back().view()});
    if (input.type != ir::InputType::f32) continue;
    d_inputs.emplace_back(problem.inputs[i].shape, DType::f32);
    WEFT_CHECK(place({&d_inputs.back()}));
    wanted.push_back({.name = input.name, .view = d_inputs.back().output()});
  }
  RunArgs args{.q = q.view(),
               .k = k.view(),
               .v = v.view(),
               .out = out.output(),
               .inputs = named,
               .offset = s.offset,
               .dropout_seed = s.dropout_seed,
               .threads = options.threads};
  if (ir::has_lse(problem.pattern)) (each ? args.branch_lse : args.lse) = each ? branch_lse.output() : lse.output();
  WEFT_CHECK(forward_.run(args));
  Stored dq(problem.q.shape, dtype, gap), dk(problem.k.shape, dtype, gap), dv(problem.v.shape, dtype, gap);
  WEFT_CHECK(place({&dq, &dk, &dv}));
  args.d_out = d_o.view();
  std::optional<Stored> d_lse;
  if (problem.d_lse) {
    d_lse.emplace(*problem.d_lse, DType::f32);
    WEFT_CHECK(place({&*d_lse}));
    args.d_lse = d_lse->view();
  }
  args.dq = dq.output();
  args.dk = dk.output();
  args.dv = dv.output();
  args.d_inputs = wanted;
  if (options.rows > 0) args.slice = {.first = options.first_row, .of = s.n_q};
  for (auto* view : {&args.q, &args.d_out}) cut_rows(*view, 1, options);
  for (auto* view : {&args.out, &args.dq}) cut_rows(*view, 1, options);
  cut_rows(args.lse, 2, options);
  cut_rows(args.branch_lse, 3, options);
  cut_rows(args.d_lse, args.d_lse.rank - 1, options);
  if (options.heads > 0) {
    const std::int64_t group = s.heads / s.kv_heads;
    args.head_slice = {.first = options.first_head, .of = s.heads};
    const auto cut = [&](auto&... views) { (cut_heads(views, 2, options.first_head, options.heads), ...); };
    const auto cut_keys = [&](auto&... views) {
      (cut_heads(views, 2, options.first_head / group, options.heads / group), ...);
    };
    cut(args.q, args.d_out, args.out, args.dq, args.branch_lse);
    cut_keys(args.k, args.v, args.dk, args.dv);
    cut_heads(args.lse, 1, options.first_head, options.heads);
    cut_heads(args.d_lse, args.d_lse.rank - 2, options.first_head, options.heads);
  }
  WEFT_CHECK(backward_.run(args));
  ir::Gradients found;
  WEFT_TRY(found.dq, dq.values());
  WEFT_TRY(found.dk, dk.values());
  WEFT_TRY(found.dv, dv.values());
  std::size_t next = 0;
  for (const auto& input : problem.pattern.inputs) {
    ir::Tensor& of_input = found.inputs.emplace_back();
    if (input.type != ir::InputType::f32) continue;
    WEFT_TRY(of_input, d_inputs[next++].values());
  }
  return found;
}

std::string difference(const BackwardProblem& problem, const ir::Gradients& found, double* worst) {
  const auto& p = problem;
  const auto meant = p.meant();
  if (!meant) return meant.error().message;
  const auto forward = ir::interpret(p.pattern, p.shape, p.q, p.k, p.v, p.inputs);
  if (!forward) return forward.error().message;
  const auto bounds =
      ir::error_bounds(p.pattern, p.dtype, p.shape.n_k, largest(p.v), forward->max_abs_score, forward->largest_sum);
  // Rounding of O acts as a dLSE of its size; of weights that have no LSE, nothing is made of O.
  std::vector<double> further(3 + p.inputs.size());
  if (ir::has_lse(p.pattern)) {
    const auto passed_on = p.meant(bounds.o * largest(p.d_o));
    if (!passed_on) return passed_on.error().message;
    further.clear();
    each_tensor(p.pattern, *passed_on, *passed_on,
                [&](const std::string&, const ir::Tensor& t, const ir::Tensor&) { further.push_back(largest(t)); });
  }
  std::string out;
  std::size_t number = 0;
  each_tensor(p.pattern, found, *meant, [&](const std::string& name, const ir::Tensor& a, const ir::Tensor& b) {
    const double bound = bounds.gradient * largest(b) + further[number++];
    for (std::size_t i = 0; i < b.data.size() && out.empty(); ++i) {
      const double error = std::fabs(a.data[i] - b.data[i]);
      if (worst != nullptr && bound > 0) *worst = std::max(*worst, error / bound);
      if (a.data[i] == b.data[i] || error <= bound || (std::isnan(a.data[i]) && std::isnan(b.data[i]))) continue;
      out = fmt::format("{}[{}] is {}, meant {}: off by {}, bound {}", name, i, a.data[i], b.data[i], error, bound);
    }
  });
  return out;
}

std::string difference_of_bits(const ir::Gradients& a, const ir::Gradients& b) {
  std::string out;
  const auto compare = [&](const char* name, const ir::Tensor& x, const ir::Tensor& y) {
    for (std::size_t i = 0; i < x.data.size() && out.empty(); ++i) {
      if (std::bit_cast<std::uint64_t>(x.data[i]) != std::bit_cast<std::uint64_t>(y.data[i]))
        out = fmt::format("{}[{}] is {} and {}", name, i, x.data[i], y.data[i]);
    }
  };
  compare("dq", a.dq, b.dq);
  compare("dk", a.dk, b.dk);
  compare("dv", a.dv, b.dv);
  for (std::size_t i = 0; i < a.inputs.size(); ++i) compare("an input's gradient", a.inputs[i], b.inputs[i]);
  return out;
}

}  // namespace weft::test
