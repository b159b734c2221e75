#include "kernels_cache/place.h"

#include <cstdlib>
#include <filesystem>

namespace weft::cache {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

std::string absolute(const std::string& path) {
  std::error_code failure;
  const auto out = std::filesystem::absolute(path, failure);
  return failure ? std::string() : out.lexically_normal().string();
}

bool is_absolute(const std::string& path) { return !path.empty() && path.front() == '/'; }

bool is_home(const std::string& path) { return is_absolute(path) && path.find_first_not_of('/') != std::string::npos; }

}  // namespace

Place choose_place(const std::string& option) {
  if (!option.empty()) return {.directory = absolute(option), .origin = "option", .reason = {}};
  if (const std::string path = variable("WEFT_CACHE_DIR"); !path.empty()) {
    return {.directory = absolute(path), .origin = "WEFT_CACHE_DIR", .reason = {}};
  }
  if (const std::string path = variable("XDG_CACHE_HOME"); is_absolute(path)) {
    return {.directory = absolute(path + "/weft"), .origin = "XDG_CACHE_HOME", .reason = {}};
  }
  if (const std::string path = variable("HOME"); is_home(path)) {
    return {.directory = absolute(path + "/.cache/weft"), .origin = "HOME", .reason = {}};
  }
  return {.directory = {}, .origin = "none", .reason = "there is no home directory; WEFT_CACHE_DIR names a place"};
}

}  // namespace weft::cache
