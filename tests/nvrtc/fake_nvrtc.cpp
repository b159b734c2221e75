/// A library that looks like NVRTC: it knows the architectures of the release it is built as, and does what the text
/// it compiles asks for.

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#define FAKE(name) extern "C" [[gnu::visibility("default")]] int nvrtc##name

namespace {

struct Program {
  std::string text, log, output;
};

std::vector<int> known() {
  if (FAKE_MAJOR == 11) return {35, 50, 60, 61, 70, 75, 80, 86, 89, 90};
  if (FAKE_MAJOR == 12) return {50, 60, 61, 70, 75, 80, 86, 89, 90, 100, 103, 120, 121};
  return {75, 80, 86, 89, 90, 100, 103, 120, 121};
}

bool asks_for(const Program& program, const char* word) { return program.text.find(word) != std::string::npos; }

/// NVRTC's results: the size counts the NUL of a text.
int copy(const std::string& from, char* to) {
  std::memcpy(to, from.c_str(), from.size() + 1);
  return 0;
}

}  // namespace

FAKE(Version)(int* major, int* minor) {
  *major = FAKE_MAJOR;
  *minor = FAKE_MINOR;
  return 0;
}
FAKE(GetNumSupportedArchs)(int* count) {
  *count = static_cast<int>(known().size());
  return 0;
}
FAKE(GetSupportedArchs)(int* out) {
  for (const int architecture : known()) *out++ = architecture;
  return 0;
}
FAKE(CreateProgram)(Program** out, const char* text, const char*, int, const char* const*, const char* const*) {
  *out = new Program{text, "", ""};
  return 0;
}
FAKE(DestroyProgram)(Program** program) {
  delete *program;
  *program = nullptr;
  return 0;
}
FAKE(CompileProgram)(Program* program, int count, const char* const* options) {
  for (int i = 0; i < count; ++i) program->log += std::string(options[i]) + "\n";
  if (asks_for(*program, "abort")) std::abort();
  if (asks_for(*program, "out of memory")) return 1;
  if (asks_for(*program, "sleep")) std::this_thread::sleep_for(std::chrono::hours(1));
  if (asks_for(*program, "signals")) {
    // As NVRTC does: whoever interrupts it ends the process.
    const auto before = std::signal(SIGINT, [](int) { std::_Exit(4); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    kill(getpid(), SIGINT);
    std::signal(SIGINT, before);
  }
  if (asks_for(*program, "large")) program->output.assign(10 << 20, 'x');
  return 0;
}
FAKE(GetCUBINSize)(Program* program, std::size_t* size) {
  *size = program->output.size() + 1;
  return 0;
}
FAKE(GetCUBIN)(Program* program, char* out) { return copy(program->output, out); }
FAKE(GetPTXSize)(Program* program, std::size_t* size) {
  *size = program->output.size() + 1;
  return 0;
}
FAKE(GetPTX)(Program* program, char* out) { return copy(program->output, out); }
FAKE(GetProgramLogSize)(Program* program, std::size_t* size) {
  *size = program->log.size() + 1;
  return 0;
}
FAKE(GetProgramLog)(Program* program, char* out) { return copy(program->log, out); }
extern "C" [[gnu::visibility("default")]] const char* nvrtcGetErrorString(int status) {
  return status == 1 ? "NVRTC_ERROR_OUT_OF_MEMORY" : "NVRTC_ERROR_FAKE";
}
