#include "runtime/nvrtc/search.h"

#include "compiler/base/fork_safe.h"
#include "runtime/object/places.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>

namespace weft::nvrtc {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStem = "libnvrtc.so";
constexpr std::string_view kBuiltinsStem = "libnvrtc-builtins.so.";
constexpr const char* kMend = "./dev setup, or pip install nvidia-cuda-nvrtc-cu12==12.9.86";

struct Place {
  std::string directory;
  std::string origin;
};

/// Everything outside the file system that decides where is looked.
constexpr const char* kVariables[] = {"WEFT_NVRTC", "LD_LIBRARY_PATH", "CUDA_HOME",
                                      "CUDA_PATH",  "VIRTUAL_ENV",     "PATH",
                                      "HOME",       "CONDA_PREFIX",    "XDG_DATA_HOME"};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// ---------------------------------------------------------------- places

/// Where a toolkit, or a conda environment, keeps its libraries.
void add_toolkit(const std::string& root, const std::string& origin, std::vector<Place>& out) {
  for (const char* folder : {"/lib64", "/lib", "/targets/x86_64-linux/lib"}) out.push_back({root + folder, origin});
}

/// Where Pythons were installed to: `prefix/bin/python3`, a link to another prefix's, or a shim of pyenv's.
void add_python_on_path(std::vector<std::string>& prefixes) {
  for (const std::string& directory : object::variable_parts("PATH")) {
    const fs::path program = fs::path(directory) / "python3";
    if (::access(program.c_str(), X_OK) != 0) continue;
    std::error_code failure;
    const fs::path prefix = fs::path(directory).parent_path();
    prefixes.push_back(prefix.string());
    const fs::path real = fs::canonical(program, failure);
    if (!failure) prefixes.push_back(real.parent_path().parent_path().string());
    for (const std::string& version : object::matches(object::as_pattern(prefix.string()) + "/versions/*")) {
      prefixes.push_back(version);
    }
    return;
  }
}

std::vector<Place> places() {
  std::vector<Place> out;
  for (std::string& directory : object::loader_directories()) out.push_back({std::move(directory), "loader's path"});
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const std::string root = variable(name); !root.empty()) add_toolkit(root, name, out);
  }
  for (const std::string& root : object::matches("/usr/local/cuda*")) add_toolkit(root, root, out);
  for (const std::string& packages : python_package_folders()) {
    out.push_back({packages + "/nvidia/cuda_nvrtc/lib", "Python packages"});
    for (const std::string& found : object::matches(object::as_pattern(packages) + "/nvidia/cu[0-9]*/lib")) {
      out.push_back({found, "Python packages"});
    }
  }
  if (const std::string conda = variable("CONDA_PREFIX"); !conda.empty()) add_toolkit(conda, "CONDA_PREFIX", out);
  for (const std::string& folder : data_folders()) out.push_back({folder + "/nvrtc", "Weft's data folder"});
  return out;
}

// ---------------------------------------------------------------- candidates

std::optional<int> leading_number(std::string_view text) {
  int number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc() || number < 0) return std::nullopt;
  return number;
}

/// `libnvrtc.so`, `libnvrtc.so.12`, `libnvrtc.so.11.8.89`; not `libnvrtc.alt.so.12`, which needs builtins of its own.
bool is_nvrtc(std::string_view name) {
  return name == kStem || (name.starts_with(kStem) && name[kStem.size()] == '.' &&
                           name.find_first_not_of("0123456789.", kStem.size()) == std::string_view::npos);
}

/// The release, from the builtins beside the file, whose name has it in full: opening costs 5 ms a library. Nothing
/// where builtins of several releases, or none, would fit.
std::optional<Version> version_beside(const fs::path& file) {
  const std::string name = file.filename().string();
  const auto major = leading_number(std::string_view(name).substr(std::min(kStem.size() + 1, name.size())));
  std::optional<Version> out;
  std::error_code failure;
  for (fs::directory_iterator entry(file.parent_path(), failure), end; !failure && entry != end;
       entry.increment(failure)) {
    const std::string other = entry->path().filename().string();
    if (!other.starts_with(kBuiltinsStem)) continue;
    const std::string_view digits = std::string_view(other).substr(kBuiltinsStem.size());
    const std::size_t dot = digits.find('.');
    if (dot == std::string_view::npos) continue;
    const auto found_major = leading_number(digits);
    const auto minor = leading_number(digits.substr(dot + 1));
    if (!found_major || !minor || (major && *major != *found_major)) continue;
    const Version found{*found_major, *minor};
    if (out && *out != found) return std::nullopt;
    out = found;
  }
  return out;
}

