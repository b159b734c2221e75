#pragma once

#include "compiler/base/result.h"
#include "tools/options.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace weft::tools {

/// Exit statuses of the command.
inline constexpr int kDone = 0, kWrongInput = 1, kWrongUsage = 2, kEnvironment = 3, kDefect = 4, kInterrupted = 130;

int status_of(ErrorKind kind);

/// Before anything is opened: see to it that streams that are closed stay so, and that the limits of files are errors.
void prepare_streams();

/// To standard error. What cannot be said is lost: results and exit status do not depend on it.
void tell(std::string_view text);

/// Flushes standard output: what could not be written is an error of the environment.
int finish(int status);

/// Results go to standard output, everything else to standard error; --quiet silences remarks, not errors.
class Console {
 public:
  explicit Console(const Options& options);

  /// A result. Text for people is buffered by stdio, so that a broken pipe shows once, at finish().
  template <typename... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) const {
    write(fmt::format(format, std::forward<Args>(args)...));
  }
  void write(std::string_view text) const;

  template <typename... Args>
  void remark(fmt::format_string<Args...> format, Args&&... args) const {
    if (!quiet_) say("", fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) const {
    if (!quiet_) say("warning: ", fmt::format(format, std::forward<Args>(args)...));
  }
  void diagnostic(const Diagnostic& diagnostic, const Source& source) const;
  void warnings(const std::vector<Diagnostic>& warnings, const Source& source) const;

  /// Says what went wrong; returns the exit status that goes with it. With --json it also stands on standard output
  /// in the end, where the command has left nothing else there.
  int fail(const Error& error, const Source* source = nullptr) const;
  int usage(const std::string& message) const;
  /// finish() of the command as a whole: a failure leaves its object on standard output first, with --json.
  int finish(int status) const;

  bool color_out() const { return color_out_; }
  bool json() const { return json_; }
  bool verbose() const { return verbose_; }
  bool shows_progress() const { return progress_; }

 private:
  void say(std::string_view prefix, const std::string& text) const;
  bool quiet_, json_, verbose_, color_out_, color_error_, progress_;
  mutable bool wrote_ = false;
  mutable std::string failure_ = {};  ///< the first, as JSON
};

}  // namespace weft::tools
