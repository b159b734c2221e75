#pragma once

#include "compiler/ring/portions.h"
#include "runtime/ring/arena.h"
#include "runtime/ring/link.h"

#include <vector>

namespace weft {

/// What one rank sends and receives, portion by portion: both sides of a message know its rows and their order, so it
/// has no header. Bytes travel from and to buffers of the ring's own.
class Transfers {
 public:
  /// `portions` are this rank's own.
  Transfers(const ring::Relation& relation, const ring::OwnerMap& map, int rank,
            const std::vector<ring::Portion>& portions, const Arena& arena);

  /// Begins all steps, one for each portion that any rank has. After it, `done()` steps of the link are this run's
  /// last.
  Status post(Link& link, const Arena& arena);
  /// The number that Link::wait takes for the keys of portion `number`, and for the last step.
  std::uint64_t step_of(std::size_t number) const { return first_ + number + 1; }
  std::uint64_t last_step() const { return first_ + steps_; }
  /// Puts what came for a portion in its place.
  void unpack(std::size_t number, Arena& arena) const;

  std::size_t received_bytes() const { return in_.size(); }
  std::size_t sent_bytes() const { return out_.size(); }

 private:
  struct Message {
    int peer = 0;
    ring::Needs rows;
    std::size_t begin = 0, bytes = 0;  ///< in its buffer
  };
  using Messages = std::vector<std::vector<Message>>;  ///< by portion
  static void add(std::vector<Message>& to, int peer, ring::Needs rows, const Arena& arena, std::size_t& used);

  std::size_t steps_ = 0;
  std::uint64_t first_ = 0;
  Messages sends_, receives_;
  std::vector<std::byte> in_, out_;
};

}  // namespace weft
