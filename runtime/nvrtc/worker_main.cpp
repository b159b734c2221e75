/// `weft-compile`: one call of NVRTC, asked for on standard input and answered on standard output (wire.h), in a
/// process that may be killed. Started by worker.cpp only.

#include "runtime/nvrtc/invoke.h"
#include "runtime/nvrtc/library.h"
#include "runtime/nvrtc/wire.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>

namespace weft::nvrtc {
namespace {

constexpr std::size_t kFixedFields = 6;

std::optional<std::vector<std::string>> read_request() {
  std::string message;
  std::array<char, 1 << 16> buffer;
  for (;;) {
    const auto length = message_length(message);
    if (!length) return std::nullopt;
    if (*length != 0 && message.size() >= *length) return unpack(message);
    const ssize_t got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    message.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

bool write_answer(const std::vector<std::string>& fields) {
  const std::string message = pack(fields);
  for (std::size_t sent = 0; sent < message.size();) {
    const ssize_t now = ::write(STDOUT_FILENO, message.data() + sent, message.size() - sent);
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) return false;
    sent += static_cast<std::size_t>(now);
  }
  return true;
}

void limit_memory(const std::string& bytes) {
  rlimit limit{};
  const auto parsed = std::from_chars(bytes.data(), bytes.data() + bytes.size(), limit.rlim_cur);
  if (parsed.ec != std::errc() || limit.rlim_cur == 0) return;
  limit.rlim_max = limit.rlim_cur;
  ::setrlimit(RLIMIT_AS, &limit);
}

std::vector<std::string> answer(const std::vector<std::string>& request) {
  // The parent's process may have held builtins of another build before it opened NVRTC: the first that is loaded is
  // the one that NVRTC finds.
  dlopen(request[2].c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto library = Library::load(request[1]);
  if (!library.ok()) return {"error", library.error().message};
  if ((*library)->identity() != request[3]) {
    return {"replaced", fmt::format("{} was replaced while this program ran: start the program again", request[1])};
  }
  const std::vector<std::string> arguments(request.begin() + kFixedFields, request.end());
  Outcome outcome =
      invoke((*library)->functions(), request[5], arguments, request[4] == "ptx" ? Stage::ptx : Stage::cubin);
  return {"done", std::to_string(outcome.status), std::move(outcome.status_text), std::move(outcome.log),
          std::move(outcome.output)};
}

int run() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit none{};
  ::setrlimit(RLIMIT_CORE, &none);
  const auto request = read_request();
  if (!request || request->size() < kFixedFields) {
    constexpr std::string_view kWhat = "weft-compile is a part of Weft that is started by it, not by hand\n";
    return ::write(STDERR_FILENO, kWhat.data(), kWhat.size()) < 0 ? 3 : 2;
  }
  // Each further arena of the allocator reserves 64 MB of address space, which the limit counts.
  ::mallopt(M_ARENA_MAX, 1);
  limit_memory(request->front());
  return write_answer(answer(*request)) ? 0 : 3;
}

}  // namespace
}  // namespace weft::nvrtc

int main() { return weft::nvrtc::run(); }
