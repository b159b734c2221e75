#pragma once

#include <signal.h>

#include <string_view>

namespace weft {

/// While it lives, a file that would exceed the process's limit of file sizes is an error of the call that writes it,
/// EFBIG, and no signal: SIGXFSZ would end a caller who knows nothing of our files. Of this thread alone.
class NoFileSizeSignal {
 public:
  NoFileSizeSignal();
  ~NoFileSizeSignal();
  NoFileSizeSignal(const NoFileSizeSignal&) = delete;
  NoFileSizeSignal& operator=(const NoFileSizeSignal&) = delete;

 private:
  sigset_t before_;
  bool was_pending_ = false;
};

/// Writes all bytes, whatever interrupts, and without that signal: 0 or an errno.
[[nodiscard]] int write_whole(int file, std::string_view bytes);

}  // namespace weft