Candidate candidate(const fs::path& real, const std::string& origin) {
  Candidate out{.path = real.string(), .version = {}, .origin = origin};
  if (const auto version = version_beside(real)) {
    out.version = *version;
  } else if (const auto library = Library::load(out.path); library.ok()) {
    out.version = (*library)->version();
  }
  return out;
}

std::vector<Candidate> candidates_in(const std::vector<Place>& where) {
  std::vector<Candidate> out;
  std::vector<std::string> seen;  // on merged systems /lib is /usr/lib, and listing thousands of files twice shows
  for (const Place& place : where) {
    std::error_code failure;
    const std::string directory = fs::canonical(place.directory, failure).string();
    if (failure || std::find(seen.begin(), seen.end(), directory) != seen.end()) continue;
    seen.push_back(directory);
    std::vector<std::string> files;  // libnvrtc.so and libnvrtc.so.12 are one
    for (fs::directory_iterator entry(directory, failure), end; !failure && entry != end; entry.increment(failure)) {
      std::error_code gone;
      if (!is_nvrtc(entry->path().filename().string())) continue;
      if (const fs::path real = fs::canonical(entry->path(), gone); !gone) files.push_back(real.string());
    }
    std::sort(files.begin(), files.end());
    for (const std::string& file : files) {
      const bool known =
          std::any_of(out.begin(), out.end(), [&](const Candidate& other) { return other.path == file; });
      if (!known) out.push_back(candidate(file, place.origin));
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Candidate& a, const Candidate& b) { return a.version > b.version; });
  return out;
}

/// An explicit path as candidates: one file, or what a folder holds.
Result<std::vector<Candidate>> candidates_at(const std::string& path, const std::string& origin) {
  std::error_code failure;
  if (fs::is_directory(path, failure)) {
    std::vector<Place> where = {{path, origin}};
    add_toolkit(path, origin, where);
    return candidates_in(where);
  }
  const fs::path real = fs::canonical(path, failure);
  if (failure) return environment_error(fmt::format("{} names {} as NVRTC: {}", origin, path, failure.message()));
  return std::vector<Candidate>{candidate(real, origin)};
}

/// What the user named, and by what; an empty path where nothing was.
struct Explicit {
  std::string path;
  const char* origin;
};
Explicit named_by_user(const std::string& option) {
  if (!option.empty()) return {option, "the option"};
  return {variable("WEFT_NVRTC"), "WEFT_NVRTC"};
}

// ---------------------------------------------------------------- the choice

Error with_mend(Error error) {
  error.notes.push_back(fmt::format("to install one that knows every architecture: {}", kMend));
  error.notes.push_back("or set WEFT_NVRTC to the path of a libnvrtc.so");
  return error;
}

/// Those that a driver keeps up with, newest first, then the others, oldest first.
void put_in_order(std::vector<Candidate>& candidates, const Runnable& runnable) {
  if (runnable.newest_major == 0) return;
  const auto newer = std::stable_partition(candidates.begin(), candidates.end(), [&](const Candidate& one) {
    return one.version.major <= runnable.newest_major;
  });
  std::reverse(newer, candidates.end());
}

Result<std::shared_ptr<const Library>> best_for(const Target& target, std::vector<Candidate> candidates,
                                                const std::string& where, const Runnable& runnable) {
  put_in_order(candidates, runnable);
  Error error = environment_error(
      fmt::format("compiling for {} needs an NVRTC that knows it, and {} has none", target.name, where));
  for (const Candidate& found : candidates) {
    if (std::count(runnable.refused.begin(), runnable.refused.end(), found.path) > 0) {
      error.notes.push_back(
          fmt::format("passed over {} ({}): the driver does not take its kernels", found.path, found.version.text()));
      continue;
    }
    const auto library = Library::load(found.path);
    if (library.ok() && (*library)->knows(target)) return *library;
    error.notes.push_back(library.ok() ? fmt::format("passed over {} ({}): it knows {}", found.path,
                                                     found.version.text(), (*library)->architectures_text())
                                       : library.error().message);
  }
  return with_mend(std::move(error));
}

