#include "command.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace weft::test {

namespace fs = std::filesystem;

namespace {

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

/// In the child: streams, environment, then the command.
[[noreturn]] void become_weft(const Scratch& scratch, const Call& call) {
  const auto out = call.out_to.empty() ? scratch.path(".out") : call.out_to;
  ::dup2(::open(scratch.path(".in").c_str(), O_RDONLY), STDIN_FILENO);
  ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
  const auto err = call.err_to.empty() ? scratch.path(".err") : call.err_to;
  ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
  ::setenv("WEFT_CACHE_DIR", scratch.path(".store").c_str(), 1);
  ::unsetenv("XDG_CACHE_HOME");
  // What the command does shall not depend on the machine's GPU; an NVRTC of the user's own is found from any home.
  ::setenv("WEFT_CUDA_DRIVER", "/nonexistent/libcuda.so.1", 1);
  if (const char* home = std::getenv("HOME"); home != nullptr && std::getenv("XDG_DATA_HOME") == nullptr) {
    ::setenv("XDG_DATA_HOME", (std::string(home) + "/.local/share").c_str(), 1);
  }
  ::setenv("HOME", scratch.path(".home").c_str(), 1);
  for (const auto& [name, value] : call.environment) {
    value.empty() ? ::unsetenv(name.c_str()) : ::setenv(name.c_str(), value.c_str(), 1);
  }
  std::vector<char*> arguments = {const_cast<char*>("weft")};
  for (const auto& argument : call.arguments) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  for (const int stream : call.closed) ::close(stream);
  ::execv(WEFT_COMMAND, arguments.data());
  ::_exit(126);
}

}  // namespace

Scratch::Scratch() {
  auto name = (fs::temp_directory_path() / "weft-cli-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
  root_ = name;
}
Scratch::~Scratch() {
  std::error_code ignored;
  fs::remove_all(root_, ignored);
}

std::string Scratch::write(const std::string& name, const std::string& bytes) const {
  std::ofstream(root_ / name, std::ios::binary) << bytes;
  return path(name);
}

std::vector<std::string> Scratch::files() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(root_)) {
    const auto name = entry.path().filename().string();
    if (!name.starts_with(".")) names.push_back(name);
  }
  return names;
}

Finished run_weft(const Scratch& scratch, Call call) {
  scratch.write(".in", call.input);
  scratch.write(".err", "");
  const auto child = ::fork();
  if (child == 0) become_weft(scratch, call);
  int status = 0;
  bool ended = false;
  if (call.interrupt_when) {
    while (!(ended = ::waitpid(child, &status, WNOHANG) == child) && !call.interrupt_when()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (!ended) ::kill(child, call.kill ? SIGKILL : SIGINT);
  }
  if (!ended) ::waitpid(child, &status, 0);
  Finished finished;
  finished.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  finished.out = slurp(scratch.path(".out"));
  finished.err = slurp(scratch.path(".err"));
  return finished;
}

std::function<bool()> after(std::chrono::milliseconds time) {
  const auto then = std::chrono::steady_clock::now() + time;
  return [then] { return std::chrono::steady_clock::now() >= then; };
}

std::string npy(const std::string& descr, const std::vector<std::int64_t>& shape, const std::string& bytes) {
  std::string extents;
  for (auto extent : shape) extents += std::to_string(extent) + ", ";
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + extents + "), }";
  header.append(64 - (10 + header.size() + 1) % 64, ' ').push_back('\n');
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  return file + header + bytes;
}

std::string npy_f32(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (auto extent : shape) count *= extent;
  std::string bytes;
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = static_cast<float>((i * 7919) % 17 - 8) / 8;
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return npy("<f4", shape, bytes);
}

}  // namespace weft::test
