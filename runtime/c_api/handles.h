#pragma once

#include "compiler/base/guarded.h"

#include <weft/c.h>
#include <weft/weft.h>

#include <string>
#include <vector>

/// What is behind the opaque handles of weft/c.h.

struct weft_engine {
  explicit weft_engine(weft::EngineOptions options) : engine(std::move(options)) {}
  weft::Engine engine;
};

struct weft_kernel {
  weft::Kernel kernel;
};

struct weft_error {
  weft_error_kind kind = WEFT_ERROR_INTERNAL;
  std::string message, report;
  std::vector<std::string> texts;  ///< of the diagnostics
  std::vector<weft_diagnostic> diagnostics;
};

namespace weft::c_api {

/// A handle for the caller; `source` is the text that diagnostics point into, where there is one.
weft_error* error_of(const Error& error, const Source* source = nullptr);

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
