#include "compiler/base/guarded.h"
#include "runtime/ring/mpi/plugin.h"

#include <weft/ring.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>

namespace weft {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// Messages of one step have one tag. MPI keeps the order of those with the same one, so that numbers may come again.
constexpr int kSignTag = 1, kFirstTag = 2, kTags = 16384;
constexpr std::size_t kMostBytes = std::size_t{1} << 30;  // of one MPI message

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

class MpiTransport final : public Transport {
 public:
  MpiTransport(const mpi::Plugin& mpi, int rank, int ranks)
      : mpi_(mpi), rank_(rank), peers_(static_cast<std::size_t>(ranks)) {}

  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(peers_.size()); }

  Status post(std::uint64_t step, std::span<const Part> sends, std::span<const Part> receives) override {
    return guarded([&]() -> Status {
      const int tag = kFirstTag + static_cast<int>(step % kTags);
      auto& pending = steps_.emplace_back();
      for (const auto& part : receives) WEFT_CHECK(begin(part, tag, true, pending));
      for (const auto& part : sends) WEFT_CHECK(begin(part, tag, false, pending));
      ++begun_;
      return give_sign();
    });
  }

  Result<Progress> poll() override {
    return guarded([&]() -> Result<Progress> {
      WEFT_CHECK(give_sign());
      WEFT_CHECK(take_signs());
      for (auto& step : steps_) {
        for (auto& request : step) WEFT_CHECK(test(request));
        std::erase_if(step, [](const Request& request) { return request.handle == nullptr; });
      }
      for (; !steps_.empty() && steps_.front().empty(); steps_.pop_front()) ++done_;
      Progress out{.done = done_};
      for (const auto& step : steps_) {
        for (const auto& request : step) out.waits_for.push_back(request.peer);
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
      why.copy(why_.data(), why_.size() - 1);
      next_sign_ = {};
      // They must get away from here: nobody polls any more.
      for (int i = 0; i < 20; ++i) {
        WEFT_CHECK(give_sign());
        next_sign_ = {};
      }
      return done;
    });
  }

 private:
  struct Request {
    int peer = 0;
    void* handle = nullptr;
    bool receives = false;
    int bytes = 0;
  };
  struct Peer {
    Clock::time_point last_sign = Clock::now();
    std::uint64_t begun = 0;
    Sign sent = {};  ///< stays until MPI has taken it
    void* handle = nullptr;
  };

  Status begin(const Part& part, int tag, bool receives, std::vector<Request>& pending) {
    for (std::size_t at = 0; at < part.bytes; at += kMostBytes) {
      const int bytes = static_cast<int>(std::min(kMostBytes, part.bytes - at));
      auto* const data = static_cast<std::byte*>(part.data) + at;
      Request request{.peer = part.peer, .receives = receives, .bytes = bytes};
      const char* const wrong = receives ? mpi_.weft_mpi_receive(part.peer, tag, data, bytes, &request.handle)
                                         : mpi_.weft_mpi_send(part.peer, tag, data, bytes, &request.handle);
      if (wrong != nullptr) return broken(fmt::format("MPI, between ranks {} and {}: {}", rank_, part.peer, wrong));
      pending.push_back(request);
    }
    return done;
  }

  Status test(Request& request) {
    int is_done = 0, bytes = 0;
    if (const char* const wrong = mpi_.weft_mpi_test(&request.handle, &is_done, &bytes); wrong != nullptr)
      return broken(fmt::format("MPI, between ranks {} and {}: {}", rank_, request.peer, wrong));
    if (is_done == 0 || !request.receives) return done;
    peers_[static_cast<std::size_t>(request.peer)].last_sign = Clock::now();
    if (bytes == request.bytes) return done;
    return broken(fmt::format("rank {} sent {} bytes, rank {} expected {}", request.peer, bytes, rank_, request.bytes));
  }

  /// To each peer that has taken the one before; not more often than is useful.
  Status give_sign() {
    if (Clock::now() < next_sign_) return done;
    next_sign_ = Clock::now() + std::max(milliseconds(50), milliseconds(ranks()));
    for (int to = 0; to < ranks(); ++to) {
      if (to == rank_) continue;
      auto& peer = peers_[static_cast<std::size_t>(to)];
      int is_done = 1, bytes = 0;
      const char* wrong = peer.handle != nullptr ? mpi_.weft_mpi_test(&peer.handle, &is_done, &bytes) : nullptr;
      if (wrong == nullptr && is_done != 0) {
        peer.sent = {.begun = begun_, .gave_up = why_};
        wrong = mpi_.weft_mpi_send(to, kSignTag, &peer.sent, sizeof(Sign), &peer.handle);
      }
      if (wrong != nullptr) return broken(fmt::format("MPI, from rank {} to rank {}: {}", rank_, to, wrong));
    }
    return done;
  }

  Status take_signs() {
    while (true) {
      Sign sign;
      int from = -1;
      if (const char* const wrong = mpi_.weft_mpi_take(kSignTag, &sign, sizeof sign, &from); wrong != nullptr)
        return broken(fmt::format("MPI, rank {}: {}", rank_, wrong));
      if (from < 0) return done;
      auto& peer = peers_[static_cast<std::size_t>(from)];
      peer.last_sign = Clock::now();
      peer.begun = std::max(peer.begun, sign.begun);
      sign.gave_up.back() = '\0';
      if (sign.gave_up[0] != '\0')
        return broken(fmt::format("rank {} gave up: {}", from, sign.gave_up.data()), ErrorCode::ring_lost);
    }
  }

  const mpi::Plugin& mpi_;
  const int rank_;
  std::vector<Peer> peers_;
  std::deque<std::vector<Request>> steps_;
  std::uint64_t begun_ = 0, done_ = 0;
  Clock::time_point next_sign_ = {};
  std::array<char, 248> why_ = {};
};

}  // namespace

Result<std::unique_ptr<Transport>> mpi_transport() {
  return guarded([&]() -> Result<std::unique_ptr<Transport>> {
    WEFT_TRY(const auto* const plugin, mpi::open_plugin());
    int rank = 0, ranks = 1;
    if (const char* const wrong = plugin->weft_mpi_start(&rank, &ranks); wrong != nullptr)
      return broken(fmt::format("MPI does not start: {}", wrong), ErrorCode::ring_start);
    std::unique_ptr<Transport> out = std::make_unique<MpiTransport>(*plugin, rank, ranks);
    return out;
  });
}

void end_mpi(int status) {
  (void)guarded([&]() -> Status {
    WEFT_TRY(const auto* const plugin, mpi::open_plugin());
    plugin->weft_mpi_end(status);
    return done;
  });
}

}  // namespace weft
