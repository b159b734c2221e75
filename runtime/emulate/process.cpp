#include "runtime/emulate/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

extern char** environ;

namespace weft::emulate {
namespace {

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

}  // namespace

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
  std::ostringstream text;
  text << std::ifstream(log).rdbuf();
  out.output = text.str();
  return out;
}

}  // namespace weft::emulate
