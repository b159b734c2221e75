#include "tests/codegen/arguments.h"

#include "codegen/divisor.h"
#include "compiler/base/float16.h"
#include "compiler/ir/few_rows.h"
#include "compiler/ir/schedule.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace weft::testing {
namespace {

std::uint16_t to_half(double value, ir::DType dtype) {
  const auto single = static_cast<float>(value);
  return dtype == ir::DType::f16 ? float_to_half(single) : float_to_bf16(single);
}

double from_half(std::uint16_t bits, ir::DType dtype) {
  return static_cast<double>(dtype == ir::DType::f16 ? half_to_float(bits) : bf16_to_float(bits));
}

ir::Tensor widened(const std::vector<float>& values, std::vector<std::int64_t> shape) {
  ir::Tensor out(std::move(shape));
  for (std::size_t i = 0; i < values.size(); ++i) out.data[i] = static_cast<double>(values[i]);
  return out;
}

}  // namespace

double rounded(double value, ir::DType dtype) {
  if (dtype == ir::DType::f32) return static_cast<double>(static_cast<float>(value));
  return from_half(to_half(value, dtype), dtype);
}

ir::Tensor rounded(ir::Tensor values, ir::DType dtype) {
  for (auto& v : values.data) v = rounded(v, dtype);
  return values;
}

ir::Tensor normal(std::vector<std::int64_t> shape, unsigned seed) {
  ir::Tensor t(std::move(shape));
  std::mt19937 generator(seed);
  std::normal_distribution<double> values;
  for (auto& v : t.data) v = rounded(values(generator), ir::DType::f32);
  return t;
}

// ---------------------------------------------------------------- tensors

Stored::Stored(const std::vector<std::int64_t>& shape, const Layout& layout, ir::DType dtype)
    : shape_(shape), dtype_(dtype), size_(static_cast<std::size_t>(ir::size_of(dtype))) {
  const std::int64_t row = shape[3] + layout.row_gap;
  view.stride_n = layout.head_major ? row : shape[2] * row;
  view.stride_h = layout.head_major ? shape[1] * row : row;
  view.stride_b = shape[1] * shape[2] * row;
  const std::int64_t elements = shape[0] * view.stride_b;
  bytes_used_ = std::max<std::int64_t>(0, elements - layout.row_gap) * static_cast<std::int64_t>(size_);
  // Behind it lies memory of nobody: a step beyond the end must not come out in another tensor.
  constexpr std::size_t kNobodys = 64 << 10;
  bytes_.assign(static_cast<std::size_t>(elements) * size_ + kNobodys, 0xFF);
  view.data = bytes_.data();
}

template <typename Use>
void Stored::each(const Use& use) const {
  std::size_t at = 0;
  for (std::int64_t b = 0; b < shape_[0]; ++b) {
    for (std::int64_t n = 0; n < shape_[1]; ++n) {
      for (std::int64_t h = 0; h < shape_[2]; ++h) {
        for (std::int64_t c = 0; c < shape_[3]; ++c, ++at) {
          const std::int64_t element = b * view.stride_b + n * view.stride_n + h * view.stride_h + c;
          use(at, static_cast<std::size_t>(element) * size_);
        }
      }
    }
  }
}

void Stored::put(const ir::Tensor& t) {
  each([&](std::size_t from, std::size_t to) {
    if (dtype_ == ir::DType::f32) {
      const auto single = static_cast<float>(t.data[from]);
      std::memcpy(&bytes_[to], &single, 4);
    } else {
      const std::uint16_t bits = to_half(t.data[from], dtype_);
      std::memcpy(&bytes_[to], &bits, 2);
    }
  });
}

ir::Tensor Stored::get() const {
  ir::Tensor out(shape_);
  each([&](std::size_t at, std::size_t from) {
    if (dtype_ == ir::DType::f32) {
      float single;
      std::memcpy(&single, &bytes_[from], 4);
      out.data[at] = static_cast<double>(single);
    } else {
      std::uint16_t bits;
      std::memcpy(&bits, &bytes_[from], 2);
      out.data[at] = from_half(bits, dtype_);
    }
  });
  return out;
}

