#pragma once

#include "compiler/base/result.h"

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

/// Other programs, started from any process: nothing is forked, so any threads may run, and the program gets three
/// streams and the environment, but none of the caller's files, blocked signals or handlers.
namespace weft::nvrtc {

/// Owns an open file, always above the three standard streams, so that a caller who closed those can still spawn.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number);
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { close(); }
  void close();

  bool is_open() const { return number_ >= 0; }
  int number() const { return number_; }

 private:
  int number_ = -1;
};

/// Starts `words[0]`, a path, with these standard streams. Environment error where it cannot be started.
Result<pid_t> spawn(const std::vector<std::string>& words, const Descriptor& in, const Descriptor& out,
                    const Descriptor& err);

/// Waits for the end of a process. Its status as waitpid gives it; -1 where another part of the program waited first.
int reap(pid_t process);

/// `ended with status 1`, `was ended by signal 6`
std::string ending(int status);

/// A regular file that may be executed.
bool can_execute(const std::string& path);

}  // namespace weft::nvrtc
