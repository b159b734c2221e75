#pragma once

#include "runtime/engine/front.h"
#include "runtime/engine/reference.h"
#include "tests/support/program.h"
#include "tests/support/stored.h"

#include <weft/weft.h>

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace weft::test {

inline bool alike(float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); }

struct Results {
  Bytes out;
  std::vector<float> lse, branch_lse;
};

struct Heads {
  std::int64_t first = 0, count = 0;  ///< 0: all
};

struct Kind {
  bool gradient = false, paged = false;
};

/// A program whose values are made, and a kernel of it.
class Launches {
 public:
  Launches(const Program& program, const std::string& target, Kind kind = {})
      : program_(program), dtype_(from_ir(program.dtype)), pattern_(lowered(program)) {
    if (!pattern_) return;
    const auto& s = program.shape;
    const auto tensors = draw_tensors(s, program.dtype, program.seed);
    q_ = stored(tensors.q, dtype_);
    k_ = stored(tensors.k, dtype_);
    v_ = stored(tensors.v, dtype_);
    const auto values = draw_inputs(*pattern_, s, program.seed);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto& input = pattern_->inputs[i];
      inputs_.push_back(stored(values[i], from_ir(input.type)));
      const auto view = dense(inputs_.back().data(), from_ir(input.type), values[i].shape);
      named_.push_back({.name = input.name, .view = view});
    }
    std::map<std::string, std::string> params;
    for (const auto& define : program.defines) {
      const auto at = define.find('=');
      params[define.substr(0, at)] = define.substr(at + 1);
    }
    static const Engine engine({.no_cache = true});
    kernel_ = engine.compile(program.text, {.pattern = program.pattern,
                                            .params = params,
                                            .dim = s.d,
                                            .dim_v = s.d_v,
                                            .dtype = dtype_,
                                            .branch_lse = program.branch_lse,
                                            .paged = kind.paged,
                                            .gradient = kind.gradient,
                                            .target = target});
  }

  bool ok() const { return kernel_.ok(); }
  const Kernel& kernel() const { return *kernel_; }
  const ir::Pattern& pattern() const { return *pattern_; }
  DType dtype() const { return dtype_; }

  /// Rows [begin, end), and heads; where that is not all, as a slice, or untold as a launch of its own.
  template <typename How>
  Result<Results> run(std::int64_t begin, std::int64_t end, bool told, Heads of, const How& how) {
    const auto& s = program_.shape;
    const std::int64_t group = s.heads / s.kv_heads, heads = of.count > 0 ? of.count : s.heads;
    const std::int64_t rows = end - begin, row = s.heads * s.d, row_out = heads * s.d_v;
    const auto branches = std::ssize(pattern_->branches);
    Results results;
    results.out.assign(static_cast<std::size_t>(s.batch * rows * row_out) * size_of(dtype_), std::byte{0xff});
    results.lse.assign(static_cast<std::size_t>(s.batch * heads * rows), -7);
    results.branch_lse.assign(static_cast<std::size_t>(branches) * results.lse.size(), -7);
    RunArgs args{.q = dense_view(q_.data(), dtype_, {s.batch, rows, s.heads, s.d}),
                 .k = dense_view(k_.data(), dtype_, {s.batch, s.n_k, s.kv_heads, s.d}),
                 .v = dense_view(v_.data(), dtype_, {s.batch, s.n_k, s.kv_heads, s.d_v}),
                 .out = dense_output(results.out.data(), dtype_, {s.batch, rows, heads, s.d_v}),
                 .inputs = named_,
                 .offset = s.offset,
                 .dropout_seed = s.dropout_seed};
    args.q.data = q_.data() + static_cast<std::size_t>(begin * row + of.first * s.d) * size_of(dtype_);
    args.q.stride[0] = s.n_q * row;
    args.k.data = k_.data() + static_cast<std::size_t>(of.first / group * s.d) * size_of(dtype_);
    args.v.data = v_.data() + static_cast<std::size_t>(of.first / group * s.d_v) * size_of(dtype_);
    args.q.extent[2] = heads;
    args.k.extent[2] = args.v.extent[2] = heads / group;
    if (!ir::per_branch(pattern_->combine) && ir::has_lse(*pattern_))
      args.lse = dense_output(results.lse.data(), DType::f32, {s.batch, heads, rows});
    if (program_.branch_lse)
      args.branch_lse = dense_output(results.branch_lse.data(), DType::f32, {branches, s.batch, heads, rows});
    if (told && rows < s.n_q) args.slice = {.first = begin, .of = s.n_q};
    if (told && heads < s.heads) args.head_slice = {.first = of.first, .of = s.heads};
    const std::array<std::int64_t, 1> moved = {s.offset_of(0) + begin};
    if (!told) args.offset = moved;
    WEFT_CHECK(how(*kernel_, args));
    return results;
  }
  Result<Results> run(std::int64_t begin, std::int64_t end, bool told = true, Heads of = {}) {
    return run(begin, end, told, of, [](const Kernel& kernel, const RunArgs& args) { return kernel.run(args); });
  }

  /// The rows of a slice that differ from the whole's, in words; empty: none.
  std::string difference(const Results& whole, std::int64_t begin, std::int64_t end, bool told = true, Heads of = {}) {
    const auto slice = run(begin, end, told, of);
    return slice ? difference(whole, *slice, begin, end, of) : slice.error().message;
  }
  std::string difference(const Results& whole, const Results& slice, std::int64_t begin, std::int64_t end,
                         Heads of = {}) const {
    const auto& s = program_.shape;
    const std::int64_t rows = end - begin, heads = of.count > 0 ? of.count : s.heads;
    const auto head = static_cast<std::size_t>(s.d_v) * size_of(dtype_), bytes = static_cast<std::size_t>(heads) * head;
    std::string out;
    for (std::int64_t b = 0; b < s.batch; ++b) {
      for (std::int64_t r = 0; r < rows; ++r) {
        const auto* const mine = &slice.out[static_cast<std::size_t>(b * rows + r) * bytes];
        const auto* const its =
            &whole.out[static_cast<std::size_t>((b * s.n_q + begin + r) * s.heads + of.first) * head];
        bool same = std::memcmp(mine, its, bytes) == 0;
        for (std::int64_t h = 0; h < heads; ++h) {
          const auto at = static_cast<std::size_t>((b * heads + h) * rows + r);
          const auto of_whole = static_cast<std::size_t>((b * s.heads + of.first + h) * s.n_q + begin + r);
          same = same && alike(slice.lse[at], whole.lse[of_whole]);
          for (std::size_t i = 0; i < pattern_->branches.size(); ++i) {
            same = same && alike(slice.branch_lse[i * slice.lse.size() + at],
                                 whole.branch_lse[i * whole.lse.size() + of_whole]);
          }
        }
        if (!same) out += fmt::format(" {}:{}", b, begin + r);
      }
    }
    if (!out.empty()) {
      out = fmt::format("rows {}..{} of {}, heads {}..{}: entry and row{} differ", begin, end, s.n_q, of.first,
                        of.first + heads, out);
    }
    return out;
  }

 private:
  const Program& program_;
  DType dtype_;
  Result<ir::Pattern> pattern_;
  Bytes q_, k_, v_;
  std::vector<Bytes> inputs_;
  std::vector<NamedInput> named_;
  Result<Kernel> kernel_ = user_error("nothing was compiled");
};

}  // namespace weft::test
