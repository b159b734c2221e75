#include "limits.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <new>

namespace weft::test {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

#ifdef WEFT_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
/// A neighbour on the same core doubles the time that the processor takes.
constexpr double kSlower = kSanitized ? 30 : 2;

constexpr int kNoMemory = 101, kThrown = 102;

std::size_t address_space() {
  std::ifstream file("/proc/self/statm");
  std::size_t pages = 0;
  file >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

void limit_this_process(double most_seconds) {
  if (!kSanitized) {
    const rlimit memory{address_space() + 256 * kMiB, RLIM_INFINITY};
    ::setrlimit(RLIMIT_AS, &memory);
  }
  // What is never going to end is ended.
  const rlimit time{static_cast<rlim_t>(std::ceil(10 * most_seconds)), RLIM_INFINITY};
  ::setrlimit(RLIMIT_CPU, &time);
}

double in_seconds(const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); }

}  // namespace

std::string within_limits(const std::function<void()>& work, double seconds) {
  const double most_seconds = kSlower * seconds;
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) return "no process to be had";
  if (child == 0) {
    limit_this_process(most_seconds);
    // Nothing may get out of here alive: there would be two of the test.
    try {
      work();
    } catch (const std::bad_alloc&) {
      ::_exit(kNoMemory);
    } catch (...) {
      ::_exit(kThrown);
    }
    ::_exit(0);
  }
  int status = 0;
  rusage used{};
  ::wait4(child, &status, 0, &used);
  const double time = in_seconds(used.ru_utime) + in_seconds(used.ru_stime);
  if (WIFSIGNALED(status)) return fmt::format("ended by {} after {:.2f} s", ::strsignal(WTERMSIG(status)), time);
  if (WEXITSTATUS(status) == kNoMemory) return "wanted more than 256 MiB";
  if (WEXITSTATUS(status) != 0) return fmt::format("ended with status {}", WEXITSTATUS(status));
  return time <= most_seconds ? "" : fmt::format("took {:.2f} s of CPU time", time);
}

std::string repeat(const std::string& piece, std::size_t count) {
  std::string text;
  text.reserve(piece.size() * count);
  for (std::size_t i = 0; i < count; ++i) text += piece;
  return text;
}

std::string filled(const std::string& before, const std::string& piece, const std::string& behind) {
  return before + repeat(piece, (kMiB - 16 - before.size() - behind.size()) / piece.size()) + behind;
}

}  // namespace weft::test
