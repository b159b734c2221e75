#include "kernels_cache/directory.h"

#include "compiler/base/write.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

namespace weft::cache {
namespace {

constexpr mode_t kDirectoryMode = 0700;
constexpr mode_t kFileMode = 0600;

/// Repeats an interrupted call; errno or 0.
template <typename Call>
int repeat(Call call) {
  while (call() < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

int open_at(int at, const char* name, int flags, Descriptor& out, mode_t mode = 0) {
  int fd = -1;
  const int failure = repeat([&] { return fd = ::openat(at, name, flags | O_CLOEXEC, mode); });
  if (failure == 0) out = Descriptor(fd);
  return failure;
}

int open_with_info(int at, const char* name, int flags, Descriptor& out, struct stat& info) {
  Descriptor opened;
  if (const int failure = open_at(at, name, flags, opened)) return failure;
  if (::fstat(opened.get(), &info) != 0) return errno;
  out = std::move(opened);
  return 0;
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

std::string unsafe_because(const struct stat& info) {
  if (info.st_uid != ::geteuid() && info.st_uid != 0) return fmt::format("it belongs to user {}", info.st_uid);
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return fmt::format("others can write to it (mode {:04o})", info.st_mode & 07777);
  }
  return {};
}

int make_path(const std::string& path) {
  for (std::size_t end = 1; end != std::string::npos;) {
    end = path.find('/', end + 1);
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), kDirectoryMode) != 0 && errno != EEXIST) return errno;
  }
  return 0;
}

int make_directory(const Descriptor& at, const std::string& name) {
  return ::mkdirat(at.get(), name.c_str(), kDirectoryMode) == 0 || errno == EEXIST ? 0 : errno;
}

int open_root(const std::string& path, Descriptor& out, struct stat& info) {
  return open_with_info(AT_FDCWD, path.c_str(), O_RDONLY | O_DIRECTORY, out, info);
}

int open_directory(const Descriptor& at, const std::string& name, Descriptor& out, struct stat& info) {
  return open_with_info(at.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW, out, info);
}

bool can_write(const Descriptor& directory) { return ::faccessat(directory.get(), ".", W_OK | X_OK, AT_EACCESS) == 0; }

int open_file(const Descriptor& at, const std::string& name, Descriptor& out, struct stat& info) {
  return open_with_info(at.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, out, info);
}

int read_whole(const Descriptor& file, std::uint64_t size, std::string& out) {
  out.resize(size);
  for (std::size_t have = 0; have < size;) {
    ssize_t got = 0;
    if (const int failure = repeat([&] { return got = ::read(file.get(), out.data() + have, size - have); })) {
      return failure;
    }
    if (got == 0) return EIO;
    have += static_cast<std::size_t>(got);
  }
  return 0;
}

int write_new(const Descriptor& at, const std::string& name, std::string_view bytes) {
  Descriptor file;
  if (const int failure = open_at(at.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, file, kFileMode)) {
    return failure;
  }
  int failure = write_whole(file.get(), bytes);
  if (failure == 0) failure = repeat([&] { return ::fsync(file.get()); });
  if (failure != 0) (void)remove_in(at, name);
  return failure;
}

int open_note(const Descriptor& at, const std::string& name, Descriptor& out) {
  return open_at(at.get(), name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, out, kFileMode);
}

std::string read_note(const Descriptor& file) {
  std::array<char, kLongestNote> bytes{};
  ssize_t got = 0;
  if (repeat([&] { return got = ::pread(file.get(), bytes.data(), bytes.size(), 0); }) != 0) return {};
  return {bytes.data(), static_cast<std::size_t>(got)};
}

void write_note(const Descriptor& file, std::string_view text) {
  if (repeat([&] { return ::ftruncate(file.get(), 0); }) != 0) return;
  const NoFileSizeSignal quiet;
  (void)repeat([&] { return ::pwrite(file.get(), text.data(), text.size(), 0); });
}

int try_lock(const Descriptor& file) {
  return repeat([&] { return ::flock(file.get(), LOCK_EX | LOCK_NB); });
}

void unlock(const Descriptor& file) { (void)::flock(file.get(), LOCK_UN); }

int rename_in(const Descriptor& at, const std::string& from, const std::string& to) {
  return repeat([&] { return ::renameat(at.get(), from.c_str(), at.get(), to.c_str()); });
}

int remove_in(const Descriptor& at, const std::string& name) {
  return repeat([&] { return ::unlinkat(at.get(), name.c_str(), 0); });
}

int sync(const Descriptor& directory) {
  return repeat([&] { return ::fsync(directory.get()); });
}

int list(const Descriptor& directory, std::vector<Listed>& out) {
  // A descriptor of its own: reading moves its position, which duplicates would share.
  Descriptor own;
  if (const int failure = open_at(directory.get(), ".", O_RDONLY | O_DIRECTORY, own)) return failure;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(own.get()), ::closedir);
  if (stream == nullptr) return errno;
  (void)own.release();  // the stream closes it
  while (const dirent* entry = ::readdir(stream.get())) {
    Listed item{.name = entry->d_name, .info = {}};
    if (item.name == "." || item.name == "..") continue;
    if (::fstatat(directory.get(), entry->d_name, &item.info, AT_SYMLINK_NOFOLLOW) == 0) out.push_back(std::move(item));
  }
  return 0;
}

}  // namespace weft::cache