namespace {

void put_element(unsigned char* to, double value, ir::InputType type) {
  const auto single = static_cast<float>(value);
  const auto word = type == ir::InputType::f32 ? 0 : static_cast<std::int32_t>(value);
  if (type == ir::InputType::f32) std::memcpy(to, &single, 4);
  if (type == ir::InputType::i32) std::memcpy(to, &word, 4);
  if (type == ir::InputType::u8) *to = static_cast<unsigned char>(word);
}

}  // namespace

StoredInput::StoredInput(const ir::Tensor& values, ir::InputType type, const Layout& layout) {
  const std::size_t size = type == ir::InputType::u8 ? 1 : 4, rank = values.shape.size();
  std::int64_t stride = 1;
  for (std::size_t axis = rank; axis-- > 0;) {
    view.strides[axis] = stride;
    view.extents[axis] = values.shape[axis];
    stride = stride * values.shape[axis] + (axis + 1 == rank ? layout.row_gap : 0);
  }
  const std::int64_t used = rank > 0 ? stride - layout.row_gap : 1;
  bytes.assign(static_cast<std::size_t>(used) * size, 0xFF);
  view.data = bytes.data();
  for (std::size_t i = 0; i < values.data.size(); ++i) {
    auto rest = static_cast<std::int64_t>(i);
    std::int64_t at = 0;
    for (std::size_t axis = rank; axis-- > 0; rest /= view.extents[axis]) {
      at += rest % view.extents[axis] * view.strides[axis];
    }
    put_element(&bytes[static_cast<std::size_t>(at) * size], values.data[i], type);
  }
}

// ---------------------------------------------------------------- the argument block

Result<Arguments> Arguments::make(const ir::Plan& plan, const ir::Shape& shape, const ir::Tensor& q,
                                  const ir::Tensor& k, const ir::Tensor& v, const std::vector<ir::Tensor>& inputs,
                                  const Layout& layout) {
  Arguments out(plan, shape, layout);
  WEFT_TRY(out.tables_, ir::make_tables(plan, shape.heads));
  out.q_.put(q);
  out.k_.put(k);
  out.v_.put(v);
  out.inputs_ = inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    out.stored_inputs_.emplace_back(inputs[i], plan.inputs[i].type, layout);
  }
  out.lists_ = StoredLists(plan, shape, rounded(q, plan.bind.dtype), rounded(k, plan.bind.dtype), inputs);
  out.fill();
  return out;
}

void Arguments::deny_all() { lists_.deny_all(plan_); }

Arguments::Arguments(const ir::Plan& plan, const ir::Shape& shape, const Layout& layout)
    : decodes_(shape.n_q <= ir::queries_of_decoding(plan, shape)),
      plan_(decodes_ ? *plan.decoding : plan),
      shape_(shape),
      q_({shape.batch, shape.n_q, shape.heads, shape.d}, layout, plan.bind.dtype),
      k_({shape.batch, shape.n_k, shape.kv_heads, shape.d}, layout, plan.bind.dtype),
      v_({shape.batch, shape.n_k, shape.kv_heads, shape.d_v}, layout, plan.bind.dtype),
      o_({shape.batch, shape.n_q, shape.heads, shape.d_v}, layout, plan.bind.dtype),
      offsets_(shape.offset.empty() ? std::vector<std::int64_t>{shape.n_k - shape.n_q} : shape.offset) {
  const float poison = std::numeric_limits<float>::quiet_NaN();
  const bool separate = plan.combine == ir::Combine::sum || plan.combine == ir::Combine::mean;
  const bool with_branches = separate || plan.bind.branch_lse;
  const auto rows = static_cast<std::size_t>(shape.batch * shape.heads * shape.n_q);
  lse_.assign(separate || plan.weights == ir::Weights::direct ? 0 : rows, poison);
  branch_lse_.assign(with_branches ? rows * static_cast<std::size_t>(plan.branches) : 0, poison);
  carry_.assign(rows * static_cast<std::size_t>(plan.carry_bytes_per_row()) / 4, poison);
}

