#include "tools/console.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace weft::tools {

namespace {

bool wants_color(const std::string& choice, int file) {
  if (choice == "always") return true;
  if (choice == "never" || std::getenv("NO_COLOR") != nullptr) return false;
  const char* terminal = std::getenv("TERM");
  return ::isatty(file) != 0 && (terminal == nullptr || std::strcmp(terminal, "dumb") != 0);
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
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

void Console::write(std::string_view text) const { std::fwrite(text.data(), 1, text.size(), stdout); }

void Console::say(std::string_view prefix, const std::string& text) const {
  fmt::print(stderr, "weft: {}{}\n", prefix, text);
}

void Console::diagnostic(const Diagnostic& diagnostic, const Source& source) const {
  if (quiet_ && diagnostic.severity == Severity::warning) return;
  fmt::print(stderr, "{}", render(diagnostic, source, color_error_));
}

void Console::warnings(const std::vector<Diagnostic>& warnings, const Source& source) const {
  for (const auto& warning : warnings) diagnostic(warning, source);
}

int Console::fail(const Error& error, const Source* source) const {
  if (source != nullptr && !error.diagnostics.empty()) {
    for (const auto& found : error.diagnostics) diagnostic(found, *source);
  } else {
    const bool ours = error.kind == ErrorKind::internal;
    say(ours ? "internal error: " : "error: ", error.message);
  }
  for (const auto& note : error.notes) fmt::print(stderr, "  note: {}\n", note);
  return status_of(error.kind);
}

int Console::usage(const std::string& message) const {
  fmt::print(stderr, "weft: {}\nSee weft COMMAND --help.\n", message);
  return kWrongUsage;
}

int Console::finish(int status) const {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  fmt::print(stderr, "weft: error: cannot write to standard output: {}\n", std::strerror(errno));
  return kEnvironment;
}

Progress::Progress(const Console& console, std::string what)
    : active_(console.shows_progress()), what_(std::move(what)), start_(seconds_now()), last_(start_) {}

Progress::~Progress() {
  if (shown_) fmt::print(stderr, "\r\x1b[K");
}

void Progress::update(std::size_t finished, std::size_t total) {
  if (!active_) return;
  const double now = seconds_now();
  if (now - start_ < 1 || now - last_ < 0.1) return;
  last_ = now;
  shown_ = true;
  const double left =
      finished == 0 ? 0 : (now - start_) * static_cast<double>(total - finished) / static_cast<double>(finished);
  constexpr std::size_t kWidth = 24;
  const auto done = total == 0 ? kWidth : kWidth * finished / total;
  fmt::print(stderr, "\r\x1b[K{} [{:#<{}}{: <{}}] {} of {}, about {:.0f} s left", what_, "", done, "", kWidth - done,
             finished, total, left);
  std::fflush(stderr);
}

}  // namespace weft::tools
