#pragma once

#include "runtime/nvrtc/compile.h"
#include "runtime/nvrtc/search.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

/// Folders, variables and libraries as a test wants them.
namespace weft::nvrtc {

namespace fs = std::filesystem;

class Variable {
 public:
  /// An empty value unsets.
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    value.empty() ? unsetenv(name) : setenv(name, value.c_str(), 1);
  }
  ~Variable() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

class Directory {
 public:
  Directory() {
    std::string pattern = (fs::temp_directory_path() / "weft nvrtc [*]-XXXXXX").string();
    path_ = fs::canonical(mkdtemp(pattern.data()));
  }
  ~Directory() { fs::remove_all(path_); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  std::string path() const { return path_.string(); }
  std::string path(const std::string& name) const { return (path_ / name).string(); }
  std::string file(const std::string& name, const std::string& contents) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << contents;
    return path(name);
  }
  std::string copy(const std::string& from, const std::string& name) const {
    fs::create_directories((path_ / name).parent_path());
    fs::copy_file(from, path_ / name, fs::copy_options::overwrite_existing);
    return path(name);
  }

 private:
  fs::path path_;
};

struct Fake {
  const char* built;
  const char* major;
  const char* release;
};
inline constexpr Fake kFake11_8 = {FAKE_NVRTC_11_8, "11.2", "11.8"};
inline constexpr Fake kFake12_9 = {FAKE_NVRTC_12_9, "12", "12.9"};
inline constexpr Fake kFake13_0 = {FAKE_NVRTC_13_0, "13", "13.0"};
inline constexpr Fake kFake13_5 = {FAKE_NVRTC_13_5, "13", "13.5"};

/// The fake with its builtins, as NVIDIA names them; the path of the library.
inline std::string plant(const Directory& place, const Fake& fake, const std::string& folder = "") {
  const std::string prefix = folder.empty() ? "" : folder + "/";
  place.copy(fake.built, prefix + "libnvrtc-builtins.so." + fake.release);
  return place.copy(fake.built, prefix + "libnvrtc.so." + fake.major);
}

inline Target named(const std::string& name) { return *find_target(name); }

inline bool mentions(const Error& error, const std::string& text) {
  for (const std::string& note : error.notes) {
    if (note.find(text) != std::string::npos) return true;
  }
  return error.message.find(text) != std::string::npos;
}

/// The real NVRTC for a target, or null and a failed test that says how to install it.
inline std::shared_ptr<const Library> library_for(const Target& target) {
  const auto found = locate(target);
  if (found.ok()) return *found;
  std::string notes;
  for (const std::string& note : found.error().notes) notes += "\n  " + note;
  ADD_FAILURE() << found.error().message << notes;
  return nullptr;
}

inline std::vector<Target> cuda_targets() {
  std::vector<Target> out;
  for (const Target& target : known_targets()) {
    if (target.kind == TargetKind::cuda) out.push_back(target);
  }
  return out;
}

}  // namespace weft::nvrtc
