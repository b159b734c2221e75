#pragma once

#include "runtime/ring/arena.h"
#include "runtime/ring/link.h"

#include <functional>
#include <vector>

namespace weft {

/// What one rank sends to and receives from the same lane of other groups, step by step: both sides of a message know
/// its rows and their order, so it has no header. Bytes travel from and to buffers of the ring's own.
class Transfers {
 public:
  /// What the rows of a group need of others, a step each, of the rank's heads.
  using NeedsOf = std::function<std::vector<ring::Needs>(std::int64_t group)>;
  /// Do all steps have room of their own, or the same, as each is posted when the one before is done with?
  enum class Room { of_all, of_one };
  /// `memory`: where messages lie.
  static Result<Transfers> make(const NeedsOf& needs_of, const ring::Split& split, int rank, const Arena& arena,
                                const std::shared_ptr<KernelMemory>& memory, Room room = Room::of_all);

  /// Begins all steps, as many as any rank has. After it, `last_step()` is the link's last.
  Status post(Link& link, const Arena& arena);
  /// Begins one; the number that Link::wait takes for it.
  Result<std::uint64_t> post(std::size_t number, Link& link, const Arena& arena) const;
  std::size_t steps() const { return steps_; }
  /// The number that Link::wait takes for step `number`, and for the last one.
  std::uint64_t step_of(std::size_t number) const { return first_ + number + 1; }
  std::uint64_t last_step() const { return first_ + steps_; }
  /// Puts what came in a step in its place.
  Status unpack(std::size_t number, Arena& arena) const;

  std::size_t needed_bytes() const { return needed_; }
  std::size_t received_bytes() const { return received_; }
  std::size_t sent_bytes() const { return sent_; }

 private:
  Transfers() = default;
  struct Message {
    int peer = 0;
    ring::Needs rows;
    std::size_t begin = 0, bytes = 0;  ///< in its buffer
  };
  using Messages = std::vector<std::vector<Message>>;  ///< by step
  Result<std::uint64_t> queue(std::size_t number, Link& link) const;
  /// Lays messages out; what they take.
  static std::size_t place(Messages& messages, Room room, std::size_t& most);
  static void add(std::vector<Message>& to, int peer, ring::Needs rows, const Arena& arena);

  std::size_t steps_ = 0, needed_ = 0, received_ = 0, sent_ = 0;
  std::uint64_t first_ = 0;
  Messages sends_, receives_;
  KernelBytes in_, out_;
};

}  // namespace weft
