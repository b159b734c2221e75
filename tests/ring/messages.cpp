#include "tests/ring/messages.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <tuple>

namespace weft::test {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kSignBytes = 256;

struct Post {
  struct Letter {
    Clock::time_point arrives = {};
    std::vector<std::byte> bytes = {};
  };
  Weather weather;
  std::shared_ptr<Misuse> misuse;
  std::mutex mutex;
  std::mt19937_64 random;
  /// By receiver, sender and tag, in the order of sending.
  std::map<std::tuple<int, int, int>, std::vector<Letter>> letters;
};

class PostMessenger final : public Messenger {
 public:
  PostMessenger(std::shared_ptr<Post> post, int rank, int ranks) : post_(std::move(post)), rank_(rank), ranks_(ranks) {}
  ~PostMessenger() override {
    const std::lock_guard lock(post_->mutex);
    post_->misuse->left_open += static_cast<int>(open_.size());
  }

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }

  Result<std::uint64_t> send(int peer, int tag, const void* data, std::size_t bytes) override {
    const std::lock_guard lock(post_->mutex);
    const auto& weather = post_->weather;
    const bool faulty = weather.rank == rank_ && bytes != kSignBytes && weather.number == sent_;
    sent_ += bytes != kSignBytes ? 1 : 0;
    const auto is = [&](Weather::Fault fault) { return faulty && weather.fault == fault; };
    if (is(Weather::Fault::refused)) return environment_error("the post is closed");
    const auto delay =
        std::chrono::microseconds(post_->random() % static_cast<std::uint64_t>(weather.most_delay_us + 1));
    if (!is(Weather::Fault::lost)) {
      const auto* const from = static_cast<const std::byte*>(data);
      post_->letters[{peer, rank_, tag}].push_back(
          {Clock::now() + delay, {from, from + bytes - (is(Weather::Fault::shorter) ? 1 : 0)}});
    }
    return began({.bytes = bytes, .gone = Clock::now() + delay / 2, .refused = is(Weather::Fault::refused_later)});
  }

  Result<std::uint64_t> receive(int peer, int tag, void* data, std::size_t bytes) override {
    const std::lock_guard lock(post_->mutex);
    return began({.peer = peer, .tag = tag, .data = data, .bytes = bytes});
  }

  Result<std::optional<std::size_t>> test(std::uint64_t request) override {
    const std::lock_guard lock(post_->mutex);
    const auto at = open_.find(request);
    if (at == open_.end()) return internal_error("no such message");
    const auto& message = at->second;
    if (message.refused) return environment_error("the post burnt down");
    std::optional<std::size_t> moved;
    if (message.data == nullptr) {
      if (message.gone <= Clock::now()) moved = message.bytes;
    } else {
      moved = arrived(message, request);
    }
    if (moved) open_.erase(at);
    return moved;
  }

  void cancel(std::uint64_t request) noexcept override {
    const std::lock_guard lock(post_->mutex);
    open_.erase(request);
  }

 private:
  struct Message {
    int peer = 0, tag = 0;
    void* data = nullptr;  ///< of one that comes
    std::size_t bytes = 0;
    Clock::time_point gone = {};
    bool refused = false;
  };

  std::uint64_t began(const Message& message) {
    open_.emplace(++last_, message);
    return last_;
  }

  /// A letter goes to the oldest that waits for it, whichever is asked about first.
  std::optional<std::size_t> arrived(const Message& message, std::uint64_t request) {
    auto& letters = post_->letters[{rank_, message.peer, message.tag}];
    const auto older = std::count_if(open_.begin(), open_.find(request), [&](const auto& other) {
      return other.second.data != nullptr && other.second.peer == message.peer && other.second.tag == message.tag;
    });
    if (older > 0 || letters.empty() || letters.front().arrives > Clock::now()) return std::nullopt;
    const auto bytes = letters.front().bytes.size();
    std::memcpy(message.data, letters.front().bytes.data(), std::min(bytes, message.bytes));
    letters.erase(letters.begin());
    return bytes;
  }

  std::shared_ptr<Post> post_;
  int rank_, ranks_;
  int sent_ = 0;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, Message> open_;
};

}  // namespace

std::vector<std::unique_ptr<Messenger>> messengers(int ranks, const Weather& weather,
                                                   const std::shared_ptr<Misuse>& misuse) {
  const auto post = std::make_shared<Post>();
  post->weather = weather;
  post->misuse = misuse;
  post->random.seed(weather.seed);
  std::vector<std::unique_ptr<Messenger>> out;
  for (int rank = 0; rank < ranks; ++rank) out.push_back(std::make_unique<PostMessenger>(post, rank, ranks));
  return out;
}

}  // namespace weft::test