ForkSafe<> mutex;  // of what follows
std::map<std::vector<std::string>, std::shared_ptr<const Library>> found_with;

/// Searching takes milliseconds; a key must not.
Result<std::shared_ptr<const Library>> locate_installed(const Target& target, const Runnable& runnable) {
  std::vector<std::string> circumstances = {target.name, std::to_string(runnable.newest_major)};
  circumstances.insert(circumstances.end(), runnable.refused.begin(), runnable.refused.end());
  for (const char* name : kVariables) circumstances.push_back(variable(name));
  const std::lock_guard lock(mutex);
  if (const auto found = found_with.find(circumstances); found != found_with.end()) return found->second;
  WEFT_TRY(auto library, best_for(target, installed(), "this machine", runnable));
  found_with.emplace(std::move(circumstances), library);
  return library;
}

}  // namespace

std::vector<std::string> data_folders() {
  std::vector<std::string> out;
  const std::string data = variable("XDG_DATA_HOME");
  const std::string home = variable("HOME");
  if (data.starts_with('/')) {
    out.push_back(data + "/weft");
  } else if (home.starts_with('/')) {
    out.push_back(home + "/.local/share/weft");
  }
  out.insert(out.end(), {"/usr/local/share/weft", "/usr/share/weft"});
  return out;
}

std::vector<std::string> python_package_folders() {
  std::vector<std::string> prefixes;
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (std::string prefix = variable(name); !prefix.empty()) prefixes.push_back(std::move(prefix));
  }
  add_python_on_path(prefixes);
  if (const std::string home = variable("HOME"); home.starts_with('/')) prefixes.push_back(home + "/.local");
  prefixes.insert(prefixes.end(), {"/usr/local", "/usr"});
  std::vector<std::string> out;
  for (const std::string& prefix : prefixes) {
    for (const char* folder :
         {"/lib/python3*/site-packages", "/lib/python3*/dist-packages", "/lib64/python3*/site-packages"}) {
      for (std::string& found : object::matches(object::as_pattern(prefix) + folder)) {
        if (std::find(out.begin(), out.end(), found) == out.end()) out.push_back(std::move(found));
      }
    }
  }
  return out;
}

std::vector<Candidate> installed() { return candidates_in(places()); }

Result<std::shared_ptr<const Library>> locate(const Target& target, const std::string& option,
                                              const Runnable& runnable) {
  if (target.kind != TargetKind::cuda) return internal_error(target.name + " is not a target of NVRTC's");
  const auto [path, origin] = named_by_user(option);
  if (path.empty()) return locate_installed(target, runnable);
  auto candidates = candidates_at(path, origin);
  if (!candidates) return with_mend(std::move(candidates).error());
  return best_for(target, *std::move(candidates), fmt::format("{} ({})", path, origin), runnable);
}

Result<std::string> identity(const Target& target, const std::string& option, const Runnable& runnable) {
  WEFT_TRY(const auto library, locate(target, option, runnable));
  return library->identity();
}

const Library* Report::for_target(const Target& target) const {
  for (const Item& item : items) {
    if (item.library != nullptr && item.library->knows(target)) return item.library.get();
  }
  return nullptr;
}

Report examine(const std::string& option) {
  Report out;
  const auto [path, origin] = named_by_user(option);
  std::vector<Candidate> candidates;
  if (path.empty()) {
    candidates = installed();
    if (candidates.empty()) out.missing = "no libnvrtc was found";
  } else if (auto named = candidates_at(path, origin); !named.ok()) {
    out.missing = named.error().message;
  } else if (candidates = *std::move(named); candidates.empty()) {
    out.missing = fmt::format("{} names {}, where no libnvrtc is", origin, path);
  }
  for (Candidate& found : candidates) {
    auto library = Library::load(found.path);
    if (library.ok()) {
      out.items.push_back({.candidate = std::move(found), .library = *library, .reason = {}});
    } else {
      out.items.push_back({.candidate = std::move(found), .library = nullptr, .reason = library.error().message});
    }
  }
  for (const Target& target : known_targets()) {
    if (target.kind == TargetKind::cuda && out.for_target(target) == nullptr) out.mend = kMend;
  }
  return out;
}

}  // namespace weft::nvrtc
