#include "tools/console.h"

#include "tools/failure.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace weft::tools {

namespace {

bool wants_color(const std::string& choice, int file) {
  if (choice == "always") return true;
  if (choice == "never" || std::getenv("NO_COLOR") != nullptr) return false;
  const char* terminal = std::getenv("TERM");
  return ::isatty(file) != 0 && (terminal == nullptr || std::strcmp(terminal, "dumb") != 0);
}

}  // namespace

int status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::user:
      return kWrongInput;
    case ErrorKind::environment:
      return kEnvironment;
    case ErrorKind::internal:
      return kDefect;
  }
  return kDefect;
}

Console::Console(const Options& options)
    : quiet_(options.quiet),
      json_(options.json),
      verbose_(options.verbose),
      color_out_(wants_color(options.color, STDOUT_FILENO)),
      color_error_(wants_color(options.color, STDERR_FILENO)),
      progress_(!options.quiet && ::isatty(STDERR_FILENO) != 0) {}

void Console::write(std::string_view text) const {
  wrote_ = true;
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void tell(std::string_view text) { (void)std::fwrite(text.data(), 1, text.size(), stderr); }

void Console::say(std::string_view prefix, const std::string& text) const {
  tell(fmt::format("weft: {}{}\n", prefix, text));
}

void Console::diagnostic(const Diagnostic& diagnostic, const Source& source) const {
  if (quiet_ && diagnostic.severity == Severity::warning) return;
  tell(render(diagnostic, source, color_error_));
}

void Console::warnings(const std::vector<Diagnostic>& warnings, const Source& source) const {
  for (const auto& warning : warnings) diagnostic(warning, source);
}

int Console::fail(const Error& error, const Source* source) const {
  if (json_ && failure_.empty()) failure_ = line_of(failure(error, status_of(error.kind), source));
  if (source != nullptr && !error.diagnostics.empty()) {
    for (const auto& found : error.diagnostics) diagnostic(found, *source);
  } else {
    const bool ours = error.kind == ErrorKind::internal;
    say(ours ? "internal error: " : "error: ", error.message);
  }
  for (const auto& note : error.notes) tell(fmt::format("  note: {}\n", note));
  return status_of(error.kind);
}

int Console::usage(const std::string& message) const {
  if (json_ && failure_.empty()) failure_ = line_of(failure("usage", kWrongUsage, message));
  tell(fmt::format("weft: {}\nSee weft COMMAND --help.\n", message));
  return kWrongUsage;
}

int Console::finish(int status) const {
  if (json_ && status != kDone && !wrote_) write(failure_);
  return tools::finish(status);
}

int finish(int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  tell(fmt::format("weft: error: cannot write to standard output: {}\n", std::strerror(errno)));
  return kEnvironment;
}

void prepare_streams() {
  // A stream that is closed would be the next file that is opened: remarks would stand in somebody's results. What
  // stands for it refuses the same as it did, to read or to write.
  for (const auto& [stream, flags] :
       {std::pair{STDIN_FILENO, O_WRONLY}, std::pair{STDOUT_FILENO, O_RDONLY}, std::pair{STDERR_FILENO, O_RDONLY}}) {
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF) (void)::open("/dev/null", flags);
  }
  (void)::signal(SIGXFSZ, SIG_IGN);  // a file that becomes too large is an error of the call that writes it
}

}  // namespace weft::tools
