#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// The store's system calls. Files are named relative to an open directory and links are not followed, so that
/// what was checked is what is used. Each returns 0 or an errno; interrupted calls are repeated.
namespace weft::cache {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();

  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// Why a file or directory with this owner and mode cannot be trusted to hold code: someone but us and the
/// administrator could have written it. Empty where it can.
std::string unsafe_because(const struct stat& info);

/// Makes what is missing of the path, for us alone (0700).
[[nodiscard]] int make_path(const std::string& path);
[[nodiscard]] int make_directory(const Descriptor& at, const std::string& name);

/// The last component may be a link: where the user's store lies is the user's business.
[[nodiscard]] int open_root(const std::string& path, Descriptor& out, struct stat& info);
[[nodiscard]] int open_directory(const Descriptor& at, const std::string& name, Descriptor& out, struct stat& info);

bool can_write(const Descriptor& directory);

/// Never blocks, whatever kind of file lies there; ELOOP for a link.
[[nodiscard]] int open_file(const Descriptor& at, const std::string& name, Descriptor& out, struct stat& info);

/// Exactly `size` bytes from the start; EIO where there are fewer.
[[nodiscard]] int read_whole(const Descriptor& file, std::uint64_t size, std::string& out);

/// A new file of ours (0600) with these bytes, on the disk when it returns. Removed again on failure.
[[nodiscard]] int write_new(const Descriptor& at, const std::string& name, std::string_view bytes);

/// A small file of ours to read and write in place, made where there is none. Never blocks.
[[nodiscard]] int open_note(const Descriptor& at, const std::string& name, Descriptor& out);
/// Its first bytes, as many as a note has; empty where it cannot be read.
std::string read_note(const Descriptor& file);
/// Nothing depends on its success, nor on its being whole.
void write_note(const Descriptor& file, std::string_view text);

/// EWOULDBLOCK where another descriptor's file has the lock. Ends with the last descriptor of the same opening, or
/// here.
[[nodiscard]] int try_lock(const Descriptor& file);
void unlock(const Descriptor& file);

[[nodiscard]] int rename_in(const Descriptor& at, const std::string& from, const std::string& to);
[[nodiscard]] int remove_in(const Descriptor& at, const std::string& name);
[[nodiscard]] int sync(const Descriptor& directory);

/// Room for the text that a note has.
inline constexpr std::size_t kLongestNote = 64;

struct Listed {
  std::string name;
  struct stat info;
};
/// Everything in a directory but `.` and `..`; what vanishes meanwhile is left out.
[[nodiscard]] int list(const Descriptor& directory, std::vector<Listed>& out);

}  // namespace weft::cache
