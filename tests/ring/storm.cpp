#include "tests/ring/storm.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <random>

namespace weft::test {

namespace {

using Clock = std::chrono::steady_clock;

struct Sea {
  struct Message {
    int from = 0, to = 0;
    std::uint64_t step = 0;
    Clock::time_point arrives = {};
    std::vector<std::byte> bytes = {};
  };
  struct Member {
    Clock::time_point last_sign = Clock::now();
    std::uint64_t begun = 0;
    std::string gave_up = {};
  };
  Storm storm;
  std::mutex mutex;
  std::condition_variable changed;
  std::mt19937_64 random;
  std::vector<Message> messages;
  std::vector<Member> members;
  int ended = 0;
};

Error lost(const std::string& message, ErrorCode code = ErrorCode::ring_lost) {
  auto error = environment_error(message);
  error.code = code;
  return error;
}

class StormyTransport final : public Transport {
 public:
  StormyTransport(std::shared_ptr<Sea> sea, int rank) : sea_(std::move(sea)), rank_(rank) {}
  ~StormyTransport() override {
    const std::lock_guard lock(sea_->mutex);
    ++sea_->ended;
    sea_->changed.notify_all();
  }

  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(sea_->members.size()); }

  Status post(std::uint64_t step, std::span<const Part> sends, std::span<const Part> receives) override {
    std::unique_lock lock(sea_->mutex);
    const auto& storm = sea_->storm;
    const bool faulty = storm.rank == rank_ && storm.step == step;
    if (faulty && storm.fault == Storm::Fault::leaves) return lost("this rank leaves");
    stopped_ = stopped_ || (faulty && storm.fault == Storm::Fault::stops);
    if (stopped_) return freeze(lock);
    me().last_sign = Clock::now();
    ++me().begun;
    for (const auto& part : sends) {
      if (faulty && storm.fault == Storm::Fault::drops) continue;
      const int copies = faulty && storm.fault == Storm::Fault::sends_twice ? 2 : 1;
      const std::size_t bytes = part.bytes - (faulty && storm.fault == Storm::Fault::sends_less ? 1 : 0);
      for (int i = 0; i < copies; ++i) {
        const auto delay = sea_->random() % static_cast<std::uint64_t>(storm.most_delay_us + 1);
        const auto* const data = static_cast<const std::byte*>(part.data);
        sea_->messages.push_back({.from = rank_,
                                  .to = part.peer,
                                  .step = step,
                                  .arrives = Clock::now() + std::chrono::microseconds(delay),
                                  .bytes = {data, data + bytes}});
      }
    }
    waiting_.push_back({step, {receives.begin(), receives.end()}});
    return done;
  }

  Result<Progress> poll() override {
    std::unique_lock lock(sea_->mutex);
    if (stopped_) return freeze(lock).error();
    me().last_sign = Clock::now();
    for (auto& [step, receives] : waiting_) {
      for (auto part = receives.begin(); part != receives.end();) {
        const auto at = std::find_if(sea_->messages.begin(), sea_->messages.end(), [&](const Sea::Message& m) {
          return m.to == rank_ && m.from == part->peer && m.step == step && m.arrives <= Clock::now();
        });
        if (at == sea_->messages.end()) {
          ++part;
          continue;
        }
        if (at->bytes.size() != part->bytes) return lost("a message has another size", ErrorCode::ring_transport);
        std::memcpy(part->data, at->bytes.data(), part->bytes);
        sea_->messages.erase(at);
        part = receives.erase(part);
      }
    }
    while (!waiting_.empty() && waiting_.front().receives.empty()) {
      waiting_.erase(waiting_.begin());
      ++done_;
    }
    Progress out{.done = done_};
    for (const auto& step : waiting_) {
      for (const auto& part : step.receives) out.waits_for.push_back(part.peer);
    }
    for (const auto& member : sea_->members) {
      if (!member.gave_up.empty()) return lost(member.gave_up);
      out.begun.push_back(member.begun);
      out.silent_ms.push_back(
          std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - member.last_sign).count());
    }
    return out;
  }

  void abandon(const std::string& why) noexcept override {
    const std::lock_guard lock(sea_->mutex);
    if (std::any_of(sea_->members.begin(), sea_->members.end(), [](const auto& m) { return !m.gave_up.empty(); }))
      return;
    me().gave_up = "another rank gave up: " + why;
  }

 private:
  struct Waiting {
    std::uint64_t step;
    std::vector<Part> receives;
  };
  Sea::Member& me() { return sea_->members[static_cast<std::size_t>(rank_)]; }

  /// As a process is that was sent SIGSTOP: nothing returns.
  Status freeze(std::unique_lock<std::mutex>& lock) {
    sea_->changed.wait(lock, [&] { return sea_->ended == ranks() - 1; });
    return lost("stopped");
  }

  std::shared_ptr<Sea> sea_;
  int rank_;
  bool stopped_ = false;
  std::uint64_t done_ = 0;
  std::vector<Waiting> waiting_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> stormy_transports(int ranks, const Storm& storm) {
  const auto sea = std::make_shared<Sea>();
  sea->storm = storm;
  sea->random.seed(storm.seed);
  sea->members.resize(static_cast<std::size_t>(ranks));
  std::vector<std::unique_ptr<Transport>> out;
  for (int rank = 0; rank < ranks; ++rank) out.push_back(std::make_unique<StormyTransport>(sea, rank));
  return out;
}

}  // namespace weft::test
