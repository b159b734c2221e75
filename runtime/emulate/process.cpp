#include "runtime/emulate/process.h"

#include "runtime/emulate/scratch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

extern char** environ;

namespace weft::emulate {
namespace {

namespace fs = std::filesystem;

int spawn(const std::vector<std::string>& words, const std::string& log, pid_t& pid) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  const int failure = posix_spawn(&pid, argv.front(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return failure;
}

bool is_program(const fs::path& path) {
  std::error_code failure;
  return fs::is_regular_file(path, failure) && access(path.c_str(), X_OK) == 0;
}

}  // namespace

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return is_program(name) ? fs::absolute(name).string() : std::string();
  const char* variable = std::getenv("PATH");
  std::istringstream places(variable != nullptr ? variable : "/usr/local/bin:/usr/bin:/bin");
  for (std::string place; std::getline(places, place, ':');) {
    if (is_program(fs::path(place) / name)) return fs::absolute(fs::path(place) / name).string();
  }
  return {};
}

Result<Finished> run(const std::vector<std::string>& words, const std::string& log) {
  pid_t pid = 0;
  if (const int failure = spawn(words, log, pid); failure != 0) {
    return environment_error(fmt::format("{} cannot be run: {}", words.front(), std::strerror(failure)));
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return environment_error(fmt::format("{} was lost: {}", words.front(), std::strerror(errno)));
  }
  Finished out;
  out.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  WEFT_TRY(out.output, read_file(log));
  return out;
}

}  // namespace weft::emulate
