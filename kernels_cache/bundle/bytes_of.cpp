#include "kernels_cache/bundle/bytes_of.h"

#include "kernels_cache/directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace weft::bundle {
namespace {

class File : public Bytes {
 public:
  File(cache::Descriptor file, std::uint64_t size) : file_(std::move(file)), size_(size) {}
  std::uint64_t size() const override { return size_; }

  Result<std::string> read(std::uint64_t at, std::uint64_t length) const override {
    std::string out(length, '\0');
    for (std::size_t have = 0; have < out.size();) {
      const auto got = ::pread(file_.get(), out.data() + have, out.size() - have, static_cast<off_t>(at + have));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return environment_error(fmt::format("it cannot be read: {}", std::strerror(errno)));
      if (got == 0) return environment_error("it became shorter while it was read");
      have += static_cast<std::size_t>(got);
    }
    return out;
  }

 private:
  cache::Descriptor file_;
  std::uint64_t size_;
};

class Memory : public Bytes {
 public:
  explicit Memory(std::string_view bytes) : bytes_(bytes) {}
  std::uint64_t size() const override { return bytes_.size(); }
  Result<std::string> read(std::uint64_t at, std::uint64_t length) const override {
    return std::string(bytes_.substr(at, length));
  }

 private:
  std::string_view bytes_;
};

}  // namespace

Result<std::unique_ptr<const Bytes>> bytes_of_file(const std::string& path) {
  int number = -1;
  do {  // a pipe must not block
    number = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  } while (number < 0 && errno == EINTR);
  const int failure = errno;
  cache::Descriptor file(number);
  if (!file) {
    auto error = environment_error(fmt::format("it cannot be opened: {}", std::strerror(failure)));
    if (failure == ENOENT || failure == ENOTDIR) error = user_error("there is no such file");
    return error;
  }
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) {
    return environment_error(fmt::format("it cannot be read: {}", std::strerror(errno)));
  }
  if (!S_ISREG(info.st_mode)) return user_error("it is no regular file");
  return std::unique_ptr<const Bytes>(
      std::make_unique<File>(std::move(file), static_cast<std::uint64_t>(info.st_size)));
}

std::unique_ptr<const Bytes> bytes_in_memory(std::string_view bytes) { return std::make_unique<Memory>(bytes); }

}  // namespace weft::bundle
