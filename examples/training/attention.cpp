#include "attention.h"

#include <stdexcept>

namespace {

void demand(const weft::Status& status) {
  if (!status) throw std::runtime_error(status.error().message);
}

weft::Kernel compiled(const weft::Engine& engine, const std::string& pattern, const AttentionSizes& sizes,
                      bool gradient) {
  auto kernel = engine.compile(pattern, {.dim = sizes.dim, .dtype = weft::DType::f32, .gradient = gradient});
  if (!kernel) throw std::runtime_error(kernel.error().message);
  return *kernel;
}

/// One of the three, in rows of all three.
template <typename View>
View within_rows(View view, const AttentionSizes& sizes) {
  view.stride[0] = 3 * sizes.tokens * sizes.width();
  view.stride[1] = 3 * sizes.width();
  return view;
}

}  // namespace

Attention::Attention(const weft::Engine& engine, const std::string& pattern, const AttentionSizes& sizes)
    : sizes_(sizes),
      forward_(compiled(engine, pattern, sizes, false)),
      backward_(compiled(engine, pattern, sizes, true)) {}

weft::RunArgs Attention::arguments(const std::vector<float>& qkv, std::vector<float>& out,
                                   std::vector<float>& lse) const {
  const auto& [batch, tokens, heads, dim] = sizes_;
  const auto part = [&](int number) {
    return within_rows(
        weft::dense_view(qkv.data() + number * sizes_.width(), weft::DType::f32, {batch, tokens, heads, dim}), sizes_);
  };
  return {.q = part(0),
          .k = part(1),
          .v = part(2),
          .out = weft::dense_output(out.data(), weft::DType::f32, {batch, tokens, heads, dim}),
          .lse = weft::dense_output(lse.data(), weft::DType::f32, {batch, heads, tokens})};
}

void Attention::forward(const std::vector<float>& qkv, std::vector<float>& out, std::vector<float>& lse) const {
  demand(forward_.run(arguments(qkv, out, lse)));
}

void Attention::backward(const std::vector<float>& qkv, std::vector<float>& out, std::vector<float>& lse,
                         const std::vector<float>& d_out, std::vector<float>& d_qkv) const {
  const auto& [batch, tokens, heads, dim] = sizes_;
  const auto part = [&](int number) {
    auto* const data = d_qkv.data() + number * sizes_.width();
    return within_rows(weft::dense_output(data, weft::DType::f32, {batch, tokens, heads, dim}), sizes_);
  };
  auto args = arguments(qkv, out, lse);
  args.d_out = weft::dense_view(d_out.data(), weft::DType::f32, {batch, tokens, heads, dim});
  args.dq = part(0);
  args.dk = part(1);
  args.dv = part(2);
  demand(backward_.run(args));
}
