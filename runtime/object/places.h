#pragma once

#include <string>
#include <vector>

/// Where shared libraries lie on this machine, for those that Weft opens and never links.
namespace weft::object {

/// The paths that a shell pattern matches, sorted.
std::vector<std::string> matches(const std::string& pattern);

/// `path` as a pattern that matches it and nothing else.
std::string as_pattern(const std::string& path);

/// The parts of a PATH-like variable; none where it is unset.
std::vector<std::string> variable_parts(const char* name);

/// Directories in the loader's order: LD_LIBRARY_PATH, those that /etc/ld.so.conf names, the built-in ones.
/// They may repeat, be links or be absent.
std::vector<std::string> loader_directories();

}  // namespace weft::object
