#include "tests/codegen/cpu_runner.h"

#include "codegen/args.h"
#include "codegen/cpu/emit.h"
#include "codegen/tables_image.h"
#include "compiler/ir/schedule.h"
#include "compiler/planner/planner.h"
#include "runtime/llvm/compile.h"
#include "runtime/object/loaded_object.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>

namespace weft::testing {
namespace {

std::uint16_t to_half(double value, ir::DType dtype) {
  if (dtype == ir::DType::f16) {
    const auto half = static_cast<_Float16>(value);
    std::uint16_t bits;
    std::memcpy(&bits, &half, 2);
    return bits;
  }
  const auto single = static_cast<float>(value);
  std::uint32_t bits;
  std::memcpy(&bits, &single, 4);
  if (std::isnan(single)) return 0x7FC0;
  return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

double from_half(std::uint16_t bits, ir::DType dtype) {
  if (dtype == ir::DType::f16) {
    _Float16 half;
    std::memcpy(&half, &bits, 2);
    return static_cast<double>(half);
  }
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  float single;
  std::memcpy(&single, &wide, 4);
  return static_cast<double>(single);
}

/// A tensor [B, n, H, d] in memory as the kernel sees it.
class Stored {
 public:
  Stored(const std::vector<std::int64_t>& shape, const Layout& layout, ir::DType dtype)
      : shape_(shape), dtype_(dtype), size_(static_cast<std::size_t>(ir::size_of(dtype))) {
    const std::int64_t row = shape[3] + layout.row_gap;
    view.stride_n = layout.head_major ? row : shape[2] * row;
    view.stride_h = layout.head_major ? shape[1] * row : row;
    view.stride_b = shape[1] * shape[2] * row;
    // Everything that no element lies on is NaN.
    bytes_.assign(static_cast<std::size_t>(shape[0] * view.stride_b) * size_ + 64, 0xFF);
    view.data = bytes_.data();
  }

  void put(const ir::Tensor& t) {
    each([&](std::size_t from, unsigned char* to) {
      if (dtype_ == ir::DType::f32) {
        const auto single = static_cast<float>(t.data[from]);
        std::memcpy(to, &single, 4);
      } else {
        const std::uint16_t bits = to_half(t.data[from], dtype_);
        std::memcpy(to, &bits, 2);
      }
    });
  }

  ir::Tensor get() {
    ir::Tensor out(shape_);
    each([&](std::size_t at, const unsigned char* from) {
      if (dtype_ == ir::DType::f32) {
        float single;
        std::memcpy(&single, from, 4);
        out.data[at] = static_cast<double>(single);
      } else {
        std::uint16_t bits;
        std::memcpy(&bits, from, 2);
        out.data[at] = from_half(bits, dtype_);
      }
    });
    return out;
  }

  weft_view view{};

 private:
  template <typename Use>
  void each(const Use& use) {
    std::size_t at = 0;
    for (std::int64_t b = 0; b < shape_[0]; ++b) {
      for (std::int64_t n = 0; n < shape_[1]; ++n) {
        for (std::int64_t h = 0; h < shape_[2]; ++h) {
          for (std::int64_t c = 0; c < shape_[3]; ++c, ++at) {
            const std::int64_t element = b * view.stride_b + n * view.stride_n + h * view.stride_h + c;
            use(at, bytes_.data() + static_cast<std::size_t>(element) * size_);
          }
        }
      }
    }
  }

  std::vector<std::int64_t> shape_;
  ir::DType dtype_;
  std::size_t size_;
  std::vector<unsigned char> bytes_;
};

ir::Tensor widened(const std::vector<float>& values, std::vector<std::int64_t> shape) {
  ir::Tensor out(std::move(shape));
  for (std::size_t i = 0; i < values.size(); ++i) out.data[i] = static_cast<double>(values[i]);
  return out;
}

struct AlignedFree {
  void operator()(void* p) const { std::free(p); }
};

Result<std::shared_ptr<const object::LoadedObject>> compile_once(const std::string& text, const Target& target) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const object::LoadedObject>> loaded;
  const std::lock_guard lock(mutex);
  auto& entry = loaded[target.name + "\n" + text];
  if (!entry) {
    WEFT_TRY(const auto library, llvm::Library::open());
    WEFT_TRY(const std::string bytes, llvm::compile(*library, text, target));
    WEFT_TRY(entry, object::LoadedObject::load(bytes, "test kernel"));
  }
  return entry;
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

Result<CpuKernel> CpuKernel::make(const ir::Pattern& pattern, const ir::Bind& bind, const Target& target) {
  WEFT_TRY(const ir::Plan plan, planner::plan(pattern, bind, target));
  return make(plan, target);
}

Result<CpuKernel> CpuKernel::make(const ir::Plan& plan, const Target& target) {
  const codegen::Source source = codegen::cpu::emit(plan, target);
  WEFT_TRY(const auto object, compile_once(source.text, target));
  CpuKernel out;
  out.plan_ = plan;
  out.target_ = target;
  out.object_ = object;
  out.entry_ = reinterpret_cast<void (*)(const void*)>(object->symbol(source.symbol));
  if (out.entry_ == nullptr) return internal_error("the kernel has no entry");
  return out;
}

Result<ir::Outcome> CpuKernel::run(const ir::Shape& shape, const ir::Tensor& q, const ir::Tensor& k,
                                   const ir::Tensor& v, const std::vector<ir::Tensor>& inputs,
                                   const RunOptions& options) const {
  WEFT_TRY(const ir::Tables tables, ir::make_tables(plan_, shape.heads));
  const auto image = codegen::make_image(plan_, tables);
  const auto dtype = plan_.bind.dtype;
  Stored sq(q.shape, options.layout, dtype), sk(k.shape, options.layout, dtype), sv(v.shape, options.layout, dtype);
  Stored so({shape.batch, shape.n_q, shape.heads, shape.d_v}, options.layout, dtype);
  sq.put(q);
  sk.put(k);
  sv.put(v);
  const float poison = std::numeric_limits<float>::quiet_NaN();
  const bool separate = plan_.combine == ir::Combine::sum || plan_.combine == ir::Combine::mean;
  const bool with_branches = separate || plan_.bind.branch_lse;
  const auto rows = static_cast<std::size_t>(shape.batch * shape.heads * shape.n_q);
  std::vector<float> lse(separate ? 0 : rows, poison);
  std::vector<float> branch_lse(with_branches ? rows * static_cast<std::size_t>(plan_.branches) : 0, poison);
  std::vector<float> carry(rows * static_cast<std::size_t>(plan_.carry_bytes_per_row()) / 4, poison);
  std::vector<std::int64_t> offsets =
      shape.offset.empty() ? std::vector<std::int64_t>{shape.n_k - shape.n_q} : shape.offset;
  std::vector<std::vector<std::int32_t>> lengths;
  for (const auto& input : inputs) lengths.emplace_back(input.data.begin(), input.data.end());
  const auto scratch_size = static_cast<std::size_t>(codegen::cpu::scratch_bytes(plan_, target_, image.most_terms));
  const std::unique_ptr<void, AlignedFree> scratch(std::aligned_alloc(64, scratch_size));
  std::memset(scratch.get(), 0xFF, scratch_size);

  weft_args args{};
  args.abi = kWeftArgsAbi;
  args.batch = shape.batch;
  args.n_q = shape.n_q;
  args.n_k = shape.n_k;
  args.heads = shape.heads;
  args.kv_heads = shape.kv_heads;
  args.q = sq.view;
  args.k = sk.view;
  args.v = sv.view;
  args.o = so.view;
  args.lse = lse.empty() ? nullptr : lse.data();
  args.lse_stride_b = shape.heads * shape.n_q;
  args.lse_stride_h = shape.n_q;
  args.branch_lse = branch_lse.empty() ? nullptr : branch_lse.data();
  args.branch_lse_stride = shape.batch * shape.heads * shape.n_q;
  args.branch_lse_stride_b = shape.heads * shape.n_q;
  args.branch_lse_stride_h = shape.n_q;
  args.offsets = offsets.size() > 1 ? offsets.data() : nullptr;
  args.offset = offsets.front();
  args.scale = plan_.scale ? *plan_.scale : 1 / std::sqrt(static_cast<double>(shape.d));
  args.tables = image.words.data();
  args.most_terms = image.most_terms;
  args.carry = carry.data();
  args.scratch = scratch.get();
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    args.inputs[i].data = lengths[i].data();
    args.inputs[i].strides[0] = 1;
    args.inputs[i].extents[0] = static_cast<std::int64_t>(lengths[i].size());
  }
  for (std::size_t p = 0; p < plan_.phases.size(); ++p) {
    std::int64_t tiles = 0;
    for (std::int64_t b = 0; b < shape.batch; ++b) {
      const ir::Extent extent = ir::extent_of(shape, b, ir::Stationary::query, &inputs);
      for (const auto& head : tables.phases[p].head)
        tiles = std::max(tiles, ir::tile_count(plan_.phases[p], head, extent));
    }
    args.phase = static_cast<std::int64_t>(p);
    args.tiles_per_head = tiles;
    const std::int64_t total = tiles * shape.batch * shape.heads;
    const std::int64_t step = options.tiles_per_call > 0 ? options.tiles_per_call : std::max<std::int64_t>(total, 1);
    for (std::int64_t begin = 0; begin < total; begin += step) {
      args.tile_begin = begin;
      args.tile_end = std::min(begin + step, total);
      entry_(&args);
    }
  }
  ir::Outcome out;
  out.o = so.get();
  if (!lse.empty()) out.lse = widened(lse, {shape.batch, shape.heads, shape.n_q});
  if (!branch_lse.empty()) out.branch_lse = widened(branch_lse, {plan_.branches, shape.batch, shape.heads, shape.n_q});
  return out;
}

}  // namespace weft::testing
