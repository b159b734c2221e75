#include "runtime/nvrtc/spawn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace weft::nvrtc {
namespace {

/// What posix_spawn is told.
class Settings {
 public:
  Settings(const Descriptor& in, const Descriptor& out, const Descriptor& err) {
    posix_spawn_file_actions_init(&files_);
    posix_spawn_file_actions_adddup2(&files_, in.number(), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files_, out.number(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files_, err.number(), STDERR_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&files_, STDERR_FILENO + 1);
    posix_spawnattr_init(&attributes_);
    sigset_t signals;
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes_, &signals);
    sigfillset(&signals);
    posix_spawnattr_setsigdefault(&attributes_, &signals);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~Settings() {
    posix_spawn_file_actions_destroy(&files_);
    posix_spawnattr_destroy(&attributes_);
  }
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;

  const posix_spawn_file_actions_t* files() const { return &files_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t files_;
  posix_spawnattr_t attributes_;
};

}  // namespace

Descriptor::Descriptor(int number) : number_(number) {
  if (number < 0 || number > STDERR_FILENO) return;
  number_ = ::fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  ::close(number);
}

void Descriptor::close() {
  if (number_ >= 0) ::close(number_);
  number_ = -1;
}

Result<pid_t> spawn(const std::vector<std::string>& words, const Descriptor& in, const Descriptor& out,
                    const Descriptor& err) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const Settings settings(in, out, err);
  pid_t process = -1;
  const int failure =
      posix_spawn(&process, arguments.front(), settings.files(), settings.attributes(), arguments.data(), environ);
  if (failure == 0) return process;
  return environment_error(fmt::format("{} cannot be started: {}", words.front(), std::strerror(failure)));
}

int reap(pid_t process) {
  int status = -1;
  while (::waitpid(process, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return status;
}

std::string ending(int status) {
  if (status >= 0 && WIFSIGNALED(status)) return fmt::format("was ended by signal {}", WTERMSIG(status));
  if (status >= 0 && WIFEXITED(status)) return fmt::format("ended with status {}", WEXITSTATUS(status));
  return "ended";
}

bool can_execute(const std::string& path) {
  std::error_code failure;
  return std::filesystem::is_regular_file(path, failure) && ::access(path.c_str(), X_OK) == 0;
}

}  // namespace weft::nvrtc
