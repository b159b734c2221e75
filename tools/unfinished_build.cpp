#include "tools/unfinished_build.h"

#include "compiler/base/digest.h"
#include "kernels_cache/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace weft::tools {

namespace {

namespace fs = std::filesystem;

constexpr const char* kNote = "/.weft-unfinished-build";

/// Long names are shortened to a digest: a folder's name is as long as the file's may be.
std::string folder_of(const std::string& bundle) {
  constexpr std::size_t kLongest = 240;
  const fs::path path(bundle);
  const auto name = path.filename().string();
  if (name.size() <= kLongest) return bundle + ".partial";
  return (path.parent_path() / (".weft-" + hex(sha256(name)).substr(0, 16) + ".partial")).string();
}

Error in_the_way(const std::string& folder) {
  auto error = user_error(fmt::format("{} is in the way: it is no unfinished build of this user's", folder));
  error.notes.emplace_back("finished kernels are kept there until the bundle is written; move it, or name another -o");
  return error;
}

/// A folder of our own: with the note, or still empty, as one is in which a build was killed at once.
bool is_ours(const std::string& folder) {
  struct stat info {};
  if (::lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != ::geteuid()) return false;
  struct stat note {};
  if (::lstat((folder + kNote).c_str(), &note) == 0) return S_ISREG(note.st_mode) && note.st_uid == ::geteuid();
  std::error_code failure;
  return fs::is_empty(folder, failure) && !failure;
}

}  // namespace

Result<UnfinishedBuild> UnfinishedBuild::of(const std::string& bundle) {
  const auto folder = folder_of(bundle);
  const auto cannot = [&] {
    return environment_error(fmt::format("cannot write {}: {}", folder, std::strerror(errno)));
  };
  if (::mkdir(folder.c_str(), 0700) != 0) {
    if (errno != EEXIST) return cannot();
    if (!is_ours(folder)) return in_the_way(folder);
  }
  const int note = ::open((folder + kNote).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (note < 0) return cannot();
  ::close(note);
  return UnfinishedBuild(folder);
}

void UnfinishedBuild::remove() const {
  cache::Store::open({.directory = folder_})->clear();
  std::error_code ignored;
  for (const auto& store : fs::directory_iterator(folder_, ignored)) {
    if (!store.is_directory(ignored) || store.is_symlink(ignored)) continue;
    for (const auto& shard : fs::directory_iterator(store.path(), ignored)) {
      if (shard.is_directory(ignored)) fs::remove(shard.path(), ignored);  // of empty folders; others stay
    }
    fs::remove(store.path(), ignored);
  }
  // The note goes last: without it a folder that is not empty is nobody's.
  const bool only_note = std::distance(fs::directory_iterator(folder_, ignored), fs::directory_iterator()) == 1;
  if (!only_note) return;
  ::unlink((folder_ + kNote).c_str());
  ::rmdir(folder_.c_str());
}

}  // namespace weft::tools
