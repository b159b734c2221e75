#include "runtime/ring/transfers.h"

#include <algorithm>

namespace weft {

namespace {

/// Those of the rows that a rank owns.
ring::Needs owned(const ring::Needs& needs, const ring::Runs& own) {
  ring::Needs out{.sets = {}, .of = needs.of, .kv_heads = needs.kv_heads};
  for (const auto& set : needs.sets) {
    auto& runs = out.sets.emplace_back();
    for (const auto& run : set) {
      for (const auto& mine : own) {
        if (const auto both = ring::common(run, mine)) runs.push_back(*both);
      }
    }
  }
  return out;
}

}  // namespace

void Transfers::add(std::vector<Message>& to, int peer, ring::Needs rows, const Arena& arena) {
  const auto bytes = arena.bytes_of(rows);
  if (bytes > 0) to.push_back({.peer = peer, .rows = std::move(rows), .bytes = bytes});
}

std::size_t Transfers::place(Messages& messages, Room room, std::size_t& most) {
  std::size_t all = 0, used = 0;
  for (auto& step : messages) {
    if (room == Room::of_one) used = 0;
    for (auto& message : step) {
      message.begin = used;
      used += message.bytes;
      all += message.bytes;
    }
    most = std::max(most, used);
  }
  return all;
}

Result<Transfers> Transfers::make(const NeedsOf& needs_of, const ring::Split& split, int rank, const Arena& arena,
                                  const std::shared_ptr<KernelMemory>& memory, Room room) {
  Transfers made;
  const auto steps = [&](std::size_t count) {
    made.steps_ = std::max(made.steps_, count);
    made.sends_.resize(made.steps_);
    made.receives_.resize(made.steps_);
  };
  const std::int64_t group = split.group_of(rank);
  const auto mine = needs_of(group);
  steps(mine.size());
  for (const auto& needs : mine) made.needed_ += arena.bytes_of(needs);
  const auto& own = split.computed(rank);
  for (std::int64_t other = 0; other < split.groups.ranks(); ++other) {
    if (other == group) continue;
    const auto peer = static_cast<int>(split.rank_of(other, split.lane_of(rank)));
    const auto& others = split.computed(peer);
    for (std::size_t p = 0; p < mine.size(); ++p) add(made.receives_[p], peer, owned(mine[p], others), arena);
    const auto theirs = needs_of(other);
    steps(theirs.size());
    for (std::size_t p = 0; p < theirs.size(); ++p) add(made.sends_[p], peer, owned(theirs[p], own), arena);
  }
  std::size_t in = 0, out = 0;
  made.received_ = place(made.receives_, room, in);
  made.sent_ = place(made.sends_, room, out);
  WEFT_TRY(made.in_, KernelBytes::make(memory, in));
  WEFT_TRY(made.out_, KernelBytes::make(memory, out));
  return made;
}

Status Transfers::post(Link& link, const Arena& arena) {
  for (const auto& step : sends_) {
    for (const auto& message : step) WEFT_CHECK(arena.pack(message.rows, out_, message.begin));
  }
  WEFT_CHECK(arena.settle());
  for (std::size_t p = 0; p < steps_; ++p) {
    WEFT_TRY(const auto step, queue(p, link));
    if (p == 0) first_ = step - 1;
  }
  return done;
}

Result<std::uint64_t> Transfers::post(std::size_t number, Link& link, const Arena& arena) const {
  for (const auto& message : sends_[number]) WEFT_CHECK(arena.pack(message.rows, out_, message.begin));
  WEFT_CHECK(arena.settle());
  return queue(number, link);
}

Result<std::uint64_t> Transfers::queue(std::size_t number, Link& link) const {
  std::vector<Transport::Part> sends, receives;
  for (const auto& message : sends_[number]) sends.push_back(out_.part(message.peer, message.begin, message.bytes));
  for (const auto& message : receives_[number])
    receives.push_back(in_.part(message.peer, message.begin, message.bytes));
  return link.post(sends, receives);
}

Status Transfers::unpack(std::size_t number, Arena& arena) const {
  for (const auto& message : receives_[number]) WEFT_CHECK(arena.unpack(message.rows, in_, message.begin));
  return done;
}

}  // namespace weft
