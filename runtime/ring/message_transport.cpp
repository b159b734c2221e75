#include "compiler/base/guarded.h"

#include <weft/ring.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>

namespace weft {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// Messages of one step have one tag. Those with the same one keep their order, so that numbers may come again.
constexpr int kSignTag = 1, kFirstTag = 2, kTags = Messenger::kMostTag - kFirstTag + 1;
constexpr std::size_t kMostBytes = std::size_t{1} << 30;  // of one message

/// What tells others that a rank lives, and what it has begun or why it gave up.
struct Sign {
  std::uint64_t begun = 0;
  std::array<char, 248> gave_up = {};
};

Error broken(const std::string& what, ErrorCode code = ErrorCode::ring_transport) {
  auto error = environment_error(what);
  error.code = code;
  return error;
}

class MessageTransport final : public Transport {
 public:
  explicit MessageTransport(std::unique_ptr<Messenger> messenger)
      : messenger_(std::move(messenger)),
        rank_(messenger_->rank()),
        peers_(static_cast<std::size_t>(messenger_->ranks())) {}
  ~MessageTransport() override { cancel_all(); }

  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(peers_.size()); }

  Status post(std::uint64_t step, std::span<const Part> sends, std::span<const Part> receives) override {
    return guarded([&]() -> Status {
      const int tag = kFirstTag + static_cast<int>(step % kTags);
      auto& pending = steps_.emplace_back();
      for (const auto& part : receives) WEFT_CHECK(begin(part, tag, true, pending));
      for (const auto& part : sends) WEFT_CHECK(begin(part, tag, false, pending));
      ++begun_;
      return give_signs();
    });
  }

