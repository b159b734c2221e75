#pragma once

#include "compiler/ring/split.h"
#include "runtime/ring/link.h"
#include "runtime/ring/memory.h"

#include <weft/ring.h>

#include <cstddef>
#include <span>
#include <vector>

namespace weft {

/// Heads change places inside a group of ranks (ring::Split): before a rank computes, tensors of the rows of its group
/// for its heads come together, and behind it results go back to whoever owns the rows. Both sides of a message know
/// what it holds, so it has no header.
class Exchange {
 public:
  struct Tensor {
    std::int64_t of_key_head = 1;  ///< heads of it for each head of K and V
    std::int64_t dim = 1;
    DType dtype = DType::f32;
    bool by_head = false;       ///< [B, heads, n] as LSE is; else [B, n, heads, dim]
    std::int64_t branches = 0;  ///< of an LSE of each: [branches, B, heads, n]
  };
  /// `messages`: where they lie.
  static Result<Exchange> make(const std::shared_ptr<KernelMemory>& memory,
                               const std::shared_ptr<KernelMemory>& messages, const ring::Split& split, int rank,
                               std::int64_t batch, const std::vector<Tensor>& before,
                               const std::vector<Tensor>& behind);

  /// Collective: `own` has all heads of this rank's rows, in the order of `before`; one without data is zeros.
  Status to_heads(Link& link, std::span<const TensorView> own);
  /// What came together, and where results are to be: rows of the group, this rank's heads.
  OutputView before(std::size_t number) const { return before_[number].view; }
  OutputView behind(std::size_t number) const { return behind_[number].view; }
  /// Instead of memory of its own: such a view.
  void place_before(std::size_t number, const OutputView& where);
  /// Collective: `own` gets all heads of this rank's rows, in the order of `behind`; one without data gets nothing.
  Status to_rows(Link& link, std::span<const OutputView> own);

  std::size_t needed_bytes() const { return needed_; }
  std::size_t sent_bytes() const { return sent_; }

 private:
  /// Where the rows of a tensor stand, of some heads; strides count bytes.
  struct Place {
    std::byte* data = nullptr;
    std::int64_t branch = 0, entry = 0, row = 0, head = 0;
  };
  struct Held {
    Tensor tensor;
    KernelBytes memory;
    OutputView view;  ///< of the group's rows
  };
  /// Of a tensor: some rows, and of each some heads of K and V.
  struct Block {
    std::int64_t first_row = 0, rows = 0, first_head = 0, heads = 0;
  };
  struct Member {
    int rank = 0;
    Block rows_of_group;  ///< its rows there, this rank's heads
    Block heads_of_own;   ///< this rank's own rows, its heads
  };
  using BlockOf = Block Member::*;

  Exchange() = default;
  Result<Held> held(const Tensor& tensor, std::int64_t rows) const;
  template <typename Pointer>
  static Place place_of(const Tensor& tensor, const View<Pointer>& view);
  std::size_t bytes_of(const Tensor& tensor, const Block& block) const;
  std::size_t bytes_of(const std::vector<Held>& tensors, const Block& block) const;
  /// Calls use(lines in their place, bytes of each, how many) in the order in which they travel.
  template <typename Use>
  Status each(const Tensor& tensor, const Place& place, const Block& block, const Use& use) const;
  /// To and from byte `begin` on of a message. What has no data is zeros, and lost.
  Status pack(const Tensor& tensor, const Place& place, const Block& block, const KernelBytes& to,
              std::size_t begin) const;
  Status unpack(const Tensor& tensor, const Place& place, const Block& block, const KernelBytes& from,
                std::size_t begin) const;
  /// To each member its block of what stands at `from`, and from each its block to where it stands at `to`.
  Status exchange(Link& link, const std::vector<Held>& tensors, const std::vector<Place>& from, BlockOf sent,
                  const std::vector<Place>& to, BlockOf received);

  std::shared_ptr<KernelMemory> memory_;
  std::vector<Member> members_;
  std::size_t me_ = 0;  ///< of the members
  std::int64_t batch_ = 1;
  std::vector<Held> before_, behind_;
  std::size_t needed_ = 0, sent_ = 0;
  KernelBytes in_, out_;  ///< a member's message behind the other's; its own stays in `out_`
};

}  // namespace weft
