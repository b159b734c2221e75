#pragma once

#include "compiler/base/result.h"

#include <weft/ring.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

namespace weft {

/// A transport with deadlines. A thread polls it while its rank computes, so that bytes arrive and others see a sign of
/// life; the first error stays, and the others are told of it.
class Link {
 public:
  Link(std::unique_ptr<Transport> transport, std::int64_t timeout_ms);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  std::optional<int> device() const { return device_; }

  /// Posts the next step. Its number among all that were posted, counted from 1: what wait() takes.
  Result<std::uint64_t> post(std::span<const Transport::Part> sends, std::span<const Transport::Part> receives);
  /// How many steps are done.
  Result<std::uint64_t> steps_done();
  /// Returns when they are. Error where a peer that is waited for is silent for longer than the timeout.
  Status wait(std::uint64_t steps);
  /// `wait_ms` grows by what that takes.
  Status wait(std::uint64_t steps, double& wait_ms);
  /// An error of this rank's own: the others end, too.
  Error give_up(Error error);

 private:
  // With the mutex held. The first error stays.
  Result<Transport::Progress> poll();
  Error fail(Error error);
  std::string lateness(const Transport::Progress& progress, int peer, std::int64_t waited_ms) const;
  void keep_alive();

  std::unique_ptr<Transport> transport_;
  const int rank_, ranks_;
  const std::optional<int> device_;
  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool ending_ = false;
  std::uint64_t posted_ = 0;
  std::optional<Error> failed_;
  std::thread pulse_;
};

}  // namespace weft