  Result<Progress> poll() override {
    return guarded([&]() -> Result<Progress> {
      WEFT_CHECK(give_signs());
      WEFT_CHECK(take_signs());
      for (auto& step : steps_) {
        for (auto& message : step) WEFT_CHECK(test(message));
        std::erase_if(step, [](const Message& message) { return message.request == 0; });
      }
      for (; !steps_.empty() && steps_.front().empty(); steps_.pop_front()) ++done_;
      Progress out{.done = done_};
      for (const auto& step : steps_) {
        for (const auto& message : step) out.waits_for.push_back(message.peer);
      }
      std::sort(out.waits_for.begin(), out.waits_for.end());
      out.waits_for.erase(std::unique(out.waits_for.begin(), out.waits_for.end()), out.waits_for.end());
      for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
        const auto silent = Clock::now() - peers_[peer].last_sign;
        out.silent_ms.push_back(
            static_cast<int>(peer) == rank_ ? 0 : std::chrono::duration_cast<milliseconds>(silent).count());
        out.begun.push_back(static_cast<int>(peer) == rank_ ? begun_ : peers_[peer].begun);
      }
      return out;
    });
  }

  void abandon(const std::string& why) noexcept override {
    (void)guarded([&]() -> Status {
      if (why_[0] != '\0') return done;
      // What waits has buffers that may go as soon as the error is returned.
      cancel_steps();
      why.copy(why_.data(), why_.size() - 1);
      // They must get away from here: nobody polls any more.
      for (int i = 0; i < 20; ++i) {
        next_sign_ = {};
        WEFT_CHECK(give_signs());
      }
      return done;
    });
  }

 private:
  struct Message {
    int peer = 0;
    std::uint64_t request = 0;
    bool comes = false;
    std::size_t bytes = 0;
  };
  /// Signs that are under way stay here until they have gone or come.
  struct Peer {
    Clock::time_point last_sign = Clock::now();
    std::uint64_t begun = 0;
    Sign sent = {}, coming = {};
    std::uint64_t sending = 0, receiving = 0;
  };

  Error between(int peer, const Error& error) const {
    return broken(fmt::format("between ranks {} and {}: {}", rank_, peer, error.message));
  }

  Status begin(const Part& part, int tag, bool comes, std::vector<Message>& pending) {
    for (std::size_t at = 0; at < part.bytes; at += kMostBytes) {
      const auto bytes = std::min(kMostBytes, part.bytes - at);
      auto* const data = static_cast<std::byte*>(part.data) + at;
      const auto request =
          comes ? messenger_->receive(part.peer, tag, data, bytes) : messenger_->send(part.peer, tag, data, bytes);
      if (!request) return between(part.peer, request.error());
      pending.push_back({.peer = part.peer, .request = *request, .comes = comes, .bytes = bytes});
    }
    return done;
  }

  Status test(Message& message) {
    const auto moved = messenger_->test(message.request);
    if (!moved) return between(message.peer, moved.error());
    if (!moved->has_value()) return done;
    message.request = 0;
    if (!message.comes) return done;
    peers_[static_cast<std::size_t>(message.peer)].last_sign = Clock::now();
    if (**moved == message.bytes) return done;
    return broken(
        fmt::format("rank {} sent {} bytes, rank {} expected {}", message.peer, **moved, rank_, message.bytes));
  }

  /// To each peer that has taken the one before; not more often than is useful.
  Status give_signs() {
    if (Clock::now() < next_sign_) return done;
    next_sign_ = Clock::now() + std::max(milliseconds(50), milliseconds(ranks()));
    for (int to = 0; to < ranks(); ++to) {
      if (to == rank_) continue;
      auto& peer = peers_[static_cast<std::size_t>(to)];
      WEFT_TRY(const bool free, is_done(to, peer.sending));
      if (!free) continue;
      peer.sent = {.begun = begun_, .gave_up = why_};
      const auto request = messenger_->send(to, kSignTag, &peer.sent, sizeof(Sign));
      if (!request) return between(to, request.error());
      peer.sending = *request;
    }
    return done;
  }

  Status take_signs() {
    for (int from = 0; from < ranks(); ++from) {
      if (from == rank_) continue;
      auto& peer = peers_[static_cast<std::size_t>(from)];
      for (bool first = peer.receiving == 0;; first = false) {
        WEFT_TRY(const bool came, is_done(from, peer.receiving));
        if (!came) break;
        if (!first) WEFT_CHECK(heed(from, peer));
        const auto request = messenger_->receive(from, kSignTag, &peer.coming, sizeof(Sign));
        if (!request) return between(from, request.error());
        peer.receiving = *request;
      }
    }
    return done;
  }

  Status heed(int from, Peer& peer) const {
    peer.last_sign = Clock::now();
    peer.begun = std::max(peer.begun, peer.coming.begun);
    peer.coming.gave_up.back() = '\0';
    if (peer.coming.gave_up[0] == '\0') return done;
    return broken(fmt::format("rank {} gave up: {}", from, peer.coming.gave_up.data()), ErrorCode::ring_lost);
  }

  /// Of a sign, or of none.
  Result<bool> is_done(int peer, std::uint64_t& request) {
    if (request == 0) return true;
    const auto moved = messenger_->test(request);
    if (!moved) return between(peer, moved.error());
    if (!moved->has_value()) return false;
    request = 0;
    return true;
  }

  void cancel_steps() noexcept {
    for (const auto& step : steps_) {
      for (const auto& message : step) {
        if (message.request != 0) messenger_->cancel(message.request);
      }
    }
    steps_.clear();
  }
  void cancel_all() noexcept {
    cancel_steps();
    for (const auto& peer : peers_) {
      if (peer.sending != 0) messenger_->cancel(peer.sending);
      if (peer.receiving != 0) messenger_->cancel(peer.receiving);
    }
  }

  std::unique_ptr<Messenger> messenger_;
  const int rank_;
  std::vector<Peer> peers_;
  std::deque<std::vector<Message>> steps_;
  std::uint64_t begun_ = 0, done_ = 0;
  Clock::time_point next_sign_ = {};
  std::array<char, 248> why_ = {};
};

}  // namespace

Messenger::~Messenger() = default;

Result<std::unique_ptr<Transport>> message_transport(std::unique_ptr<Messenger> messenger) {
  return guarded([&]() -> Result<std::unique_ptr<Transport>> {
    if (messenger->ranks() < 1 || messenger->rank() < 0 || messenger->rank() >= messenger->ranks())
      return user_error(fmt::format("rank {} of {} is no rank of a ring", messenger->rank(), messenger->ranks()));
    std::unique_ptr<Transport> out = std::make_unique<MessageTransport>(std::move(messenger));
    return out;
  });
}

}  // namespace weft
