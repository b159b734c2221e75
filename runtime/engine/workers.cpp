#include "runtime/engine/workers.h"

#include "compiler/base/fork_safe.h"
#include "compiler/base/parallel.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace weft {

namespace {

using Clock = std::chrono::steady_clock;

/// A launch has several phases, and a model's step several launches: who has just finished looks out for the next for
/// so long before it sleeps, as waking costs as much.
constexpr std::chrono::microseconds kLookOut{20};

/// Looks out for `until`; whether it came in time.
template <typename Until>
bool look_out(const Until& until) {
  constexpr int kLooks = 64;  // between looks at the clock
  for (const auto end = Clock::now() + kLookOut; Clock::now() < end;) {
    for (int i = 0; i < kLooks; ++i) {
      if (until()) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  }
  return false;
}

/// Threads begin with the signal mask of their maker: all is blocked, so that no handler of the caller's runs in them.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

/// The threads of one process. A job lives in the frame of its caller, who takes slots like everybody, and leaves when
/// nobody is at it any more.
class Workers::Pool {
 public:
  explicit Pool(int threads) : generation_(fork_generation()), most_(static_cast<std::size_t>(threads - 1)) {}
  ~Pool() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
      ++news_;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  bool is_of_this_process() const { return generation_ == fork_generation(); }

  void run(int slots, const std::function<void(int)>& work) {
    Job job(slots, work);
    enter(job);
    job.take_slots();
    leave(job);
    if (job.thrown) std::rethrow_exception(job.thrown);
  }

 private:
  struct Job {
    Job(int all, const std::function<void(int)>& what) : slots(all), work(what) {}
    bool has_slots() const { return next.load(std::memory_order_relaxed) < slots; }
    void take_slots() noexcept {
      try {
        for (int slot = next++; slot < slots; slot = next++) work(slot);
      } catch (...) {
        next = slots;
        if (!caught.exchange(true)) thrown = std::current_exception();
      }
    }

    const int slots;
    const std::function<void(int)>& work;
    std::atomic<int> next{0};
    std::atomic<int> at_it{0};  ///< threads of the pool; grows under the mutex only
    std::atomic<bool> caught{false};
    std::exception_ptr thrown;
    Job* later = nullptr;
  };

  void enter(Job& job) {
    std::size_t to_wake = 0;
    {
      const std::lock_guard lock(mutex_);
      job.later = first_;
      first_ = &job;
      ++news_;
      const auto wanted = static_cast<std::size_t>(job.slots - 1);
      hire(wanted);
      to_wake = std::min(wanted, asleep_);
    }
    for (; to_wake > 0; --to_wake) wake_.notify_one();
  }

  /// So many threads at least, as far as the system gives them.
  void hire(std::size_t wanted) {
    wanted = std::min(wanted, most_);
    if (threads_.size() >= wanted) return;
    const SignalsBlocked blocked;
    try {
      threads_.reserve(most_);
      while (threads_.size() < wanted) threads_.emplace_back([this] { serve(); });
    } catch (const std::exception&) {
      // Those that there are do it all.
    }
  }

  void leave(Job& job) {
    (void)look_out([&] { return job.at_it.load(std::memory_order_acquire) == 0; });
    std::unique_lock lock(mutex_);
    Job** link = &first_;
    while (*link != &job) link = &(*link)->later;
    *link = job.later;
    left_.wait(lock, [&] { return job.at_it.load(std::memory_order_acquire) == 0; });
  }

  /// The job with the fewest threads at it.
  Job* find() const {
    Job* best = nullptr;
    for (Job* job = first_; job != nullptr; job = job->later) {
      if (job->has_slots() && (best == nullptr || job->at_it.load() < best->at_it.load())) best = job;
    }
    return best;
  }

  void serve() {
    std::unique_lock lock(mutex_);
    while (!over_) {
      if (Job* const job = find()) {
        ++job->at_it;
        lock.unlock();
        job->take_slots();
        lock.lock();
        if (--job->at_it == 0) left_.notify_all();
        continue;
      }
      const auto known = news_.load();
      const auto is_news = [&] { return news_.load(std::memory_order_relaxed) != known; };
      lock.unlock();
      const bool soon = look_out(is_news);
      lock.lock();
      if (soon) continue;
      ++asleep_;
      wake_.wait(lock, is_news);
      --asleep_;
    }
  }

  const unsigned long generation_;
  const std::size_t most_;
  std::mutex mutex_;  ///< of all that follows; a fork may leave it closed, as the child makes a pool of its own
  std::condition_variable wake_, left_;
  std::vector<std::thread> threads_;
  Job* first_ = nullptr;
  std::size_t asleep_ = 0;
  std::atomic<unsigned long> news_{0};  ///< grows with every job
  bool over_ = false;
};

Workers::Workers(int threads) : threads_(threads > 0 ? threads : static_cast<int>(core_count())) {
  (void)fork_generation();  // counts from here on
}

Workers::~Workers() {
  // A parent's threads are not here to be joined: what they had is left to lie.
  if (Pool* const pool = pool_.load(); pool != nullptr && pool->is_of_this_process()) delete pool;
}

Workers::Pool* Workers::pool() const {
  Pool* known = pool_.load(std::memory_order_acquire);
  if (known != nullptr && known->is_of_this_process()) return known;
  auto fresh = std::make_unique<Pool>(threads_);
  if (pool_.compare_exchange_strong(known, fresh.get())) return fresh.release();
  return known;
}

void Workers::run(int slots, const std::function<void(int)>& work) const {
  if (slots <= 1) return work(0);
  if (threads_ > 1) return pool()->run(slots, work);
  for (int slot = 0; slot < slots; ++slot) work(slot);
}

}  // namespace weft
