#include "runtime/llvm/search.h"

#include "compiler/base/fork_safe.h"
#include "runtime/llvm/library.h"
#include "runtime/object/identity.h"
#include "runtime/object/places.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>

namespace weft::llvm {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStem = "libLLVM";

/// On merged systems /lib is /usr/lib, and listing thousands of files twice would show.
std::vector<std::string> without_repeats(const std::vector<std::string>& places) {
  std::vector<std::string> out;
  for (const std::string& place : places) {
    std::error_code failure;
    const std::string real = fs::canonical(place, failure).string();
    if (!failure && std::find(out.begin(), out.end(), real) == out.end()) out.push_back(real);
  }
  return out;
}

/// The loader's, then those of parallel installations, which the loader does not know.
std::vector<std::string> directories() {
  std::vector<std::string> out = object::loader_directories();
  for (const std::string& found : object::matches("/usr/lib/llvm-*/lib")) out.push_back(found);
  return without_repeats(out);
}

/// `libLLVM-19.so`, `libLLVM-19.so.1`, `libLLVM-14.0.6.so`, `libLLVM.so.22.1`: the major version. 0 for a plain
/// `libLLVM.so`. Nothing for other names, such as `libLLVM-22-rust-1.95.0-stable.so`.
std::optional<int> version_in(std::string_view name) {
  if (name.substr(0, kStem.size()) != kStem) return std::nullopt;
  name.remove_prefix(kStem.size());
  int version = 0;
  std::size_t suffixes = 0;
  while (!name.empty()) {
    if (name.substr(0, 3) == ".so" && (name.size() == 3 || name[3] == '.')) {
      ++suffixes;
      name.remove_prefix(3);
      continue;
    }
    const bool begins_number = name.size() > 1 && (name[0] == '.' || (name[0] == '-' && suffixes == 0));
    int number = 0;
    const char* end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + std::min<std::size_t>(1, name.size()), end, number);
    if (!begins_number || parsed.ec != std::errc() || number < 0) return std::nullopt;
    if (version == 0) version = number;
    name = std::string_view(parsed.ptr, static_cast<std::size_t>(end - parsed.ptr));
  }
  if (suffixes != 1) return std::nullopt;
  return version;
}

std::optional<Candidate> candidate(const fs::path& file) {
  const auto version = version_in(file.filename().string());
  std::error_code failure;
  const fs::path real = fs::canonical(file, failure);
  if (!version || failure) return std::nullopt;
  Candidate out{.path = real.string(), .version = *version, .rejected = {}};
  // `libLLVM-19.so.1` counts its own interface, 1; and a plain link tells nothing: the file behind it does.
  if (out.version == 0) out.version = version_in(real.filename().string()).value_or(0);
  if (out.version == 0) {
    out.rejected = "its name tells no version; set WEFT_LLVM to use it";
  } else if (out.version < kOldestVersion) {
    out.rejected = fmt::format("LLVM {} is too old, {} or newer is needed", out.version, kOldestVersion);
  }
  return out;
}

std::vector<Candidate> candidates_in(const std::vector<std::string>& places) {
  std::vector<Candidate> out;
  for (const std::string& place : places) {
    std::error_code failure;
    for (fs::directory_iterator entry(place, failure), end; !failure && entry != end; entry.increment(failure)) {
      if (entry->path().native().find(kStem) == std::string::npos) continue;
      auto found = candidate(entry->path());
      const bool known = !found || std::any_of(out.begin(), out.end(),
                                               [&](const Candidate& other) { return other.path == found->path; });
      if (!known) out.push_back(std::move(*found));
    }
  }
  // Directory order is not defined: equal versions by place of the directory would be, but a path is enough
  // to make the choice the same each time.
  std::sort(out.begin(), out.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(b.version, a.path) < std::tie(a.version, b.path);
  });
  return out;
}

struct PackageManager {
  const char* program;
  const char* command;
};
constexpr PackageManager kPackageManagers[] = {{"/usr/bin/apt-get", "apt-get install libllvm19"},
                                               {"/usr/bin/dnf", "dnf install llvm-libs"},
                                               {"/usr/bin/zypper", "zypper install libLLVM19"},
                                               {"/usr/bin/pacman", "pacman -S llvm-libs"},
                                               {"/sbin/apk", "apk add llvm19-libs"}};

std::string install_command() {
  for (const PackageManager& manager : kPackageManagers) {
    if (fs::exists(manager.program)) return manager.command;
  }
  return fmt::format("install LLVM's shared library, version {} or newer, or set WEFT_LLVM to its path",
                     kOldestVersion);
}

Error no_llvm(std::string message) {
  Error error = environment_error(std::move(message));
  error.notes.push_back("to install it: " + install_command());
  error.notes.push_back("or set WEFT_LLVM to the path of a libLLVM.so");
  return error;
}

Result<std::string> newest(const std::vector<Candidate>& candidates, const std::string& where) {
  for (const Candidate& found : candidates) {
    if (found.rejected.empty()) return found.path;
  }
  Error error = no_llvm(fmt::format("the CPU compiler needs LLVM {} or newer, and {} has none", kOldestVersion, where));
  for (const Candidate& found : candidates) {
    error.notes.push_back(fmt::format("passed over {}: {}", found.path, found.rejected));
  }
  return error;
}

Result<std::string> locate_explicit(const std::string& path, const char* origin) {
  std::error_code failure;
  if (fs::is_directory(path, failure)) return newest(candidates_in({path}), path);
  const fs::path real = fs::canonical(path, failure);
  if (failure) return no_llvm(fmt::format("{} names {} as LLVM: {}", origin, path, failure.message()));
  // A name that tells no version is the user's word; one that tells an old version is not worth opening.
  const auto named = candidate(path);
  if (named && named->version != 0 && !named->rejected.empty()) {
    return no_llvm(fmt::format("{} names {}: {}", origin, path, named->rejected));
  }
  return real.string();
}

ForkSafe<> mutex;                               // of what follows
std::map<std::string, std::string> found_with;  // by LD_LIBRARY_PATH

/// Searching takes a millisecond; a key must not. What was found stays found for the life of the process,
/// which also keeps the identity in keys that of the library that is open.
Result<std::string> locate_installed() {
  const char* variable = std::getenv("LD_LIBRARY_PATH");
  const std::lock_guard lock(mutex);
  std::string& found = found_with[variable == nullptr ? "" : variable];
  if (found.empty()) {
    WEFT_TRY(found, newest(installed(), "this machine"));
  }
  return found;
}

}  // namespace

std::vector<Candidate> installed() { return candidates_in(directories()); }

Result<std::string> locate(const std::string& option) {
  if (!option.empty()) return locate_explicit(option, "the option");
  if (const char* variable = std::getenv("WEFT_LLVM"); variable != nullptr && *variable != '\0') {
    return locate_explicit(variable, "WEFT_LLVM");
  }
  return locate_installed();
}

Result<std::string> identity(const std::string& option) {
  WEFT_TRY(const std::string path, locate(option));
  return object::library_identity(path);
}

Report examine(const std::string& option) {
  Report out;
  out.candidates = installed();
  const auto library = Library::open(option);
  if (!library.ok()) {
    out.reason = library.error().message;
    out.mend = install_command();
    return out;
  }
  out.usable = true;
  out.path = (*library)->path();
  out.version = (*library)->version().text();
  return out;
}

}  // namespace weft::llvm
