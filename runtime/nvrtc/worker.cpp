#include "runtime/nvrtc/worker.h"

#include "runtime/nvrtc/spawn.h"
#include "runtime/nvrtc/wire.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
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

enum class Ended { answered, closed, late };

/// A running worker and our end of the socket to it. The destructor leaves no process behind.
class Worker {
 public:
  Worker(pid_t process, Descriptor socket) : process_(process), socket_(std::move(socket)) {}
  ~Worker() {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      reap(process_);
    }
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Sends the request and reads one message into `answer`, no longer than until `deadline`.
  Ended exchange(std::string_view request, std::string& answer, const Clock::time_point* deadline) {
    for (;;) {
      pollfd state = {socket_.number(), static_cast<short>(request.empty() ? POLLIN : POLLIN | POLLOUT), 0};
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

  /// How the worker ended, once it has closed its end.
  int wait() { return reap(std::exchange(process_, -1)); }

 private:
  static int milliseconds_to(const Clock::time_point* deadline) {
    if (deadline == nullptr) return -1;
    constexpr std::chrono::milliseconds kLongestWait{60'000};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now());
    return static_cast<int>(std::clamp(left, std::chrono::milliseconds(0), kLongestWait).count());
  }

  bool send_some(std::string_view& request) const {
    const ssize_t sent = ::send(socket_.number(), request.data(), request.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) return errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK;
    request.remove_prefix(static_cast<std::size_t>(sent));
    return true;
  }

  bool receive_some(std::string& answer) const {
    std::array<char, 1 << 16> buffer;
    const ssize_t got = ::recv(socket_.number(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0) return errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK;
    answer.append(buffer.data(), static_cast<std::size_t>(got));
    return got > 0;
  }

  pid_t process_;
  Descriptor socket_;
};

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
  if (fields && fields->size() == 2) {
    // The library could be opened here: what it lacks in the worker is the memory for that.
    const bool limited = limits.memory_bytes > 0 && (*fields)[0] != "replaced";
    return limited ? past_memory(limits, (*fields)[1]) : environment_error(std::move((*fields)[1]));
  }
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
    places.push_back((places.back() / WEFT_BIN_FROM_LIB).lexically_normal());
  }
  for (const fs::path& place : places) {
    if (!place.empty() && can_execute((place / kProgram).string())) return (place / kProgram).string();
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
  WEFT_TRY(const std::string program, find_worker());
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return environment_error(fmt::format("{} cannot be spoken to: {}", program, std::strerror(errno)));
  }
  Descriptor ours(ends[0]), theirs(ends[1]);
  Descriptor nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  WEFT_TRY(const pid_t process, spawn({program}, theirs, theirs, nowhere));
  Worker worker(process, std::move(ours));
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
  return ended_early(limits, worker.wait());
}

}  // namespace weft::nvrtc
