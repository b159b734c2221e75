#pragma once

#include "compiler/base/result.h"
#include "compiler/ring/relation.h"

#include <weft/ring.h>

#include <cstddef>
#include <span>

namespace weft {

/// K and V of a whole sequence by position, of which a rank fills in its own rows and those that it needs. The others
/// are address space without memory, and read as zeros: kernels know of no holes.
class Arena {
 public:
  static Result<Arena> make(const ir::Shape& shape, DType dtype);
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&&) = delete;
  ~Arena();

  TensorView k() const { return view(0, shape_.d, shape_.n_k); }
  TensorView v() const { return view(k_bytes_, shape_.d_v, shape_.n_k); }
  /// Rows of one run of consecutive tokens.
  OutputView k_of(const ring::Run& run) const { return rows(0, shape_.d, run); }
  OutputView v_of(const ring::Run& run) const { return rows(k_bytes_, shape_.d_v, run); }

  /// The rank's own rows, in the order of `own`.
  void copy_in(const ring::Runs& own, const TensorView& k, const TensorView& v);
  /// Rows of K, then of V, for each batch entry and kv head; as many bytes as `bytes_of`.
  void pack(const ring::Needs& rows, std::byte* to) const;
  void unpack(const ring::Needs& rows, const std::byte* from);
  std::size_t bytes_of(const ring::Needs& rows) const;

 private:
  Arena() = default;
  TensorView view(std::size_t begin, std::int64_t dim, std::int64_t count) const;
  OutputView rows(std::size_t begin, std::int64_t dim, const ring::Run& run) const;
  /// Calls use(address of a row, its bytes) for all rows, in the order that they travel in.
  template <typename Use>
  void each_row(const ring::Needs& rows, const Use& use) const;

  ir::Shape shape_;
  DType dtype_ = DType::f32;
  std::byte* memory_ = nullptr;
  std::size_t k_bytes_ = 0, bytes_ = 0;
};

}  // namespace weft
