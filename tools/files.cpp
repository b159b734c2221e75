#include "tools/files.h"

#include "compiler/base/write.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace weft::tools {

namespace {

constexpr std::size_t kSourceLimit = std::size_t{1} << 20;

Error cannot(const char* what, const std::string& path) {
  return environment_error(fmt::format("cannot {} {}: {}", what, path, std::strerror(errno)));
}

/// A file the user named is the user's to get right; anything else that goes wrong is the machine's.
Error cannot_open(const std::string& path) {
  auto error = cannot("read", path);
  if (errno == ENOENT || errno == ENOTDIR || errno == EISDIR) error.kind = ErrorKind::user;
  return error;
}

Result<std::string> read_bytes(const std::string& path, std::size_t limit) {
  const bool standard = path == "-";
  const int file = standard ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return cannot_open(path);
  std::string bytes;
  std::array<char, 65536> chunk;
  while (bytes.size() < limit) {
    const auto got = ::read(file, chunk.data(), std::min(chunk.size(), limit - bytes.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      auto error = cannot_open(path);
      if (!standard) ::close(file);
      return error;
    }
    if (got == 0) break;
    bytes.append(chunk.data(), static_cast<std::size_t>(got));
  }
  if (!standard) ::close(file);
  return bytes;
}

/// Path of the temporary file being written: read by the signal handler, hence a plain array.
std::array<char, 4096> unfinished = {};

extern "C" void on_interrupt(int) {
  if (unfinished[0] != '\0') ::unlink(unfinished.data());
  ::_exit(130);
}

Status write_all(int file, std::string_view bytes, const std::string& path) {
  errno = write_whole(file, bytes);
  return errno == 0 ? Status(done) : cannot("write", path);
}

/// Not a regular file, such as /dev/null or a pipe: nothing to rename over.
bool is_special(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
}

/// The file that a chain of links leads to, there or not: a link that dangles is written through, as `cp` would.
Result<std::string> behind_links(std::string path) {
  constexpr int kMostLinks = 40;  // as the system follows
  std::array<char, 4096> to;
  for (int i = 0; i < kMostLinks; ++i) {
    const auto length = ::readlink(path.c_str(), to.data(), to.size());
    if (length < 0) return path;
    const std::string next(to.data(), static_cast<std::size_t>(length));
    const auto slash = path.rfind('/');
    path = next.starts_with('/') || slash == std::string::npos ? next : path.substr(0, slash + 1) + next;
  }
  errno = ELOOP;
  return cannot("write", path);
}

/// Who may read a file that is there already may read what replaces it, and nobody else.
mode_t mode_of(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) == 0) return info.st_mode & 0777;
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

Status write_special(const std::string& path, std::string_view bytes) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0) return cannot("write", path);
  auto status = write_all(file, bytes, path);
  ::close(file);
  return status;
}

}  // namespace

Result<std::string> read_text(const std::string& path) { return read_bytes(path, std::size_t{64} << 20); }

Result<Source> read_source(const std::string& path) {
  WEFT_TRY(auto text, read_bytes(path, kSourceLimit + 1));
  return Source{.name = path == "-" ? "<stdin>" : path, .text = std::move(text)};
}

Status write_file(const std::string& path, std::string_view bytes) {
  if (path == "-") {
    if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size()) return cannot("write", "standard output");
    return done;
  }
  if (is_special(path)) return write_special(path, bytes);
  // A link stays a link: what it points to is replaced, or made.
  WEFT_TRY(const auto target, behind_links(path));
  // A name of its own, so that long ones have room; in the same folder, so that it can take the other's place.
  const auto slash = target.rfind('/');
  auto temporary = (slash == std::string::npos ? "" : target.substr(0, slash + 1)) + ".weft-XXXXXX";
  const int file = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (file < 0) return cannot("write", path);
  if (temporary.size() < unfinished.size()) std::memcpy(unfinished.data(), temporary.c_str(), temporary.size() + 1);
  ::fchmod(file, mode_of(target));
  auto status = write_all(file, bytes, path);
  if (::close(file) != 0 && status.ok()) status = cannot("write", path);
  if (status.ok() && ::rename(temporary.c_str(), target.c_str()) != 0) status = cannot("write", path);
  if (!status.ok()) ::unlink(temporary.c_str());
  unfinished[0] = '\0';
  return status;
}

void install_interrupt_handler() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
}

}  // namespace weft::tools
