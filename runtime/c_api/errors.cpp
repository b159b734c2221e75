#include "compiler/base/diagnostic.h"
#include "runtime/c_api/handles.h"

#include <cstdlib>
#include <new>

namespace weft::c_api {
namespace {

weft_error_kind kind_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::user:
      return WEFT_ERROR_USER;
    case ErrorKind::environment:
      return WEFT_ERROR_ENVIRONMENT;
    case ErrorKind::internal:
      return WEFT_ERROR_INTERNAL;
  }
  return WEFT_ERROR_INTERNAL;
}

weft_error_code code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::ring_mismatch:
      return WEFT_ERROR_RING_MISMATCH;
    case ErrorCode::ring_lost:
      return WEFT_ERROR_RING_LOST;
    case ErrorCode::ring_start:
      return WEFT_ERROR_RING_START;
    case ErrorCode::ring_transport:
      return WEFT_ERROR_RING_TRANSPORT;
    case ErrorCode::none:
      break;
  }
  return WEFT_ERROR_OTHER;
}

}  // namespace

std::vector<weft_diagnostic> diagnostics_of(const std::vector<Diagnostic>& from, const Source* source,
                                            std::vector<std::string>& texts) {
  std::vector<weft_diagnostic> out;
  texts.reserve(2 * from.size());  // pointers into it are given away
  for (const auto& d : from) {
    const auto at = source != nullptr ? locate(*source, d.range.begin) : LineColumn{0, 0};
    texts.push_back(d.code);
    texts.push_back(d.message);
    out.push_back({.code = texts[texts.size() - 2].c_str(),
                   .message = texts.back().c_str(),
                   .begin = d.range.begin,
                   .end = d.range.end,
                   .line = static_cast<std::uint32_t>(at.line),
                   .column = static_cast<std::uint32_t>(at.column)});
  }
  return out;
}

weft_error* error_of(const Error& error, const Source* source) {
  auto made = std::make_unique<weft_error>();
  made->kind = kind_of(error.kind);
  made->code = code_of(error.code);
  made->message = error.message;
  made->report = report(error, source == nullptr ? Source() : *source);
  made->diagnostics = diagnostics_of(error.diagnostics, source, made->texts);
  return made.release();
}

weft_error* static_out_of_memory() {
  static weft_error error;  // its texts are empty: see weft_error_message
  return &error;
}

}  // namespace weft::c_api

namespace {
constexpr const char* kOutOfMemory = "out of memory";
bool is_static(const weft_error* error) { return error == weft::c_api::static_out_of_memory(); }
}  // namespace

extern "C" {

weft_error_kind weft_error_kind_of(const weft_error* error) {
  if (error == nullptr) return WEFT_ERROR_INTERNAL;
  return is_static(error) ? WEFT_ERROR_ENVIRONMENT : error->kind;
}

const char* weft_error_message(const weft_error* error) {
  if (error == nullptr) return "";
  return is_static(error) ? kOutOfMemory : error->message.c_str();
}

const char* weft_error_report(const weft_error* error) {
  if (error == nullptr) return "";
  return is_static(error) ? kOutOfMemory : error->report.c_str();
}

size_t weft_error_diagnostic_count(const weft_error* error) { return error == nullptr ? 0 : error->diagnostics.size(); }

weft_diagnostic weft_error_diagnostic(const weft_error* error, size_t number) {
  if (error == nullptr || number >= error->diagnostics.size()) return {};
  return error->diagnostics[number];
}

void weft_error_free(weft_error* error) {
  if (error != nullptr && !is_static(error)) delete error;
}

}  // extern "C"
