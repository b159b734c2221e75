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
      device_(transport_->device()),
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

Result<Transport::Progress> Link::poll() {
  if (failed_) return *failed_;
  auto progress = transport_->poll();
  if (!progress) return fail(progress.error());
  return progress;
}

Error Link::fail(Error error) {
  if (failed_) return *failed_;
  failed_ = error;
  // Of a rank that is lost the others know from whoever saw it first; of ranks that disagree all know.
  if (error.code != ErrorCode::ring_mismatch) transport_->abandon(error.message);
  return error;
}

Result<std::uint64_t> Link::post(std::span<const Transport::Part> sends, std::span<const Transport::Part> receives) {
  const std::lock_guard lock(mutex_);
  if (failed_) return *failed_;
  if (auto posted = transport_->post(posted_, sends, receives); !posted) return fail(posted.error());
  return ++posted_;
}

Result<std::uint64_t> Link::steps_done() {
  const std::lock_guard lock(mutex_);
  WEFT_TRY(const auto progress, poll());
  return progress.done;
}

/// With the mutex held: what the deadline says of a peer that is waited for; empty: nothing.
std::string Link::lateness(const Transport::Progress& progress, int peer, std::int64_t waited_ms) const {
  const auto at = static_cast<std::size_t>(peer);
  if (waited_ms <= timeout_.count()) return {};
  const auto silent = progress.silent_ms[at];
  if (silent > timeout_.count()) {
    return fmt::format("rank {} is lost: rank {} waits for it in step {} of {}, and its last sign of life is {} ms old",
                       peer, rank_, progress.done + 1, posted_, silent);
  }
  // It lives and has sent; so these bytes are lost.
  if (at < progress.begun.size() && progress.begun[at] > progress.done) {
    return fmt::format("what rank {} sent to rank {} in step {} of {} has not come for {} ms", peer, rank_,
                       progress.done + 1, posted_, waited_ms);
  }
  return {};
}

Status Link::wait(std::uint64_t steps, double& wait_ms) {
  const auto start = std::chrono::steady_clock::now();
  WEFT_CHECK(wait(steps));
  wait_ms += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return done;
}

Status Link::wait(std::uint64_t steps) {
  using Clock = std::chrono::steady_clock;
  auto start = Clock::now(), last = start;
  auto pause = microseconds(20);
  std::uint64_t done_before = 0;
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      WEFT_TRY(const auto progress, poll());
      if (progress.done >= steps) return done;
      // A rank that was itself stopped for long, as with its machine, has not waited: signs of others lay there unseen.
      const auto now = Clock::now();
      if (progress.done > done_before || now - last > timeout_ / 4) start = now;
      last = now;
      done_before = progress.done;
      const auto waited = std::chrono::duration_cast<milliseconds>(now - start).count();
      for (const int peer : progress.waits_for) {
        auto late = lateness(progress, peer, waited);
        if (late.empty()) continue;
        Error error = environment_error(std::move(late));
        error.code = ErrorCode::ring_lost;
        error.notes.emplace_back(
            "a rank that computes for long gives signs of life and is waited for; one that is stopped gives none");
        return fail(std::move(error));
      }
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, microseconds(1000));
  }
}

Error Link::give_up(Error error) {
  const std::lock_guard lock(mutex_);
  (void)fail(error);
  return error;
}

}  // namespace weft
