#include "tools/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <system_error>
#include <utility>

namespace weft::tools {

using std::chrono::milliseconds;
using std::chrono::seconds;

Progress::Progress(const Console& console, std::string what) : what_(std::move(what)) {
  if (!console.shows_progress()) return;
  try {
    ticker_ = std::thread([this] { tick(); });
  } catch (const std::system_error&) {  // no thread can be made: the work matters more than its progress
  }
}

Progress::~Progress() {
  if (!ticker_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  over_.notify_one();
  ticker_.join();
  if (shown_) tell("\r\x1b[K");
}

void Progress::update(std::size_t finished, std::size_t total) {
  const std::lock_guard lock(mutex_);
  finished_ = finished;
  total_ = total;
}

void Progress::tick() {
  std::unique_lock lock(mutex_);
  const auto ended = [this] { return ended_; };
  if (over_.wait_for(lock, seconds(1), ended)) return;
  do paint();
  while (!over_.wait_for(lock, milliseconds(200), ended));
}

void Progress::paint() {
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
  shown_ = true;
  if (total_ == 0) {
    tell(fmt::format("\r\x1b[K{}, {:.0f} s", what_, passed.count()));
  } else {
    const auto left = passed.count() * static_cast<double>(total_ - finished_) /
                      static_cast<double>(std::max<std::size_t>(1, finished_));
    // What was promised is not taken back: where it turns out to be wrong, nothing more is promised.
    promised_ = finished_ == 0 ? promised_ : std::min(promised_, left);
    const bool promises = finished_ > 0 && left < 2 * promised_ + 1;
    constexpr std::size_t kWidth = 24;
    const auto done = kWidth * finished_ / total_;
    tell(fmt::format("\r\x1b[K{} [{:#<{}}{: <{}}] {} of {}{}", what_, "", done, "", kWidth - done, finished_, total_,
                     promises ? fmt::format(", about {:.0f} s left", promised_) : ""));
  }
  std::fflush(stderr);
}

}  // namespace weft::tools
