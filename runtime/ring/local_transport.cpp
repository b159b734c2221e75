#include "compiler/base/guarded.h"

#include <weft/ring.h>

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>

namespace weft {

namespace {

using Clock = std::chrono::steady_clock;

/// What the ranks of one process share.
struct Hub {
  struct Member {
    Clock::time_point last_sign = Clock::now();
    std::uint64_t begun = 0;
    bool left = false, gave_up = false;
    std::string why = {};
  };
  std::mutex mutex;
  std::vector<Member> members;
  /// Messages on their way: by receiver, sender and step.
  std::map<std::tuple<int, int, std::uint64_t>, std::vector<std::byte>> messages;
};

Error lost(std::string message, ErrorCode code = ErrorCode::ring_lost) {
  auto error = environment_error(std::move(message));
  error.code = code;
  return error;
}

class LocalTransport final : public Transport {
 public:
  LocalTransport(std::shared_ptr<Hub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}
  ~LocalTransport() override {
    const std::lock_guard lock(hub_->mutex);
    me().left = true;
  }

  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(hub_->members.size()); }

  Status post(std::uint64_t step, std::span<const Part> sends, std::span<const Part> receives) override {
    return guarded([&]() -> Status {
      const std::lock_guard lock(hub_->mutex);
      me().last_sign = Clock::now();
      ++me().begun;
      for (const auto& part : sends) {
        const auto* const data = static_cast<const std::byte*>(part.data);
        hub_->messages[{part.peer, rank_, step}].assign(data, data + part.bytes);
      }
      waiting_.push_back({step, {receives.begin(), receives.end()}});
      return done;
    });
  }

  Result<Progress> poll() override {
    return guarded([&]() -> Result<Progress> {
      const std::lock_guard lock(hub_->mutex);
      me().last_sign = Clock::now();
      for (auto& [step, receives] : waiting_) {
        for (auto part = receives.begin(); part != receives.end();) {
          const auto at = hub_->messages.find({rank_, part->peer, step});
          if (at == hub_->messages.end()) {
            ++part;
            continue;
          }
          if (at->second.size() != part->bytes) {
            return lost(fmt::format("rank {} sent {} bytes in step {}, rank {} expected {}", part->peer,
                                    at->second.size(), step, rank_, part->bytes),
                        ErrorCode::ring_transport);
          }
          std::copy(at->second.begin(), at->second.end(), static_cast<std::byte*>(part->data));
          hub_->messages.erase(at);
          part = receives.erase(part);
        }
      }
      for (; !waiting_.empty() && waiting_.front().receives.empty(); waiting_.pop_front()) ++done_;
      Progress out{.done = done_};
      for (const auto& step : waiting_) {
        for (const auto& part : step.receives) out.waits_for.push_back(part.peer);
      }
      std::sort(out.waits_for.begin(), out.waits_for.end());
      out.waits_for.erase(std::unique(out.waits_for.begin(), out.waits_for.end()), out.waits_for.end());
      for (int peer = 0; peer < ranks(); ++peer) {
        const auto& member = hub_->members[static_cast<std::size_t>(peer)];
        if (member.gave_up && peer != rank_) return lost(fmt::format("rank {} gave up: {}", peer, member.why));
        if (member.left && std::binary_search(out.waits_for.begin(), out.waits_for.end(), peer))
          return lost(fmt::format("rank {} has left the ring, and rank {} waits for it", peer, rank_));
        out.begun.push_back(member.begun);
        out.silent_ms.push_back(
            std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - member.last_sign).count());
      }
      return out;
    });
  }

  /// The first to give up is the one that the others hear of.
  void abandon(const std::string& why) noexcept override {
    (void)guarded([&]() -> Status {
      const std::lock_guard lock(hub_->mutex);
      if (std::any_of(hub_->members.begin(), hub_->members.end(), [](const auto& m) { return m.gave_up; })) return done;
      me().gave_up = true;
      me().why = why;
      return done;
    });
  }

 private:
  Hub::Member& me() { return hub_->members[static_cast<std::size_t>(rank_)]; }

  struct Waiting {
    std::uint64_t step;
    std::vector<Part> receives;
  };
  std::shared_ptr<Hub> hub_;
  int rank_;
  std::uint64_t done_ = 0;
  std::deque<Waiting> waiting_;
};

}  // namespace

Transport::~Transport() = default;

Result<std::vector<std::unique_ptr<Transport>>> local_transports(int ranks) {
  return guarded([&]() -> Result<std::vector<std::unique_ptr<Transport>>> {
    if (ranks < 1) return user_error(fmt::format("a ring has at least one rank, not {}", ranks));
    const auto hub = std::make_shared<Hub>();
    hub->members.resize(static_cast<std::size_t>(ranks));
    std::vector<std::unique_ptr<Transport>> out;
    for (int rank = 0; rank < ranks; ++rank) out.push_back(std::make_unique<LocalTransport>(hub, rank));
    return out;
  });
}

}  // namespace weft
