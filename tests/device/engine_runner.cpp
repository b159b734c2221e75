#include "tests/device/engine_runner.h"

#include "runtime/cuda/memory.h"
#include "runtime/engine/cuda_executor.h"
#include "runtime/engine/front.h"

#include <array>
#include <limits>

namespace weft::testing {
namespace {

using Extents = std::array<std::int64_t, kMaxRank>;

/// One tensor [B, n, H, d] on the device, laid out as asked.
class Placed {
 public:
  static Result<Placed> make(const std::shared_ptr<const cuda::Device>& device, const Extents& shape,
                             const Layout& layout, ir::DType dtype, const ir::Tensor* values) {
    Placed out(shape, layout, dtype);
    if (values != nullptr) out.host_.put(*values);
    WEFT_TRY(out.buffer_,
             cuda::Buffer::upload(device, out.host_.view.data, static_cast<std::size_t>(out.host_.bytes())));
    return out;
  }

  template <typename View>
  View view() const {
    View out;
    out.data = buffer_.data();
    out.dtype = from_ir(dtype_);
    out.rank = kMaxRank;
    out.extent = shape_;
    out.stride = {host_.view.stride_b, host_.view.stride_n, host_.view.stride_h, 1};
    return out;
  }

  /// Waits for what was launched.
  Result<ir::Tensor> fetch() {
    WEFT_CHECK(buffer_.copy_out(host_.view.data, static_cast<std::size_t>(host_.bytes())));
    return host_.get();
  }

 private:
  Placed(const Extents& shape, const Layout& layout, ir::DType dtype)
      : shape_(shape), dtype_(dtype), host_({shape.begin(), shape.end()}, layout, dtype) {}

  Extents shape_;
  ir::DType dtype_;
  Stored host_;
  cuda::Buffer buffer_;
};

/// An LSE: f32, dense, poisoned.
struct Sums {
  std::vector<std::int64_t> shape;
  std::vector<float> host;
  cuda::Buffer buffer;

  static Result<Sums> make(const std::shared_ptr<const cuda::Device>& device, std::vector<std::int64_t> shape) {
    std::int64_t count = 1;
    for (auto extent : shape) count *= extent;
    Sums out{.shape = std::move(shape), .host = {}, .buffer = {}};
    out.host.assign(static_cast<std::size_t>(count), std::numeric_limits<float>::quiet_NaN());
    WEFT_TRY(out.buffer, cuda::Buffer::upload(device, out.host.data(), out.host.size() * sizeof(float)));
    return out;
  }
  OutputView view() const {
    OutputView out;
    out.data = buffer.data();
    out.dtype = DType::f32;
    out.rank = static_cast<int>(shape.size());
    std::int64_t stride = 1;
    for (std::size_t axis = shape.size(); axis-- > 0; stride *= shape[axis]) {
      out.extent[axis] = shape[axis];
      out.stride[axis] = stride;
    }
    return out;
  }
  Result<ir::Tensor> fetch() {
    WEFT_CHECK(buffer.copy_out(host.data(), host.size() * sizeof(float)));
    ir::Tensor out(shape);
    for (std::size_t i = 0; i < host.size(); ++i) out.data[i] = static_cast<double>(host[i]);
    return out;
  }
};

/// The inputs of a pattern on the device, under their names.
struct Inputs {
  std::vector<cuda::Buffer> buffers;
  std::vector<NamedInput> named;

  Status add(const std::shared_ptr<const cuda::Device>& device, const ir::Input& input, const ir::Tensor& values,
             const Layout& layout) {
    const StoredInput stored(values, input.type, layout);
    WEFT_TRY(auto buffer, cuda::Buffer::upload(device, stored.bytes.data(), stored.bytes.size()));
    TensorView view;
    view.data = buffer.data();
    view.dtype = from_ir(input.type);
    view.rank = static_cast<int>(values.shape.size());
    std::copy(std::begin(stored.view.extents), std::end(stored.view.extents), view.extent.begin());
    std::copy(std::begin(stored.view.strides), std::end(stored.view.strides), view.stride.begin());
    buffers.push_back(std::move(buffer));
    named.push_back({input.name, view});
    return done;
  }
};

}  // namespace

Result<EngineKernel> EngineKernel::make(const ir::Pattern& pattern, const ir::Bind& bind, const Target&,
                                        const ir::Shape& shape) {
  return make(Engine({.no_cache = true}), pattern, bind, shape);
}

Result<EngineKernel> EngineKernel::make(const Engine& engine, const ir::Pattern& pattern, const ir::Bind& bind,
                                        const std::optional<ir::Shape>& shape) {
  std::optional<RunShape> first;
  if (shape && shape->n_q > 0 && shape->n_k > 0)
    first = {shape->batch, shape->n_q, shape->n_k, shape->heads, shape->kv_heads};
  EngineKernel out;
  out.pattern_ = pattern;
  out.bind_ = bind;
  WEFT_TRY(out.kernel_, engine.compile(ir::print(pattern), {.dim = bind.d,
                                                            .dim_v = bind.d_v,
                                                            .dtype = from_ir(bind.dtype),
                                                            .branch_lse = bind.branch_lse,
                                                            .shape = first,
                                                            .target = "cuda"}));
  return out;
}

Result<ir::Outcome> EngineKernel::run(const ir::Shape& shape, const ir::Tensor& q, const ir::Tensor& k,
                                      const ir::Tensor& v, const std::vector<ir::Tensor>& inputs,
                                      const RunOptions& options) const {
  const auto device = device_of(*kernel_);
  if (device == nullptr) return internal_error("the kernel is on no GPU");
  const auto place = [&](std::int64_t rows, std::int64_t heads, std::int64_t columns, const ir::Tensor* values) {
    return Placed::make(device, {shape.batch, rows, heads, columns}, options.layout, bind_.dtype, values);
  };
  WEFT_TRY(const auto on_q, place(shape.n_q, shape.heads, shape.d, &q));
  WEFT_TRY(const auto on_k, place(shape.n_k, shape.kv_heads, shape.d, &k));
  WEFT_TRY(const auto on_v, place(shape.n_k, shape.kv_heads, shape.d_v, &v));
  WEFT_TRY(auto o, place(shape.n_q, shape.heads, shape.d_v, nullptr));
  WEFT_TRY(auto lse, Sums::make(device, {shape.batch, shape.heads, shape.n_q}));
  const auto branches = static_cast<std::int64_t>(pattern_.branches.size());
  WEFT_TRY(auto branch_lse, Sums::make(device, {branches, shape.batch, shape.heads, shape.n_q}));
  Inputs given;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    WEFT_CHECK(given.add(device, pattern_.inputs[i], inputs[i], options.layout));
  }
  const bool has_lse =
      ir::has_lse(pattern_) && pattern_.combine != ir::Combine::sum && pattern_.combine != ir::Combine::mean;
  RunArgs args{.q = on_q.view<TensorView>(),
               .k = on_k.view<TensorView>(),
               .v = on_v.view<TensorView>(),
               .out = o.view<OutputView>(),
               .inputs = given.named,
               .offset = shape.offset,
               .dropout_seed = shape.dropout_seed};
  if (has_lse) args.lse = lse.view();
  if (bind_.branch_lse) args.branch_lse = branch_lse.view();
  WEFT_CHECK(kernel_->run(args));
  ir::Outcome out;
  WEFT_TRY(out.o, o.fetch());
  if (has_lse) {
    WEFT_TRY(out.lse, lse.fetch());
  }
  if (bind_.branch_lse) {
    WEFT_TRY(out.branch_lse, branch_lse.fetch());
  }
  return out;
}

}  // namespace weft::testing
