#include "compiler/base/write.h"

#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

namespace weft {

namespace {

sigset_t only_that() {
  sigset_t out;
  ::sigemptyset(&out);
  ::sigaddset(&out, SIGXFSZ);
  return out;
}

}  // namespace

NoFileSizeSignal::NoFileSizeSignal() {
  const sigset_t blocked = only_that();
  sigset_t pending;
  was_pending_ = ::sigpending(&pending) == 0 && ::sigismember(&pending, SIGXFSZ) == 1;
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before_);
}

NoFileSizeSignal::~NoFileSizeSignal() {
  const int failure = errno;
  const sigset_t ours = only_that();
  const timespec at_once = {};
  while (!was_pending_ && ::sigtimedwait(&ours, nullptr, &at_once) < 0 && errno == EINTR) {
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = failure;
}

int write_whole(int file, std::string_view bytes) {
  const NoFileSizeSignal quiet;
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    if (written == 0) return EIO;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace weft
