#include "tools/failure.h"

#include "compiler/base/diagnostic.h"

namespace weft::tools {

namespace {

void add_range(Json& to, const SourceRange& range, const Source& source) {
  const auto begin = locate(source, range.begin), end = locate(source, range.end);
  to["line"] = begin.line;
  to["column"] = begin.column;
  to["end_line"] = end.line;
  to["end_column"] = end.column;
}

const char* kind_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::user:
      return "input";
    case ErrorKind::environment:
      return "environment";
    case ErrorKind::internal:
      return "defect";
  }
  return "defect";
}

}  // namespace

Json json_of(const Diagnostic& diagnostic, const Source& source) {
  Json out{{"severity", diagnostic.severity == Severity::error ? "error" : "warning"}, {"code", diagnostic.code}};
  add_range(out, diagnostic.range, source);
  out["message"] = diagnostic.message;
  out["label"] = diagnostic.label;
  out["notes"] = diagnostic.notes;
  out["places"] = Json::array();
  for (const auto& place : diagnostic.places) {
    Json one{{"label", place.label}};
    add_range(one, place.range, source);
    out["places"].push_back(std::move(one));
  }
  out["fix"] = nullptr;
  if (diagnostic.fix) {
    out["fix"] = Json{{"message", diagnostic.fix->message}, {"replacement", diagnostic.fix->replacement}};
    add_range(out["fix"], diagnostic.fix->range, source);
  }
  return out;
}

Json failure(const char* kind, int status, const std::string& message, const std::vector<std::string>& notes,
             Json diagnostics) {
  return {{"error",
           {{"kind", kind},
            {"status", status},
            {"message", message},
            {"notes", notes},
            {"diagnostics", std::move(diagnostics)}}}};
}

Json failure(const Error& error, int status, const Source* source) {
  auto diagnostics = Json::array();
  auto message = error.message;
  if (source != nullptr) {
    for (const auto& found : error.diagnostics) diagnostics.push_back(json_of(found, *source));
    if (!error.diagnostics.empty()) message = error.diagnostics.front().message;
  }
  return failure(kind_of(error.kind), status, message, error.notes, std::move(diagnostics));
}

std::string line_of(const Json& object) { return json_text(object, -1) + "\n"; }

}  // namespace weft::tools
