#pragma once

#include "compiler/base/guarded.h"
#include "compiler/ir/pattern.h"
#include "runtime/draw/picture.h"

#include <weft/c.h>
#include <weft/c_ring.h>
#include <weft/ring.h>
#include <weft/weft.h>

#include <memory>
#include <string>
#include <vector>

/// What is behind the opaque handles of weft/c.h.

struct weft_engine {
  explicit weft_engine(weft::EngineOptions options) : engine(std::move(options)) {}
  weft::Engine engine;
};

/// Everything that can be asked of it is made when it is: no call fails afterwards.
struct weft_pattern {
  std::string name, text, warnings_report;
  weft_lse_kind lse = WEFT_LSE_NONE;
  std::int64_t branches = 0;
  std::vector<std::string> input_names;
  std::vector<weft_input_info> inputs;
  std::vector<std::string> texts;  ///< of the warnings
  std::vector<weft_diagnostic> warnings;
};

struct weft_kernel {
  weft::Kernel kernel;
  weft_pattern pattern;
};

struct weft_error {
  weft_error_kind kind = WEFT_ERROR_INTERNAL;
  weft_error_code code = WEFT_ERROR_OTHER;
  std::string message, report;
  std::vector<std::string> texts;  ///< of the diagnostics
  std::vector<weft_diagnostic> diagnostics;
};

/// Made whole when it is drawn, as patterns are.
struct weft_picture {
  weft::draw::Picture cells;
  std::string text, svg;
  std::vector<std::uint8_t> colors;
};

struct weft_explanation {
  std::string text, json;
};

struct weft_transport {
  std::unique_ptr<weft::Transport> transport;
};

struct weft_ring {
  std::unique_ptr<weft::Ring> ring;
};

struct weft_ring_plan {
  std::unique_ptr<weft::RingPlan> plan;
};

namespace weft::c_api {

/// A handle for the caller; `source` is the text that diagnostics point into, where there is one.
weft_error* error_of(const Error& error, const Source* source = nullptr);

/// Diagnostics for the caller, whose strings are kept in `texts`; without `source` they have no line.
std::vector<weft_diagnostic> diagnostics_of(const std::vector<Diagnostic>& from, const Source* source,
                                            std::vector<std::string>& texts);

weft_pattern pattern_of(const ir::Pattern& pattern, const std::vector<Diagnostic>& warnings, const Source& source);

Result<EngineOptions> options_of(const weft_engine_options* given);
Result<CompileOptions> options_of(const weft_compile_options* given);

inline Error missing(const char* what) { return user_error(std::string(what) + " is NULL"); }

/// What is returned where memory for an error has run out; weft_error_free() leaves it alone.
weft_error* static_out_of_memory();

/// Runs `body`, which returns a Status; whatever it throws becomes an error.
template <typename Body>
weft_error* guarded(const Source* source, const Body& body) noexcept {
  const Status status = weft::guarded(body);
  if (status.ok()) return nullptr;
  try {
    return error_of(status.error(), source);
  } catch (...) {
    return static_out_of_memory();
  }
}

}  // namespace weft::c_api
