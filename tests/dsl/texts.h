#pragma once

#include "compiler/base/diagnostic.h"
#include "dsl/ast.h"

#include <filesystem>
#include <string>
#include <vector>

namespace weft::test {

/// The pattern files that every release accepts: tests/patterns and the golden cases.
std::vector<std::filesystem::path> sample_files();

/// Folders of tests/data that hold an `input.weft`.
std::vector<std::filesystem::path> case_folders();

/// Everything that reading and checking find.
std::vector<Diagnostic> findings(const Source& source);

/// The codes of those, each with what its range covers: `E0201 'windw'`.
std::vector<std::string> marked(const std::string& text);

/// The tree of a text that must parse.
dsl::File parsed(const std::string& text);

/// … formatted.
std::string formatted(const std::string& text);

/// A pattern around some statements.
inline std::string in_pattern(const std::string& statements) { return "pattern p { " + statements + " }"; }

/// A test's name from a file's.
std::string identifier(const std::filesystem::path& path);

}  // namespace weft::test