void Arguments::fill() {
  args.abi = kWeftArgsAbi;
  args.queries_up_to = std::numeric_limits<std::int32_t>::max();
  args.heads_per_tile = ir::heads_per_tile(plan_, ir::heads_are_alike(plan_, tables_), shape_);
  args.batch = shape_.batch;
  args.n_q = shape_.n_q;
  args.row_end = args.carried_rows = shape_.n_q;
  args.n_k = shape_.n_k;
  args.heads = shape_.heads;
  args.kv_heads = shape_.kv_heads;
  args.of_groups = codegen::divisor_of(shape_.heads / args.heads_per_tile);
  args.of_group = codegen::divisor_of(shape_.group());
  args.of_heads = codegen::divisor_of(args.heads_per_tile);
  args.of_shares = codegen::divisor_of(1);
  args.q = q_.view;
  args.k = k_.view;
  args.v = v_.view;
  args.o = o_.view;
  args.lse = lse_.empty() ? nullptr : lse_.data();
  args.lse_stride_b = shape_.heads * shape_.n_q;
  args.lse_stride_h = shape_.n_q;
  args.branch_lse = branch_lse_.empty() ? nullptr : branch_lse_.data();
  args.branch_lse_stride = shape_.batch * shape_.heads * shape_.n_q;
  args.branch_lse_stride_b = shape_.heads * shape_.n_q;
  args.branch_lse_stride_h = shape_.n_q;
  args.offsets = offsets_.size() > 1 ? offsets_.data() : nullptr;
  args.offset = offsets_.front();
  args.scale = plan_.scale ? *plan_.scale : 1 / std::sqrt(static_cast<double>(shape_.d));
  args.tables = tables_.words.data();
  args.most_terms = tables_.most_terms;
  args.carry = carry_.data();
  args.seed = shape_.dropout_seed;
  lists_.put(args);
  for (std::size_t i = 0; i < stored_inputs_.size(); ++i) args.inputs[i] = stored_inputs_[i].view;
}

Status Arguments::each_call(std::int64_t tiles_per_call, const std::function<Status(const weft_args&)>& call) {
  for (std::size_t p = 0; p < plan_.phases.size(); ++p) {
    std::int64_t tiles = 0;
    for (std::int64_t b = 0; b < shape_.batch; ++b) {
      const ir::Extent extent = ir::extent_of(shape_, b, ir::Stationary::query, &inputs_, &tables_);
      for (const auto& head : tables_.phases[p].head)
        tiles = std::max(tiles, ir::tile_count(plan_.phases[p], head, extent));
    }
    args.phase = static_cast<std::int64_t>(p);
    args.tiles_per_head = tiles;
    args.of_tiles = codegen::divisor_of(tiles);
    const std::int64_t total = tiles * shape_.batch * shape_.heads / args.heads_per_tile;
    const std::int64_t step = tiles_per_call > 0 ? tiles_per_call : std::max<std::int64_t>(total, 1);
    for (std::int64_t begin = 0; begin < total; begin += step) {
      args.tile_begin = begin;
      args.tile_end = std::min(begin + step, total);
      WEFT_CHECK(call(args));
    }
  }
  return done;
}

ir::Outcome Arguments::outcome() const {
  ir::Outcome out;
  out.o = o_.get();
  if (!lse_.empty()) out.lse = widened(lse_, {shape_.batch, shape_.heads, shape_.n_q});
  if (!branch_lse_.empty()) {
    out.branch_lse = widened(branch_lse_, {plan_.branches, shape_.batch, shape_.heads, shape_.n_q});
  }
  return out;
}

std::vector<Span> Arguments::spans() const {
  const auto of = [](const char* name, const auto& values, bool writable) {
    return Span{name, values.data(), static_cast<std::int64_t>(values.size() * sizeof(values[0])), writable};
  };
  std::vector<Span> out = {{"q", q_.view.data, q_.bytes(), false},
                           {"k", k_.view.data, k_.bytes(), false},
                           {"v", v_.view.data, v_.bytes(), false},
                           {"o", o_.view.data, o_.bytes(), true},
                           of("lse", lse_, true),
                           of("branch lse", branch_lse_, true),
                           of("carry", carry_, true),
                           of("offsets", offsets_, false),
                           of("tables", tables_.words, false)};
  for (const auto& input : stored_inputs_) out.push_back(of("input", input.bytes, false));
  for (std::size_t i = 0; i < lists_.size(); ++i) out.push_back(of("list", lists_.numbers(i), false));
  return out;
}

}  // namespace weft::testing
