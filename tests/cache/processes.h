#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

/// Work in processes of its own, and what was counted of it.
namespace weft::cache {

/// Forks; the child ends with status 0 where `work` returns true.
template <typename Work>
pid_t in_process(Work work) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) std::abort();
  if (child == 0) ::_exit(work() ? 0 : 1);
  return child;
}

/// Waits for the end of a child.
inline bool succeeded(pid_t child) {
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// A line that `./dev test store` adds up.
inline void counted(std::uint64_t count, const char* what) {
  std::printf("counted: %llu %s\n", static_cast<unsigned long long>(count), what);
}

}  // namespace weft::cache
