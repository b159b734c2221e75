#include "runtime/object/places.h"

#include <glob.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace weft::object {
namespace {

/// The directories /etc/ld.so.conf names: one a line, with `include PATTERN` and comments.
void add_configured(const std::string& file, std::vector<std::string>& out, int depth = 0) {
  constexpr int kDeepest = 4;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word;
    if (!(words >> word)) continue;
    if (word.front() == '/') out.push_back(word);
    if (std::string pattern; word == "include" && words >> pattern && depth < kDeepest) {
      for (const std::string& included : matches(pattern)) add_configured(included, out, depth + 1);
    }
  }
}

}  // namespace

std::vector<std::string> matches(const std::string& pattern) {
  std::vector<std::string> out;
  glob_t found{};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) out.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return out;
}

std::string as_pattern(const std::string& path) {
  std::string out;
  for (const char c : path) {
    if (c == '*' || c == '?' || c == '[' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::vector<std::string> variable_parts(const char* name) {
  std::vector<std::string> out;
  const char* variable = std::getenv(name);
  std::istringstream parts{std::string(variable == nullptr ? "" : variable)};
  for (std::string part; std::getline(parts, part, ':');) {
    if (!part.empty()) out.push_back(part);
  }
  return out;
}

std::vector<std::string> loader_directories() {
  std::vector<std::string> out = variable_parts("LD_LIBRARY_PATH");
  add_configured("/etc/ld.so.conf", out);
  out.insert(out.end(), {"/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"});
  return out;
}

}  // namespace weft::object
