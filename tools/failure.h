#pragma once

#include "compiler/base/result.h"
#include "tools/json.h"

#include <string>

/// What is wrong, as one JSON object: `--json` leaves one on standard output however a command ends.
namespace weft::tools {

/// A finding with its place, notes and fix. Lines and columns count from 1.
Json json_of(const Diagnostic& diagnostic, const Source& source);

/// `{"error": {"kind", "status", "message", "notes", "diagnostics"}}`. `source`: of the error's diagnostics.
Json failure(const char* kind, int status, const std::string& message, const std::vector<std::string>& notes = {},
             Json diagnostics = Json::array());
Json failure(const Error& error, int status, const Source* source);

/// One line, whatever bytes are in it.
std::string line_of(const Json& object);

}  // namespace weft::tools
