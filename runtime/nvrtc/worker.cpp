#include "runtime/nvrtc/worker.h"

#include "runtime/nvrtc/wire.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace weft::nvrtc {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kProgram = "weft-compile";

Error system_error(const char* what, int number) {
  return environment_error(fmt::format("the compiler's worker process cannot be {}: {}", what, std::strerror(number)));
}

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() { close(); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int descriptor() const { return descriptor_; }
  void close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }

 private:
  int descriptor_;
};

/// What posix_spawn is told: the socket as both standard streams, nothing else of ours but the environment.
class SpawnSettings {
 public:
  explicit SpawnSettings(int socket) {
    posix_spawn_file_actions_init(&files_);
    posix_spawn_file_actions_adddup2(&files_, socket, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files_, socket, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&files_, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addclosefrom_np(&files_, STDERR_FILENO + 1);
    posix_spawnattr_init(&attributes_);
    sigset_t signals;
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes_, &signals);
    sigfillset(&signals);
    posix_spawnattr_setsigdefault(&attributes_, &signals);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&files_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  const posix_spawn_file_actions_t* files() const { return &files_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t files_;
  posix_spawnattr_t attributes_;
};

enum class Ended { answered, closed, late };

/// A running worker and our end of the socket to it. The destructor leaves no process behind.
class Worker {
 public:
  Worker(pid_t process, int socket) : process_(process), socket_(socket) {}
  ~Worker() {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      reap();
    }
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Sends the request and reads one message into `answer`, no longer than until `deadline`.
  Ended exchange(std::string_view request, std::string& answer, const Clock::time_point* deadline) {
    for (;;) {
      pollfd state = {socket_.descriptor(), static_cast<short>(request.empty() ? POLLIN : POLLIN | POLLOUT), 0};
      const int ready = ::poll(&state, 1, milliseconds_to(deadline));
      if (deadline != nullptr && Clock::now() >= *deadline) return Ended::late;
      if (ready < 0 && errno != EINTR) return Ended::closed;
      if (ready <= 0) continue;
      if ((state.revents & POLLOUT) != 0 && !send_some(request)) request = {};  // its answer says why, if any
      if ((state.revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
      if (!receive_some(answer)) return Ended::closed;
      const auto length = message_length(answer);
      if (!length || (*length != 0 && answer.size() > *length)) return Ended::closed;
      if (*length != 0 && answer.size() == *length) return Ended::answered;
    }
  }

  /// How the worker ended, once it has closed its end; -1 where another part of the program waited for it first.
  int reap() {
    int status = -1;
    while (::waitpid(process_, &status, 0) < 0) {
      if (errno == EINTR) continue;
      status = -1;
      break;
    }
    process_ = -1;
    return status;
  }

 private:
  static int milliseconds_to(const Clock::time_point* deadline) {
    if (deadline == nullptr) return -1;
    constexpr std::chrono::milliseconds kLongestWait{60'000};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now());
    return static_cast<int>(std::clamp(left, std::chrono::milliseconds(0), kLongestWait).count());
  }

  bool send_some(std::string_view& request) const {
    const ssize_t sent = ::send(socket_.descriptor(), request.data(), request.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) return errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK;
    request.remove_prefix(static_cast<std::size_t>(sent));
    return true;
  }

  bool receive_some(std::string& answer) const {
    std::array<char, 1 << 16> buffer;
    const ssize_t got = ::recv(socket_.descriptor(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0) return errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK;
    answer.append(buffer.data(), static_cast<std::size_t>(got));
    return got > 0;
  }

  pid_t process_;
  File socket_;
};

bool can_execute(const fs::path& path) {
  std::error_code failure;
  return fs::is_regular_file(path, failure) && ::access(path.c_str(), X_OK) == 0;
}

std::string ending(int status) {
  if (status >= 0 && WIFSIGNALED(status)) return fmt::format("was ended by signal {}", WTERMSIG(status));
  if (status >= 0 && WIFEXITED(status)) return fmt::format("ended with status {}", WEXITSTATUS(status));
  return "ended";
}

std::string mebibytes(std::uint64_t bytes) { return fmt::format("{} MiB", bytes >> 20); }

Error past_memory(const Limits& limits, const std::string& how) {
  return environment_error(
      fmt::format("NVRTC ran out of its memory limit of {} ({})", mebibytes(limits.memory_bytes), how));
}

/// NVRTC says when it runs out of memory, aborts or stumbles over what it did not get, as it happens.
Error ended_early(const Limits& limits, int status) {
  if (limits.memory_bytes > 0) return past_memory(limits, "its worker process " + ending(status));
  return environment_error(fmt::format("the compiler's worker process {} without an answer", ending(status)));
}

Result<Outcome> read_answer(const std::string& answer, const Limits& limits) {
  auto fields = unpack(answer);
  if (fields && fields->size() == 2 && (*fields)[0] == "error") return environment_error(std::move((*fields)[1]));
  Outcome out;
  const bool whole =
      fields && fields->size() == 5 && (*fields)[0] == "done" &&
      std::from_chars((*fields)[1].data(), (*fields)[1].data() + (*fields)[1].size(), out.status).ec == std::errc();
  if (!whole) return environment_error("the compiler's worker process is of another version of Weft");
  out.status_text = std::move((*fields)[2]);
  out.log = std::move((*fields)[3]);
  out.output = std::move((*fields)[4]);
  const bool speechless = out.status != kSuccess && first_complaint(out.log).empty();
  if (limits.memory_bytes > 0 && (speechless || says_out_of_memory(out))) {
    return past_memory(limits, "as it said itself");
  }
  return out;
}

std::string request_for(const Library& library, const std::string& text, const std::vector<std::string>& arguments,
                        Stage stage, const Limits& limits) {
  std::vector<std::string> fields = {std::to_string(limits.memory_bytes),
                                     library.path(),
                                     library.builtins(),
                                     library.identity(),
                                     stage == Stage::ptx ? "ptx" : "cubin",
                                     text};
  fields.insert(fields.end(), arguments.begin(), arguments.end());
  return pack(fields);
}

}  // namespace

Result<std::string> find_worker() {
  if (const char* named = std::getenv("WEFT_WORKER"); named != nullptr && *named != '\0') {
    if (can_execute(named)) return std::string(named);
    return environment_error(fmt::format("WEFT_WORKER names {}, which cannot be executed", named));
  }
  std::error_code failure;
  std::vector<fs::path> places = {fs::read_symlink("/proc/self/exe", failure).parent_path()};
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&find_worker), &here) != 0 && here.dli_fname != nullptr) {
    places.push_back(fs::canonical(here.dli_fname, failure).parent_path());
  }
  for (const fs::path& place : places) {
    if (!place.empty() && can_execute(place / kProgram)) return (place / kProgram).string();
  }
  Error error = environment_error(
      fmt::format("a deadline or a memory limit for the compiler needs the program {}, which is not in {}", kProgram,
                  places.front().string()));
  error.notes.push_back("set WEFT_WORKER to its path");
  return error;
}

Result<Outcome> invoke_in_worker(const Library& library, const std::string& text,
                                 const std::vector<std::string>& arguments, Stage stage, const Limits& limits) {
  const Clock::time_point deadline = Clock::now() + limits.deadline;
  WEFT_TRY(std::string program, find_worker());
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return system_error("spoken to", errno);
  File theirs(ends[1]);
  pid_t process = -1;
  char* const command[] = {program.data(), nullptr};
  {
    const SpawnSettings settings(theirs.descriptor());
    const int failure =
        posix_spawn(&process, program.c_str(), settings.files(), settings.attributes(), command, environ);
    if (failure != 0) {
      ::close(ends[0]);
      return system_error("started", failure);
    }
  }
  Worker worker(process, ends[0]);
  theirs.close();
  std::string answer;
  const bool timed = limits.deadline.count() > 0;
  switch (worker.exchange(request_for(library, text, arguments, stage, limits), answer, timed ? &deadline : nullptr)) {
    case Ended::answered:
      return read_answer(answer, limits);
    case Ended::late:
      return environment_error(
          fmt::format("NVRTC did not finish within its deadline of {} ms", limits.deadline.count()));
    case Ended::closed:
      break;
  }
  return ended_early(limits, worker.reap());
}

}  // namespace weft::nvrtc
