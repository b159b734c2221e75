#pragma once

#include "codegen/args.h"
#include "compiler/base/result.h"
#include "compiler/ir/few_rows.h"
#include "compiler/ir/plan.h"
#include "compiler/ir/tables.h"
#include "compiler/ir/tensor.h"
#include "tests/codegen/stored_lists.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

/// The memory and the argument block of one run of a kernel on f64 tensors, the same for every backend that
/// computes in the memory of this process.
namespace weft::testing {

/// How a tensor is laid out for the kernel.
struct Layout {
  bool head_major = false;   ///< [B, H, n, d] instead of [B, n, H, d]
  std::int64_t row_gap = 0;  ///< unused elements behind each row
};

struct RunOptions {
  Layout layout = {};
  std::int64_t tiles_per_call = 0;  ///< 0: all in one call
  bool deny_all = false;            ///< summaries of conditions say that no key meets any
};

/// To the nearest value of the type, as f64.
double rounded(double value, ir::DType dtype);
ir::Tensor rounded(ir::Tensor values, ir::DType dtype);

/// Normal random values, each one of f32.
ir::Tensor normal(std::vector<std::int64_t> shape, unsigned seed);

/// A tensor [B, n, H, d] in memory as the kernel sees it. Everything that no element lies on is NaN.
class Stored {
 public:
  Stored(const std::vector<std::int64_t>& shape, const Layout& layout, ir::DType dtype);
  void put(const ir::Tensor& t);
  ir::Tensor get() const;
  std::int64_t bytes() const { return bytes_used_; }  ///< to the end of the last element

  weft_view view{};

 private:
  template <typename Use>
  void each(const Use& use) const;

  std::vector<std::int64_t> shape_;
  ir::DType dtype_;
  std::size_t size_;
  std::int64_t bytes_used_ = 0;
  std::vector<unsigned char> bytes_;
};

/// An input of any type and rank in memory; its last axis is contiguous, rows of it are apart by `layout.row_gap`.
class StoredInput {
 public:
  StoredInput(const ir::Tensor& values, ir::InputType type, const Layout& layout);

  weft_input view{};
  std::vector<unsigned char> bytes;
};

/// Memory that a kernel may touch.
struct Span {
  std::string name;
  const void* begin = nullptr;
  std::int64_t bytes = 0;
  bool writable = false;
};

class Arguments {
 public:
  /// Values are rounded to the bound dtype on the way in; outputs are poisoned.
  static Result<Arguments> make(const ir::Plan& plan, const ir::Shape& shape, const ir::Tensor& q, const ir::Tensor& k,
                                const ir::Tensor& v, const std::vector<ir::Tensor>& inputs, const Layout& layout);

  /// Calls the kernel for each phase and each `tiles_per_call` tiles of it, with phase and range of tiles set.
  Status each_call(std::int64_t tiles_per_call, const std::function<Status(const weft_args&)>& call);

  /// From here on summaries say that no key meets a condition: a kernel that asks them finds nothing.
  void deny_all();

  /// GPUs: the text that such a launch needs. It cuts no keys, but heads may stand in one tile.
  ir::Regime regime() const {
    if (decodes_) return ir::Regime::decoding;
    return args.heads_per_tile > 1 ? ir::Regime::few_queries : ir::Regime::many_queries;
  }
  int threads() const { return plan_.choices.threads; }  ///< of a block

  ir::Outcome outcome() const;      ///< `max_abs_score` is not set
  std::vector<Span> spans() const;  ///< all memory the argument block points to, to the byte
  std::int64_t most_terms() const { return tables_.most_terms; }

  weft_args args{};

 private:
  Arguments(const ir::Plan& plan, const ir::Shape& shape, const Layout& layout);
  void fill();

  bool decodes_;
  ir::Plan plan_;  ///< of the regime
  ir::Shape shape_;
  std::vector<ir::Tensor> inputs_;
  ir::Tables tables_;
  Stored q_, k_, v_, o_;
  std::vector<float> lse_, branch_lse_, carry_;
  std::vector<std::int64_t> offsets_;
  std::vector<StoredInput> stored_inputs_;
  StoredLists lists_;
};

}  // namespace weft::testing
