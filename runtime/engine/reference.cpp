#include "runtime/engine/reference.h"

#include "compiler/base/float16.h"
#include "runtime/engine/backends.h"
#include "runtime/engine/chosen_lists.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

namespace weft {

namespace {

template <typename T>
T load(const void* data, std::int64_t at) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(data) + at * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <typename T>
void store(void* data, std::int64_t at, T value) {
  std::memcpy(static_cast<std::byte*>(data) + at * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
}

double load_element(const TensorView& view, std::int64_t at) {
  switch (view.dtype) {
    case DType::f32:
      return static_cast<double>(load<float>(view.data, at));
    case DType::f16:
      return static_cast<double>(half_to_float(load<std::uint16_t>(view.data, at)));
    case DType::bf16:
      return static_cast<double>(bf16_to_float(load<std::uint16_t>(view.data, at)));
    case DType::f64:
      return load<double>(view.data, at);
    case DType::i32:
      return load<std::int32_t>(view.data, at);
    case DType::u8:
      return load<std::uint8_t>(view.data, at);
  }
  return 0;
}

void store_element(const OutputView& view, std::int64_t at, double value) {
  switch (view.dtype) {
    case DType::f32:
      return store(view.data, at, static_cast<float>(value));
    case DType::f16:
      return store(view.data, at, float_to_half(static_cast<float>(value)));
    case DType::bf16:
      return store(view.data, at, float_to_bf16(static_cast<float>(value)));
    case DType::f64:
      return store(view.data, at, value);
    case DType::i32:
      return store(view.data, at, static_cast<std::int32_t>(value));
    case DType::u8:
      return store(view.data, at, static_cast<std::uint8_t>(value));
  }
}

/// Calls `visit(dense index, element offset)` for every element in row-major order.
template <typename Pointer, typename Visit>
void for_each_element(const View<Pointer>& view, Visit&& visit) {
  std::array<std::int64_t, kMaxRank> extent = {1, 1, 1, 1};
  std::array<std::int64_t, kMaxRank> stride = {};
  for (int axis = 0; axis < view.rank; ++axis) {
    const auto to = static_cast<std::size_t>(kMaxRank - view.rank + axis);
    extent[to] = view.extent[static_cast<std::size_t>(axis)];
    stride[to] = view.stride[static_cast<std::size_t>(axis)];
  }
  std::size_t index = 0;
  for (std::int64_t a = 0; a < extent[0]; ++a) {
    for (std::int64_t b = 0; b < extent[1]; ++b) {
      for (std::int64_t c = 0; c < extent[2]; ++c) {
        const auto row = a * stride[0] + b * stride[1] + c * stride[2];
        for (std::int64_t d = 0; d < extent[3]; ++d) visit(index++, row + d * stride[3]);
      }
    }
  }
}

}  // namespace

ir::Tensor to_f64(const TensorView& view) {
  ir::Tensor tensor(std::vector<std::int64_t>(view.extent.begin(), view.extent.begin() + view.rank));
  for_each_element(view, [&](std::size_t i, std::int64_t at) { tensor.data[i] = load_element(view, at); });
  return tensor;
}

void from_f64(const ir::Tensor& tensor, const OutputView& view) {
  for_each_element(view, [&](std::size_t i, std::int64_t at) { store_element(view, at, tensor.data[i]); });
}

namespace {

/// `count` rows, or heads, along an axis, from `from` on, as number `to`, … of a tensor that has `extent`, zeros
/// elsewhere.
ir::Tensor moved(const ir::Tensor& rows, std::size_t axis, std::int64_t from, std::int64_t to, std::int64_t count,
                 std::int64_t extent) {
  auto extents = rows.shape;
  extents[axis] = extent;
  ir::Tensor out(extents);
  const auto row = ir::Tensor::count({extents.begin() + static_cast<std::ptrdiff_t>(axis) + 1, extents.end()});
  const auto stride = rows.shape[axis] * row, out_stride = extent * row;
  for (std::int64_t i = 0; i * stride < std::ssize(rows.data); ++i) {
    std::copy_n(rows.data.begin() + i * stride + from * row, count * row, out.data.begin() + i * out_stride + to * row);
  }
  return out;
}

/// Where a tensor has its rows and its heads, of Q or of K and V.
struct Axes {
  std::size_t rows = 1, heads = 2;
};
constexpr Axes kOfRows = {1, 2}, kOfLse = {2, 1}, kOfEachLse = {3, 2};

/// From the launch's own to a tensor of the whole, and back.
ir::Tensor whole_of_keys(ir::Tensor slice, const ir::Shape& s) {
  if (!s.is_head_slice()) return slice;
  return moved(slice, 2, 0, s.head_begin / s.group(), s.kv_heads_computed(), s.kv_heads);
}
ir::Tensor keys_of(ir::Tensor whole, const ir::Shape& s) {
  if (!s.is_head_slice()) return whole;
  return moved(whole, 2, s.head_begin / s.group(), 0, s.kv_heads_computed(), s.kv_heads_computed());
}
ir::Tensor whole_of(ir::Tensor slice, const Axes& axes, const ir::Shape& s) {
  if (s.is_slice()) slice = moved(slice, axes.rows, 0, s.row_begin, s.rows, s.n_q);
  return s.is_head_slice() ? moved(slice, axes.heads, 0, s.head_begin, s.head_count, s.heads) : std::move(slice);
}
ir::Tensor slice_of(ir::Tensor whole, const Axes& axes, const ir::Shape& s) {
  if (s.is_slice()) whole = moved(whole, axes.rows, s.row_begin, 0, s.rows, s.rows);
  return s.is_head_slice() ? moved(whole, axes.heads, s.head_begin, 0, s.head_count, s.head_count) : std::move(whole);
}

}  // namespace

Reference::Reference(const ir::Pattern& pattern, const Launch& launch, const RunArgs& args)
    : pattern_(pattern),
      shape_(launch.shape),
      q_(whole_of(to_f64(args.q), kOfRows, shape_)),
      k_(whole_of_keys(to_f64(args.k), shape_)),
      v_(whole_of_keys(to_f64(args.v), shape_)) {
  for (const auto& view : launch.inputs) inputs_.push_back(to_f64(view));
}

Result<ir::Outcome> Reference::all() const {
  if (!shape_.is_slice()) return ir::interpret(pattern_, shape_, q_, k_, v_, inputs_);
  std::vector<std::int64_t> computed(static_cast<std::size_t>(shape_.rows));
  std::iota(computed.begin(), computed.end(), shape_.row_begin);
  return rows(computed, nullptr);
}

Result<ir::Outcome> Reference::rows(const std::vector<std::int64_t>& rows,
                                    const std::vector<ir::ChosenKeys>* chosen) const {
  return ir::interpret_rows(pattern_, shape_, q_, k_, v_, inputs_, rows, chosen);
}

Result<ir::Gradients> Reference::gradients(ir::Tensor d_o, std::optional<ir::Tensor> d_lse,
                                           const std::vector<ir::ChosenKeys>* chosen,
                                           const std::vector<std::int64_t>* rows) const {
  d_o = whole_of(std::move(d_o), kOfRows, shape_);
  if (d_lse) d_lse = whole_of(std::move(*d_lse), ir::per_branch(pattern_.combine) ? kOfEachLse : kOfLse, shape_);
  WEFT_TRY(auto out, ir::interpret_gradients(pattern_, shape_, q_, k_, v_, inputs_, d_o, d_lse ? &*d_lse : nullptr,
                                             chosen, rows));
  out.dq = slice_of(std::move(out.dq), kOfRows, shape_);
  out.dk = keys_of(std::move(out.dk), shape_);
  out.dv = keys_of(std::move(out.dv), shape_);
  return out;
}

std::string Reference::wrong_choice(const ir::ChosenKeys& keys, const std::vector<std::int64_t>& rows) const {
  return ir::wrong_choice(pattern_, shape_, inputs_, q_, k_, keys, rows);
}

void Reference::choose(const Launch& launch) const { interpret_lists(pattern_, launch, inputs_, q_, k_); }

Status run_interpreter(const ir::Pattern& pattern, const Launch& launch, const RunArgs& args) {
  const Reference reference(pattern, launch, args);
  WEFT_TRY(auto outcome, reference.all());
  reference.choose(launch);
  const auto& shape = launch.shape;
  from_f64(slice_of(std::move(outcome.o), kOfRows, shape), args.out);
  if (args.lse.data != nullptr) from_f64(slice_of(std::move(outcome.lse), kOfLse, shape), args.lse);
  if (args.branch_lse.data != nullptr)
    from_f64(slice_of(std::move(outcome.branch_lse), kOfEachLse, shape), args.branch_lse);
  return done;
}

Status interpret_backward(const ir::Pattern& pattern, const Launch& launch, const RunArgs& args) {
  const Reference reference(pattern, launch, args);
  std::optional<ir::Tensor> d_lse;
  if (args.d_lse.data != nullptr) d_lse = to_f64(args.d_lse);
  WEFT_TRY(const auto gradients, reference.gradients(to_f64(args.d_out), std::move(d_lse)));
  reference.choose(launch);
  if (args.dq.data != nullptr) from_f64(gradients.dq, args.dq);
  if (args.dk.data != nullptr) from_f64(gradients.dk, args.dk);
  if (args.dv.data != nullptr) from_f64(gradients.dv, args.dv);
  for (std::size_t i = 0; i < launch.d_inputs.size(); ++i) {
    if (launch.d_inputs[i].data != nullptr) from_f64(gradients.inputs[i], launch.d_inputs[i]);
  }
  return done;
}

namespace {

class Interpreter : public Executor {
 public:
  using Executor::Executor;
  Status run(const Launch& launch, const RunArgs& args) const override {
    return launch.gradient ? interpret_backward(kernel_.pattern, launch, args)
                           : run_interpreter(kernel_.pattern, launch, args);
  }
  Result<std::size_t> workspace(const ir::Shape&, int) const override { return std::size_t{0}; }
};

}  // namespace

Status load_interpreter(Kernel::State& kernel, const Loading&) {
  kernel.executor = std::make_unique<Interpreter>(kernel);
  return done;
}

}  // namespace weft
