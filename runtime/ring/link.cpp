#include "runtime/ring/link.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {

namespace {

using std::chrono::microseconds, std::chrono::milliseconds;

}  // namespace

Link::Link(std::unique_ptr<Transport> transport, std::int64_t timeout_ms)
    : transport_(std::move(transport)),
      rank_(transport_->rank()),
      ranks_(transport_->ranks()),
      timeout_(std::max<std::int64_t>(1, timeout_ms)),
      pulse_([this] { keep_alive(); }) {}

Link::~Link() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  ended_.notify_all();
  pulse_.join();
}

void Link::keep_alive() {
  const auto every = std::clamp<milliseconds>(timeout_ / 8, milliseconds(1), milliseconds(1000));
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, every, [&] { return ending_; })) {
    if (!failed_) (void)poll();
  }
}

/// With the mutex held. The first error stays.
Result<Transport::Progress> Link::poll() {
  if (failed_) return *failed_;
  auto progress = transport_->poll();
  if (!progress) failed_ = progress.error();
  return progress;
}

Result<std::uint64_t> Link::post(std::span<const Transport::Part> sends, std::span<const Transport::Part> receives) {
  const std::lock_guard lock(mutex_);
  if (failed_) return *failed_;
  if (auto posted = transport_->post(posted_, sends, receives); !posted) {
    failed_ = posted.error();
    return *failed_;
  }
  return ++posted_;
}

Result<std::uint64_t> Link::steps_done() {
  const std::lock_guard lock(mutex_);
  WEFT_TRY(const auto progress, poll());
  return progress.done;
}

Status Link::wait(std::uint64_t steps) {
  const auto start = std::chrono::steady_clock::now();
  auto pause = microseconds(20);
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      WEFT_TRY(const auto progress, poll());
      if (progress.done >= steps) return done;
      const auto waited = std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - start).count();
      for (const int peer : progress.waits_for) {
        const auto silent = progress.silent_ms[static_cast<std::size_t>(peer)];
        if (std::min(silent, waited) <= timeout_.count()) continue;
        Error error = environment_error(fmt::format(
            "rank {} is lost: rank {} waits for it in step {} of {}, and its last sign of life is {} ms old", peer,
            rank_, progress.done + 1, posted_, silent));
        error.code = ErrorCode::ring_lost;
        error.notes.emplace_back("a rank that computes for long gives signs of life; one that is stopped does not");
        failed_ = error;
        transport_->abandon(error.message);
        return error;
      }
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, microseconds(1000));
  }
}

Error Link::give_up(Error error) {
  const std::lock_guard lock(mutex_);
  if (!failed_) failed_ = error;
  transport_->abandon(error.message);
  return error;
}

}  // namespace weft
