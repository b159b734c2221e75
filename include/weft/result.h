#pragma once

#include <weft/diagnostic.h>

#include <cassert>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace weft {

/// Who can mend it: the user's input, the machine Weft runs on, or Weft itself. The command's exit
/// status follows from it (1, 3, 4).
enum class ErrorKind { user, environment, internal };

/// What of a ring went wrong (ring.h): its ranks disagree; one was lost; they never came together; bytes did not arrive
/// as they should.
enum class ErrorCode { none, ring_mismatch, ring_lost, ring_start, ring_transport };

/// Why something could not be done. `message` is one sentence; `diagnostics` point into the user's
/// text (empty when the trouble is not in a text); `notes` say what to do next.
struct Error {
  ErrorKind kind = ErrorKind::user;
  std::string message;
  std::vector<Diagnostic> diagnostics = {};
  std::vector<std::string> notes = {};
  ErrorCode code = ErrorCode::none;
};

inline Error user_error(std::string message) { return {.message = std::move(message)}; }
inline Error user_error(std::vector<Diagnostic> diagnostics) {
  Error error;
  error.message = diagnostics.empty() ? std::string() : diagnostics.front().message;
  error.diagnostics = std::move(diagnostics);
  return error;
}
inline Error environment_error(std::string message) {
  return {.kind = ErrorKind::environment, .message = std::move(message)};
}
inline Error internal_error(std::string message) {
  return {.kind = ErrorKind::internal, .message = std::move(message)};
}

/// A value or the reason there is none. No exception crosses a folder's border; this does.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}
  Result(Error error) : state_(std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    assert(ok());
    return *std::get_if<0>(&state_);
  }
  const T& value() const& {
    assert(ok());
    return *std::get_if<0>(&state_);
  }
  T&& value() && {
    assert(ok());
    return std::move(*std::get_if<0>(&state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& {
    assert(!ok());
    return *std::get_if<1>(&state_);
  }
  Error&& error() && {
    assert(!ok());
    return std::move(*std::get_if<1>(&state_));
  }

 private:
  std::variant<T, Error> state_;
};

struct Done {};
/// For work that has no value: `return done;` or an error.
using Status = Result<Done>;
inline constexpr Done done;

}  // namespace weft
