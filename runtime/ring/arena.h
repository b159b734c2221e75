#pragma once

#include "compiler/base/result.h"
#include "compiler/ring/relation.h"
#include "runtime/ring/memory.h"

#include <weft/ring.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace weft {

/// Tensors of a whole sequence by position, of which a rank fills in its own rows and those that it needs. The others
/// are address space without memory, and read as zeros: kernels know of no holes. Each head's rows lie side by side: at
/// a distance of many heads they would share few lines of a cache.
class Arena {
 public:
  struct Tensor {
    std::int64_t heads = 1, dim = 1;
    DType dtype = DType::f32;
    bool by_head = false;       ///< seen as [B, heads, n] as LSE is, with a dim of 1; else as [B, n, heads, dim]
    std::int64_t branches = 0;  ///< of an LSE of each: [branches, B, heads, n]
  };
  /// Tokens whose rows will be there: the rank's own, and of others.
  struct Present {
    const ring::Runs& own;
    std::vector<ring::Needs> others = {};
  };
  static Result<Arena> make(std::shared_ptr<KernelMemory> memory, const ir::Shape& shape,
                            const std::vector<Tensor>& tensors, const Present& present);
  /// From here on the first row is this token's, and no token before it is asked for.
  void begin_at(std::int64_t token) { first_ = token; }

  OutputView whole(std::size_t number) const;
  TensorView read(std::size_t number) const;
  /// Rows of one run of consecutive tokens.
  OutputView rows(std::size_t number, const ring::Run& run) const;

  /// The rank's own rows of a tensor, in the order of `own`.
  Status copy_in(std::size_t number, const ring::Runs& own, const TensorView& from);
  Status copy_out(std::size_t number, const ring::Runs& own, const OutputView& to) const;
  /// Rows of one tensor after the other, for each batch entry and head, to and from byte `begin` on of a message; as
  /// many bytes as `bytes_of`. They are there when the memory has settled.
  Status pack(const ring::Needs& rows, const KernelBytes& message, std::size_t begin) const;
  Status unpack(const ring::Needs& rows, const KernelBytes& message, std::size_t begin);
  Status settle() const { return bytes_.memory().settle(); }
  std::size_t bytes_of(const ring::Needs& rows) const;

 private:
  struct Placed {
    Tensor tensor;
    std::size_t begin = 0, row = 0;  ///< bytes: where it begins; of one head's row
  };
  static std::int64_t branches_of(const Placed& of) { return std::max<std::int64_t>(1, of.tensor.branches); }
  Arena() = default;
  std::vector<ByteRange> used_by(const Present& present) const;
  /// Where a row is, in bytes from the first.
  std::size_t place_of(const Placed& of, std::int64_t branch, std::int64_t entry, std::int64_t head,
                       std::int64_t token) const;
  /// A run's rows of one head.
  Lines lines_of(const Placed& of, std::int64_t branch, std::int64_t entry, std::int64_t head,
                 const ring::Run& run) const;
  /// Calls use(lines, bytes of each, how many) in the order that rows travel in.
  template <typename Use>
  Status each_run(const ring::Needs& rows, const Use& use) const;
  /// Calls use(lines here, lines in `view`, bytes of each, how many) for own rows.
  template <typename Pointer, typename Use>
  Status each_own(std::size_t number, const ring::Runs& own, const View<Pointer>& view, const Use& use) const;

  ir::Shape shape_;
  std::int64_t first_ = 0;
  std::vector<Placed> tensors_;
  KernelBytes bytes_;
};

}  // namespace weft
