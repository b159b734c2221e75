#pragma once

#include "runtime/ring/transfers.h"

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace weft {

/// A rank's rows with all their keys, of which no more than two rounds are in memory: all ranks go through the keys
/// from left to right, and while one round is computed the next comes. What the keys so far gave a row is its state.
class Rounds {
 public:
  /// `messages`: where they lie. User error where the kernel cannot.
  static Result<Rounds> make(const Kernel& kernel, const std::shared_ptr<KernelMemory>& memory,
                             const std::shared_ptr<KernelMemory>& messages, const ring::Relation& relation,
                             const ring::Split& split, int rank, const ir::Shape& shape, DType dtype);
  Status run(Link& link, const RingArgs& args, double& wait_ms);

  std::size_t needed_bytes() const { return transfers_.needed_bytes(); }
  std::size_t received_bytes() const { return transfers_.received_bytes(); }
  std::size_t sent_bytes() const { return transfers_.sent_bytes(); }

 private:
  /// Rows of one run, whose states stand side by side.
  struct Rows {
    ring::Run run;
    std::int64_t local = 0;   ///< its first, of the rank's rows
    std::vector<bool> keeps;  ///< by round, any key of it
    std::size_t states = 0;   ///< bytes: where they begin
  };

  Rounds(const Kernel& kernel, const ir::Shape& shape, std::int64_t keys, std::array<Arena, 2> arenas,
         Transfers transfers)
      : kernel_(kernel), shape_(shape), keys_(keys), arenas_(std::move(arenas)), transfers_(std::move(transfers)) {}
  Arena& arena_of(std::size_t round) { return arenas_[round % 2]; }
  ring::Run tokens_of(std::size_t round) const;
  Result<std::uint64_t> begin(std::size_t round, Link& link, const RingArgs& args);
  Status compute(std::size_t round, const RingArgs& args);

  Kernel kernel_;
  ir::Shape shape_;
  std::int64_t keys_ = 0;  ///< of a round
  std::array<Arena, 2> arenas_;
  Transfers transfers_;
  std::vector<Rows> rows_;
  KernelBytes states_;  ///< of each row that of the rounds so far, and of the one at hand
};

}  // namespace weft
