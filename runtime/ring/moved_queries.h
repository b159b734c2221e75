#pragma once

#include "runtime/engine/kernel_state.h"
#include "runtime/ring/arena.h"
#include "runtime/ring/link.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace weft {

/// Rows whose queries go to the keys (ring::Moved): ranks that have chunks of keys get rows of Q from whoever owns
/// them, and send back what their chunks kept of each, which the owner merges. Both sides of a message know what it
/// holds.
class MovedQueries {
 public:
  /// `messages`: where they lie.
  static Result<MovedQueries> make(const Kernel& kernel, std::shared_ptr<KernelMemory> memory,
                                   const std::shared_ptr<KernelMemory>& messages, const ring::Split& split, int rank,
                                   const ir::Shape& shape, DType dtype);

  /// Begins: rows of Q that others own come, and this rank's, of `q`, go.
  Status post_queries(Link& link, const TensorView& q);
  /// Chunks of keys that this rank has, of all rows, when `Arena` has the keys.
  Status compute(Link& link, const ring::Keys& keys, const Arena& arena, const RingArgs& args, double& wait_ms);
  /// What chunks kept goes to the owners, and becomes the rows of `args` that this rank owns.
  Status finish(Link& link, const Arena& arena, const RingArgs& args, double& wait_ms);

  std::size_t needed_bytes() const { return in_queries_.size() + in_states_.size(); }
  std::size_t sent_bytes() const { return sent_; }

 private:
  /// Rows of one run of an owner's.
  struct Rows {
    ring::Run run;
    int owner = 0;
    std::int64_t local = 0;  ///< of the owner's rows, its first
    std::size_t begin = 0;   ///< bytes: where it stands in `queries_`, and of own ones …
    std::size_t states = 0;  ///< … their states of all chunks in `merged_`
  };
  /// What chunks [first, end) kept of some rows; `begin`: where it stands in `kept_`, or in a message.
  struct Kept {
    std::size_t rows = 0;
    std::int64_t first = 0, end = 0;
    std::size_t begin = 0;
  };
  using Stretch = std::pair<std::int64_t, std::int64_t>;

  MovedQueries(const Kernel& kernel, const ring::Split& split, int rank, const ir::Shape& shape, DType dtype)
      : kernel_(kernel), split_(split), rank_(rank), shape_(shape), dtype_(dtype) {}
  bool has_chunks(std::int64_t rank) const { return !stretches_[static_cast<std::size_t>(rank)].empty(); }
  std::size_t bytes_of_queries(const Rows& rows) const;
  std::size_t bytes_of_states(const Rows& rows, std::int64_t chunks) const;
  /// Of the ranks' chunks, the states of `owner`'s rows, one behind the other from `begin` on.
  std::vector<Kept> kept_of(std::int64_t rank, int owner, std::size_t& begin) const;
  Status take_queries(Link& link, double& wait_ms);
  Status merge(const Kept& kept, const KernelBytes& from);

  Kernel kernel_;
  ring::Split split_;
  int rank_ = 0;
  ir::Shape shape_;
  DType dtype_ = DType::f32;
  std::shared_ptr<KernelMemory> memory_;
  std::vector<Rows> rows_;                       ///< by owner, and in it by position
  std::vector<std::vector<Stretch>> stretches_;  ///< of each rank
  std::vector<Kept> mine_;                       ///< of this rank's chunks
  KernelBytes queries_, kept_, merged_;          ///< in the kernel's memory
  KernelBytes in_queries_, out_queries_, in_states_, out_states_;
  std::size_t sent_ = 0;
  std::uint64_t queries_step_ = 0;
  bool arrived_ = false;
};

}  // namespace weft
